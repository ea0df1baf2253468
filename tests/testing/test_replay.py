import logging
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush import Workload, queries
from hush.core.domain import Clique, Domain
from hush.core.errors import ReplayError
from hush.linops.explicit import Equivalent
from hush.mechanisms import HDMM
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.gate import Counts, Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, Neighbours, RowNorms
from hush.testing import TinyTable, check_replay, neighbours_of
from hush.testing.replay import fingerprint

DOMAIN = Domain({"a": 2, "b": 2})
TABLE = TinyTable(DOMAIN, [(0, 0), (1, 1), (1, 0)])
NOISE = DiscreteGaussian.of_scale(2)


@dataclass(frozen=True)
class First:
    """Scores cliques by the count of their first cell, claiming a sensitivity."""

    claimed: float = 1.0
    cliques: tuple[Clique, ...] = (("a",), ("b",))
    candidates: int = 2

    @property
    def row_norms(self) -> RowNorms:
        return RowNorms.of_number(Fraction(self.claimed), Fraction(self.claimed))

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        return Scores(np.array([float(counts[clique].flat[0]) for clique in self.cliques]), float(bound))


@dataclass(frozen=True)
class Doubled:
    """Twice the marginal with the sensitivity of one: a classic mistake."""

    clique: Clique

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        return ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray:
        return 2 * counts[self.clique]


def honest(table: TinyTable) -> Any:
    gate = Gate(table, Allowance(Budget(rho=5.0)))
    first = next(gate.measure([Request(MarginalQuery(("a",)), NOISE)]))
    pick = gate.select(First(), ExponentialMechanism(Fraction(1)))
    second = list(gate.measure([Request(MarginalQuery((("a",), ("b",))[pick]), NOISE)]))
    return {"first": first.values, "pick": pick, "rest": [noisy.values for noisy in second]}


def leaky(what: Callable[[TinyTable], Any]) -> Callable[[TinyTable], Any]:
    def run(table: TinyTable) -> Any:
        return honest(table), what(table)

    return run


def measured(request: Callable[[TinyTable], Request]) -> Callable[[TinyTable], Any]:
    def run(table: TinyTable) -> Any:
        return [noisy.values for noisy in Gate(table, Allowance(Budget(rho=50.0))).measure([request(table)])]

    return run


def test_an_honest_computation_passes_on_every_neighbour() -> None:
    assert check_replay(honest, TABLE, neighbours_of(TABLE)) == 3 + 4


