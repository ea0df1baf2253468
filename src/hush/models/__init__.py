"""Measurements become a distribution: graphical models, relaxed rows, locally consistent tables."""
