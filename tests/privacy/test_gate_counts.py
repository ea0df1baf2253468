"""What leaves the gate: exact whole numbers of any size, plus noise of the whole law, drawn anew for every cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.domain import Clique
from hush.core.errors import DataError
from hush.core.unit import ROW, Unit
from hush.privacy.account import Allowance
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import LARGEST_ANSWER, Counts, Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import ONE_CELL, RowNorms
from hush.testing import TinyTable, check_law

DOMAIN = Domain({"x": 2})
LEAST = DiscreteGaussian.of_scale(Fraction(1, 20))  # is not zero with probability below 1e-80
BEYOND = [2**24 - 1, 2**24, 2**24 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**60 + 1]


@dataclass
class Counted:
    """A source with these counts of two levels."""

    cells: tuple[int, int]
    domain: Domain = DOMAIN
    unit: Unit = ROW

    def require(self, cliques: Sequence[Clique]) -> None: ...
    def check(self, most_rows: int = 0) -> None: ...
    def counts(self, cliques: Sequence[Clique]) -> Counts:
        return {clique: np.array(self.cells, dtype=np.int64) for clique in cliques}


def gate(source: Any, **options: Any) -> Gate:
    return Gate(source, Allowance(Budget(rho=1e9)), **options)


@pytest.mark.parametrize("count", BEYOND)
def test_counts_beyond_what_floats_hold_are_not_rounded(count: int) -> None:
    """Float32 ends at 2^24 and float64 at 2^53: there, one row more would change nothing, or two."""
    asked = [Request(MarginalQuery(("x",)), LEAST)]
    (noisy,), (more,) = (list(gate(Counted((here, 7))).measure(asked)) for here in (count, count + 1))
    assert (noisy.raw.tolist(), more.raw.tolist()) == ([count, 7], [count + 1, 7])
    assert noisy.raw.dtype == np.int64


@pytest.mark.parametrize("law", [DiscreteGaussian.of_scale(2**40), DiscreteLaplace.of_scale(2**36)])
def test_noise_of_any_size_is_added_without_rounding(law: DiscreteGaussian | DiscreteLaplace) -> None:
    asked = [Request(MarginalQuery(("x",)), law)]
    (far,), (near,) = (
        list(gate(Counted(cells), entropy=NotPrivateEntropy(3)).measure(asked)) for cells in ((2**53 + 1, 1), (0, 0))
    )
    assert (far.raw - near.raw).tolist() == [2**53 + 1, 1]


@pytest.mark.parametrize("cells", [(LARGEST_ANSWER + 123456789, 0), (0, -LARGEST_ANSWER - 123456789)])
def test_counts_that_could_overflow_are_refused_and_not_told_of(cells: tuple[int, int]) -> None:
    with pytest.raises(DataError, match="too large to add noise to without overflow") as refused:
        next(gate(Counted(cells)).measure([Request(MarginalQuery(("x",)), LEAST)]))
    assert not any(character.isdigit() for character in str(refused.value).replace("int64", ""))


@dataclass(frozen=True)
class Halves:
    """A query that answers in halves."""

    cliques: tuple[Clique, ...] = (("x",),)
    row_norms: RowNorms = ONE_CELL

    def answer(self, counts: Counts) -> np.ndarray:
        return counts[("x",)] / 2


def test_answers_that_are_refused_are_not_told_of() -> None:
    with pytest.raises(DataError) as refused:
        next(gate(Counted((987654320, 0))).measure([Request(Halves(), LEAST)]))
    assert not any(text in str(refused.value) for text in ("98765", "49382"))


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_order_of_rows_changes_no_count(engine: str) -> None:
    domain, random = Domain({"a": 3, "b": 4}), np.random.Generator(np.random.PCG64(1))
    rows = {name: random.integers(domain[name], size=999) for name in domain}
    counted = []
    for order in (np.arange(999), random.permutation(999), np.arange(999)[::-1]):
        table = hush.read(pa.table({name: codes[order] for name, codes in rows.items()}), domain, engine=engine)
        counted.append(table.counts([("a", "b")])[("a", "b")])
    assert counted[0].dtype == np.int64
    assert all(np.array_equal(counted[0], other) for other in counted[1:])


@pytest.mark.slow
def test_more_rows_than_float32_can_count_are_counted() -> None:
    rows = 2**24 + 1
    table = hush.read(pa.table({"x": np.zeros(rows, dtype=np.int8)}), DOMAIN)
    assert table.counts([("x",)])[("x",)].tolist() == [rows, 0]


class Scripted:
    """Some words, and others after them."""

    private = False

    def __init__(self, first: list[int]) -> None:
        self.first, self.rest = list(first), NotPrivateEntropy(8)

    def words(self, count: int) -> np.ndarray:
        own = np.array(self.first[:count], dtype=np.uint64)
        self.first = self.first[count:]
        return np.concatenate([own, self.rest.words(count - len(own))])


@pytest.mark.parametrize(
    ("law", "reach"), [(DiscreteGaussian.of_scale(3), 10 * 3), (DiscreteLaplace.of_scale(3), 60 * 3)], ids=str
)
def test_the_far_tail_leaves_the_gate(law: Any, reach: int) -> None:
    """A uniform number 2^-96 below 1 lies 11 deviations, or 66 scales, out; no statistical test would miss it."""
    plain = NotPrivateEntropy(8).words(9).tolist()  # ten words are drawn for two cells
    entropy = Scripted([(2**32 - 1) << 32, *plain, 2**64 - 2])
    (noisy,) = gate(Counted((5, 5)), entropy=entropy).measure([Request(MarginalQuery(("x",)), law)])
    assert noisy.raw.flat[0] - 5 > reach


def test_every_cell_of_a_table_has_noise_of_its_own() -> None:
    """False alarms at a rate of 1e-9; noise shared by two cells, or of four fifths of its scale, is always found."""
    domain, law = Domain({"a": 2, "b": 3}), DiscreteGaussian.of_scale(4)
    answers = gate(TinyTable(domain, [(0, 0)] * 5)).measure([Request(MarginalQuery(("a", "b")), law)] * 4000)
    noise = np.array([answer.raw.ravel() for answer in answers]) - [5, 0, 0, 0, 0, 0]
    check_law(noise.ravel(), law)
    for pairs in (noise[:, :2], noise[:, [0, 5]], noise[:, [2, 4]]):
        check_law(pairs.ravel(), law)


def test_every_batch_of_counts_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.privacy.gate.BATCH_CELLS", 1)
    law = DiscreteGaussian.of_scale(4)
    answers = gate(Counted((5, 0))).measure([Request(MarginalQuery(("x",)), law)] * 2000)
    check_law(np.array([answer.raw - [5, 0] for answer in answers]).T.ravel(), law)


def below_the_grid(values: Any) -> np.ndarray:
    """|y| < 1/4 and no multiple of 2^-53: what noise added in floats reaches from 0 and never from 1."""
    y = np.asarray(values, dtype=np.float64)
    return (np.abs(y) < 0.25) & (y * 2.0**53 != np.rint(y * 2.0**53))


def test_noise_added_in_floats_tells_zero_from_one() -> None:
    """The attack works where it should: 0.165 against 0 [Haney et al. 2022]."""
    noise = np.random.Generator(np.random.PCG64(1)).normal(size=200_000)
    assert below_the_grid(0 + noise).mean() == pytest.approx(0.165, abs=0.006)  # 7 standard errors
    assert not below_the_grid(1 + noise).any()


def test_the_gate_gives_the_attack_nothing() -> None:
    asked = [Request(MarginalQuery(("x",)), DiscreteGaussian.of_scale(1))] * 5000
    for cells in ((0, 0), (1, 1)):
        noisy = np.array([answer.values for answer in gate(Counted(cells)).measure(asked)])
        assert (np.abs(noisy) < 0.25).mean() > 0.2  # the attacked outputs do come: 0.40 and 0.24
        assert below_the_grid(noisy).mean() == 0


@pytest.mark.parametrize("mechanism", ["residual", "direct", "hdmm", "aim"])
def test_releases_never_tell_zero_from_one_by_their_last_bits(mechanism: str, tmp_path: Path) -> None:
    """The published numbers themselves, in memory and from the file: whole numbers over a public scale."""
    plan = hush.plan(Workload.kway(DOMAIN, 1), Budget(rho=0.5), mechanism=mechanism)
    for count in (0, 1):
        release = plan.release(TinyTable(DOMAIN, [(0,)] * count))
        release.save(tmp_path / "release.hush", overwrite=True)
        for kept in (release, hush.load(tmp_path / "release.hush")):
            measured = list(kept.measurements())  # type: ignore[union-attr]
            assert measured
            for noisy in measured:
                assert noisy.raw.dtype == np.int64
                assert not below_the_grid(noisy.raw).any()
                np.testing.assert_array_equal(noisy.values, noisy.raw / noisy.scale)