LEAKS: dict[str, Callable[[TinyTable], Any]] = {
    "row count": leaky(lambda table: len(table.rows)),
    "exact cell": leaky(lambda table: table.counts([("a",)])[("a",)]),
    "printed": leaky(lambda table: print(len(table.rows))),
    "printed to stderr": leaky(lambda table: print(len(table.rows), file=sys.stderr)),
    "logged": leaky(lambda table: logging.getLogger("x").warning("rows: %d", len(table.rows))),
    "warned": leaky(lambda table: warnings.warn(f"{len(table.rows)} rows")),
    "raised": leaky(lambda table: 1 // (3 - len(table.rows)) if len(table.rows) == 3 else 0),
    "message": leaky(lambda table: table.rows[5 + len(table.rows)] if len(table.rows) > 3 else {}[len(table.rows)]),
    "noise chosen by data": measured(
        lambda table: Request(MarginalQuery(("a",)), DiscreteGaussian.of_scale(1 + len(table.rows)))
    ),
    "query chosen by data": measured(
        lambda table: Request(MarginalQuery(("a",) if len(table.rows) > 3 else ("b",)), NOISE)
    ),
    "sensitivity too small": measured(lambda table: Request(Doubled(("a",)), NOISE)),
    "extra passage": lambda table: [honest(table) for _ in table.rows],
    "score sensitivity too small": lambda table: Gate(table, Allowance(Budget(rho=5.0))).select(
        First(claimed=0.5), ExponentialMechanism(Fraction(1))
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_leaks_are_found(leak: str) -> None:
    with pytest.raises(ReplayError):
        check_replay(LEAKS[leak], TABLE, neighbours_of(TABLE))


def test_what_is_to_measure_nothing_may_neither_pass_the_gate_nor_depend_on_rows() -> None:
    assert check_replay(lambda table: "0", TABLE, neighbours_of(TABLE), measures=False) > 0
    with pytest.raises(ReplayError, match="depends on the data"):
        check_replay(lambda table: len(table.rows), TABLE, neighbours_of(TABLE), measures=False)
    plan = hush.plan(Workload.kway(DOMAIN, 1), Budget(rho=0.5))
    with pytest.raises(ReplayError, match="nothing was to be measured"):
        check_replay(lambda table: repr(plan.release(table)), TABLE, neighbours_of(TABLE), measures=False)


def test_files_are_compared_by_content(tmp_path: Path) -> None:
    def run(table: TinyTable) -> Path:
        values = honest(table)["first"]
        (tmp_path / "release.bin").write_bytes(values.tobytes() + bytes(extra(table)))
        return tmp_path / "release.bin"

    extra: Callable[[TinyTable], list[int]] = lambda table: []  # noqa: E731
    assert check_replay(run, TABLE, neighbours_of(TABLE)) == 7
    extra = lambda table: [len(table.rows)]  # noqa: E731
    with pytest.raises(ReplayError, match="result"):
        check_replay(run, TABLE, neighbours_of(TABLE))


def test_a_check_of_nothing_is_refused() -> None:
    with pytest.raises(ReplayError, match="nothing passed"):
        check_replay(lambda table: 1, TABLE, neighbours_of(TABLE))
    with pytest.raises(ReplayError, match="no neighbours"):
        check_replay(honest, TABLE, [])


def test_neighbours_are_all_of_them() -> None:
    assert len(list(neighbours_of(TABLE))) == 3 + 4
    assert len(list(neighbours_of(TABLE, Neighbours.REPLACE))) == 3 * 4
    assert {len(other.rows) for other in neighbours_of(TABLE, Neighbours.REPLACE)} == {3}


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: object) -> None:
        self.x = x


class Open:
    def __init__(self, x: object) -> None:
        self.x = x


@pytest.mark.parametrize("wrap", [lambda x: x, Slotted, Open, lambda x: [x], lambda x: {"k": x}, lambda x: {x}])
def test_fingerprints_tell_values_apart(wrap: Callable[[Any], Any]) -> None:
    assert fingerprint(wrap(1)) == fingerprint(wrap(1))
    assert fingerprint(wrap(1)) != fingerprint(wrap(2))
    assert fingerprint(wrap(0.0)) != fingerprint(wrap(-0.0))


def test_fingerprints_of_enumerations_and_types() -> None:
    assert fingerprint(Neighbours.REPLACE) == fingerprint(Neighbours.REPLACE)
    assert fingerprint(Neighbours.REPLACE) != fingerprint(Neighbours.ADD_REMOVE)
    assert fingerprint(Slotted) != fingerprint(Open)


def test_fingerprints_of_arrays_and_tables() -> None:
    assert fingerprint(np.array([1, 2])) != fingerprint(np.array([1.0, 2.0]))
    assert fingerprint(pa.table({"x": [1]})) != fingerprint(pa.table({"x": [2]}))
    with pytest.raises(ReplayError, match="cannot be compared"):
        fingerprint(object())


class Shared:
    """Public work that a run shares with later ones, some of it done on first use."""

    def __init__(self) -> None:
        self._root: object = None
        self.tables: dict[object, object] = {}

    @cached_property
    def seen(self) -> object:
        return 7

    def fill(self, key: object) -> None:
        self._root = 3
        self.tables[key] = self.seen


class SharedSlots:
    """The same with slots."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: object = None

    def fill(self, key: object) -> None:
        self._root = key


class SharedBoth(SharedSlots):
    """Slots, and a dictionary."""


@dataclass(frozen=True)
class Holding:
    """A marginal that carries such work along."""

    clique: Clique
    work: Any
    row_norms: ClassVar[RowNorms] = ONE_CELL

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    def answer(self, counts: Counts) -> np.ndarray:
        return counts[self.clique]


def filling(work: Any, key: Callable[[TinyTable], object]) -> Callable[[TinyTable], Any]:
    def run(table: TinyTable) -> Any:
        gate = Gate(table, Allowance(Budget(rho=5.0)))
        noisy = next(gate.measure([Request(Holding(("a",), work), NOISE)])).values
        work.fill(key(table))
        return noisy, work

    return run


@pytest.mark.parametrize("kind", [Shared, SharedSlots, SharedBoth])
def test_what_is_filled_on_first_use_is_no_leak_but_what_the_data_fill_is(kind: Callable[[], Any]) -> None:
    assert check_replay(filling(kind(), lambda table: "key"), TABLE, neighbours_of(TABLE)) == 7
    with pytest.raises(ReplayError):
        check_replay(filling(kind(), lambda table: len(table.rows)), TABLE, neighbours_of(TABLE))


class Late:
    """Public work in stages, each done by the run after the one before."""

    def __init__(self, stages: int) -> None:
        self.stages = stages
        self.done = 0

    def fill(self, key: object) -> None:
        self.done = min(self.done + 1, self.stages)


def test_what_later_runs_fill_is_no_leak() -> None:
    assert check_replay(filling(Late(4), lambda table: "key"), TABLE, neighbours_of(TABLE)) == 7


def test_runs_that_never_agree_are_refused() -> None:
    with pytest.raises(ReplayError, match="still differ after 8"):
        check_replay(filling(Late(10**9), lambda table: "key"), TABLE, neighbours_of(TABLE))


FRESH = """
import hush
from hush.testing import TinyTable, check_replay, neighbours_of

domain = hush.Domain({"a": 2, "b": 2})
table = TinyTable(domain, [(0, 0), (1, 1), (1, 0)])
plan = hush.plan(hush.Workload.upto(domain, 2), hush.Budget(rho=1.0), mechanism="mst")
print(check_replay(lambda source: (plan.release(source), plan), table, list(neighbours_of(table))[::3]))
"""


def test_a_whole_release_and_its_plan_are_compared_in_a_new_process() -> None:
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize("name", ["matrix", "residual", "hdmm", "direct"])
def test_a_mechanism_is_replayed_on_first_use(name: str) -> None:
    """Workload, strategy and requests of a plan are compared whole, caches and all; equivalents fill theirs late."""
    gram = Equivalent([[2.0, 1.0], [1.0, 2.0]], 3)
    workload = Workload.product(DOMAIN, {"a": gram, "b": queries.identity})
    plan = hush.plan(workload, Budget(rho=1.0), mechanism=HDMM(restarts=1) if name == "hdmm" else name)

    def run(table: TinyTable) -> Any:
        release = plan.release(table)
        gram.dense()
        requests = plan.strategy.requests()
        return requests, plan.workload, [noisy.values for noisy in release.measurements()], str(plan)

    assert check_replay(run, TABLE, neighbours_of(TABLE)) == 7
