"""The version, in one place; a test compares it with the changelog."""

__version__ = "0.1.0"
