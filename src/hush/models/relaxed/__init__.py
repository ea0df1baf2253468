"""Relaxed rows: a few hundred rows of probabilities, fitted to noisy answers of any kind."""
