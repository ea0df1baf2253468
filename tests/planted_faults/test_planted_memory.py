"""A planted fault of memory: the prediction comes after the charge; the walk over all mechanisms must catch it."""

from typing import Any

import pytest

from hush.mechanisms import session
from hush.mechanisms.mechanism import Mechanism
from planting import Bug, Patch

WALK = "mechanisms/test_mechanism_memory.py"
WIDE = f"{WALK}::test_a_column_of_a_million_levels_is_refused_before_the_charge_or_fits"
LIMIT = 1 << 27


def predicted_after_the_charge(patch: Patch) -> None:
    """The prediction is made when the first noisy numbers are there."""
    checks: list[Any] = []
    true, measure = Mechanism.check_memory, session.Session.measure

    def later(self: Any, *arguments: Any) -> float:
        checks.append(lambda: true(self, *arguments))
        return float("inf")

    def measured(self: Any, *arguments: Any, **options: Any) -> Any:
        answers = measure(self, *arguments, **options)
        while checks:
            checks.pop()()
        return answers

    patch.setattr(Mechanism, "check_memory", later)
    patch.setattr(session.Session, "measure", measured)


BUGS = {
    name: Bug(predicted_after_the_charge, WIDE, {"name": name, "limited": LIMIT})
    for name in ("mst", "aim, merged", "rap, tables", "independent")
}


@pytest.mark.parametrize("name", BUGS)
def test_a_prediction_after_the_charge_is_caught(name, monkeypatch, tmp_path) -> None:
    for file, size in (("max", LIMIT), ("current", 0)):
        (tmp_path / file).write_text(str(size))
    monkeypatch.setattr("hush.core.memory._CONTAINER_FILES", ((str(tmp_path / "max"), str(tmp_path / "current")),))
    BUGS[name].check(monkeypatch, tmp_path)
