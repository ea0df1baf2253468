"""Relaxed rows: a mixture of a few hundred product distributions, of one size for any measured cliques."""
