"""The command line: thin commands over the Python API, one file each; `main` lists them."""
