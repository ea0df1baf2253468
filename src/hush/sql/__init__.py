"""Counting queries in SQL, read against a schema alone: conditions, groups and sums as numbers over cells."""
