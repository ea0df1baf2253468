"""Schemas from private data, paid for: bounds, bins, points, levels and rows per person, found through the gate."""
