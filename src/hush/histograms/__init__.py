"""Histograms over one or two ordered columns: public grids, what is measured on them, and counts for every cell."""
