"""The names of the room: each loads from its home, and a wrong one is refused with those that there are."""

import pytest

from hush import hybrid


def test_every_name_loads() -> None:
    assert all(getattr(hybrid, name) is not None for name in hybrid.__all__)
    assert hybrid.Question.__module__.startswith("hush.hybrid.client")


def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Blender'; known: .*find_head_list"):
        _ = hybrid.Blender  # type: ignore[attr-defined]
