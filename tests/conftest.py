"""Settings that every test shares."""

from hypothesis import settings

# examples are not timed: a busy machine is not a bug
settings.register_profile("hush", deadline=None)
settings.load_profile("hush")
