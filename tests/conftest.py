"""Settings that every test shares."""

import os

from hypothesis import settings

# examples are not timed: a busy machine is not a bug
# the same examples in every run, so that a red run means a change; HUSH_EXPLORE=1 draws new ones
settings.register_profile("hush", deadline=None, derandomize="HUSH_EXPLORE" not in os.environ)
settings.load_profile("hush")
