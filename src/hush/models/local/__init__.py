"""Locally consistent tables: any two agree on the attributes they share, but no joint distribution is implied."""
