"""Graphical models: one distribution of largest entropy over the measured cliques, exact on a junction tree."""
