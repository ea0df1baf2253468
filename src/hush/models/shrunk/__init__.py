"""Shrunk tables: noisy tables, shrunk toward what smaller tables predict by as much as the noise calls for."""
