"""Noisy measurements -> estimates."""
