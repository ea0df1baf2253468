"""Data in files: text, Parquet, spreadsheets, files of databases, standard input."""
