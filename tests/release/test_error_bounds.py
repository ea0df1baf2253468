"""Bounds on tables of a model: they hold as often as they say, with the real exponential mechanism and real noise."""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, DomainError, QueryError
from hush.inference import l1_bounds
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.release.error_bounds import BoundTable, ErrorBound, ErrorBounds
from hush.release.record import LEAST_STDDEV, Round, Scored, measured_in
from hush.strategies.rare_levels import MergedQuery, Merging

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
CLIQUES = [clique for k in (1, 2, 3) for clique in itertools.combinations(DOMAIN, k)]
TRUE = np.random.Generator(np.random.PCG64(0)).multinomial(500, np.arange(1, 25) ** 2 / 4900).reshape(DOMAIN.shape)
WEIGHTS = np.array([10.0 * len(clique) for clique in CLIQUES])
STDDEV = 3.0


def summed(table: Floats, clique: Clique) -> Floats:
    names = DOMAIN.clique(clique)
    made = table.sum(axis=tuple(i for i, name in enumerate(DOMAIN) if name not in names), dtype=np.float64)
    return np.asarray(made.transpose([names.index(name) for name in clique]))


def uniform(clique: Clique) -> Floats:
    """The model before and after: of the right total, and far off."""
    return np.full(DOMAIN.sizes(clique), 500.0 / DOMAIN.size(clique))


ERRORS = np.array([np.abs(summed(TRUE, clique) - uniform(clique)).sum() for clique in CLIQUES])
PENALTIES = np.array([math.sqrt(2 / math.pi) * STDDEV * DOMAIN.size(clique) for clique in CLIQUES])


def one_round(seed: int, epsilon: float, slack: float = 1.0) -> tuple[Round, Scored]:
    """A choice by the exponential mechanism, and a noisy table; `slack` scales what its randomness is allowed for."""
    scores = Scores(WEIGHTS * (ERRORS - PENALTIES), float(WEIGHTS.max()))
    place = ExponentialMechanism(Fraction(epsilon)).choose(scores, NotPrivateEntropy(seed))
    clique = CLIQUES[place]
    noise = np.random.Generator(np.random.PCG64(seed)).normal(scale=STDDEV, size=DOMAIN.sizes(clique))
    chosen = Round(
        clique=clique,
        epsilon=epsilon,
        stddev=STDDEV,
        candidates=len(CLIQUES),
        misfit=float(np.abs(summed(TRUE, clique) + noise - uniform(clique)).sum()),
        penalty=float(PENALTIES[place]),
        weight=float(WEIGHTS[place]),
        annealed=False,
        size_mb=0.1,
    )
    slopes = slack * 2 * WEIGHTS.max() / epsilon / WEIGHTS
    return chosen, scored(slopes=slopes, slacks=slopes * math.log(len(CLIQUES)))


def scored(rounds: Any = 0, **given: Any) -> Scored:
    fields = {
        "cliques": tuple(CLIQUES),
        "weights": WEIGHTS,
        "rounds": np.full(len(CLIQUES), rounds, dtype=np.int64),
        "penalties": PENALTIES,
        "slacks": np.zeros(len(CLIQUES)),
        "slopes": np.zeros(len(CLIQUES)),
        "distances": np.zeros(len(CLIQUES)),
    }
    return Scored(**(fields | given))


def failures(epsilon: float, slack: float, trials: int, level: float) -> int:
    """How often any candidate is further off than its bound."""
    failed = 0
    for seed in range(trials):
        chosen, last = one_round(seed, epsilon, slack)
        bounds = ErrorBounds(DOMAIN, uniform, None, [chosen], last, 500.0)
        failed += any(bounds.of(clique, level).bound < error for clique, error in zip(CLIQUES, ERRORS, strict=True))
    return failed


@pytest.mark.parametrize("epsilon", [0.02, 0.2, 20.0])
def test_the_bound_of_a_round_holds_for_all_candidates_at_once(epsilon: float) -> None:
    assert failures(epsilon, 1.0, 600, 0.9) <= binom.isf(1e-6, 600, 0.1)


def test_a_choice_at_random_needs_its_slack() -> None:
    assert failures(0.02, 0.0, 200, 0.9) > 100


def test_unsupported_bounds_are_of_the_one_round_and_add_the_distance() -> None:
    chosen, last = one_round(1, 20.0)
    worse = Round(**{name: getattr(chosen, name) for name in Round.__slots__} | {"misfit": 1.1 * chosen.misfit})
    bound = ErrorBounds(DOMAIN, uniform, None, [worse, chosen], last, 500.0).of(("a", "b"))
    assert bound.kind == "unsupported"
    better = ErrorBounds(DOMAIN, uniform, None, [chosen, worse], last, 500.0).of(("a", "b"))
    assert better.bound < bound.bound  # the first round in both
    far = scored(slacks=last.slacks, slopes=last.slopes, distances=np.full(len(CLIQUES), 7.0))
    moved = ErrorBounds(DOMAIN, uniform, None, [chosen, worse], far, 500.0).of(("a", "b"))
    assert moved.bound == pytest.approx(better.bound + 7.0)
    assert moved.share == pytest.approx(moved.bound / 500)


def test_the_formula_of_an_unsupported_table() -> None:
    chosen, last = one_round(1, 1.0)
    place, beta = CLIQUES.index(("b", "c")), 0.05 / 2
    error = l1_bounds.chosen(chosen.misfit, STDDEV, DOMAIN.size(chosen.clique), beta)
    expected = (
        PENALTIES[place]
        + chosen.weight / WEIGHTS[place] * (error - chosen.penalty)
        + 2 * 30 / WEIGHTS[place] * (math.log(len(CLIQUES)) + math.log(1 / beta))
    )
    bounds = ErrorBounds(DOMAIN, uniform, None, [chosen], last, 500.0)
    assert bounds.of(("c", "b")).bound == pytest.approx(expected)
    assert bounds.of(("c", "b")).clique == ("c", "b")


def noisy(seed: int, cliques: list[Clique]) -> UnbiasedEstimates:
    random = np.random.Generator(np.random.PCG64(seed))
    made = []
    for clique in cliques:
        table = summed(TRUE, clique)
        made.append(Measurement(clique, table + random.normal(scale=STDDEV, size=table.shape), STDDEV))
    return UnbiasedEstimates(DOMAIN, made)


def bounds_of(unbiased: UnbiasedEstimates, last: Scored | None = None, rounds: tuple[Round, ...] = ()) -> ErrorBounds:
    return ErrorBounds(DOMAIN, uniform, unbiased, rounds, last, 500.0)


def test_supported_bounds_hold() -> None:
    failed = np.zeros(len(CLIQUES))
    for seed in range(400):
        found = bounds_of(noisy(seed, [("a", "b"), ("b", "c"), ("a", "b", "c")])).all(CLIQUES, 0.9)
        assert {bound.kind for bound in found} == {"supported"}
        failed += np.array([bound.bound for bound in found]) < ERRORS
    assert failed.max() <= binom.isf(1e-6, 400, 0.1)


def adaptive(random: np.random.Generator, tables: int, n: int) -> tuple[Floats, Floats]:
    """Errors and standard deviations of tables that were measured where, and as well as, earlier noise suggested.

    Choices go by how far the tables are off, and noise is halved where the last table taught little.
    """
    true, model = random.normal(scale=20.0, size=(tables, n)), np.zeros((tables, n))
    precision, stddev, epsilon, left = np.zeros(tables), 20.0, 0.05, 0.02
    while left > 0:
        scores = np.abs(true - model).sum(axis=1) - math.sqrt(2 / math.pi) * stddev * n
        t = int(np.argmax(epsilon / 2 * scores + random.gumbel(size=tables)))
        before, own = model[t].copy(), stddev**-2
        model[t] += own / (precision[t] + own) * (true[t] + random.normal(scale=stddev, size=n) - model[t])
        precision[t] += own
        left -= own / 2
        if np.abs(model[t] - before).sum() <= math.sqrt(2 / math.pi) * stddev * n:
            stddev, epsilon = stddev / 2, 2 * epsilon
    measured = precision > 0
    return (model - true)[measured], precision[measured] ** -0.5


@pytest.mark.parametrize(("tables", "n"), [(2, 1), (5, 2), (5, 16)])
def test_choices_by_earlier_noise_do_not_widen_errors(tables: int, n: int) -> None:
    """Not proven, hence simulated: intervals of cells and bounds of tables, as if all had been chosen beforehand."""
    random = np.random.Generator(np.random.PCG64(9))
    runs = [adaptive(random, tables, n) for _ in range(1500)]
    cells = np.concatenate([np.abs(errors)[:, 0] / sd for errors, sd in runs])
    assert (cells > 1.96).sum() <= binom.isf(1e-6, len(cells), 0.05)
    assert (cells > 0.75 * 1.96).sum() > binom.isf(1e-6, len(cells), 0.05)  # a quarter less would be seen
    limit = l1_bounds.noise_l1(n, 1.0, 1.0, 0.05)
    missed = np.concatenate([np.abs(errors).sum(axis=1) > limit * sd for errors, sd in runs])
    assert missed.sum() <= binom.isf(1e-6, len(missed), 0.05)


def test_measured_tables_are_supported_and_others_not() -> None:
    chosen, last = one_round(3, 20.0)
    held = ErrorBounds(DOMAIN, uniform, noisy(0, [("a", "b")]), (chosen,), last, 5000.0)
    kinds = {clique: held.of(clique).kind for clique in [("b", "a"), ("a",), (), ("c",), ("c", "b", "a")]}
    assert kinds == {("b", "a"): "supported", ("a",): "supported", (): "supported", ("c",): "unsupported"} | {
        ("c", "b", "a"): "unsupported"
    }
    alone = bounds_of(noisy(0, [("a", "b")]))
    none = alone.of(("a", "c"))
    assert none.kind == "none"
    assert math.isnan(none.bound)
    assert math.isnan(none.share)
    never = bounds_of(noisy(0, [("a", "b")]), scored(rounds=-1), (chosen,))
    assert never.of(("a", "c")).kind == "none"


def test_a_table_inside_a_scored_one_has_its_bound() -> None:
    chosen, last = one_round(3, 1.0)
    few = [CLIQUES.index(("a", "c")), CLIQUES.index(("a", "b", "c"))]
    parts = {name: getattr(last, name)[few] for name in Scored.__slots__ if name != "cliques"}
    held = ErrorBounds(DOMAIN, uniform, None, [chosen], Scored(cliques=(("a", "c"), ("a", "b", "c")), **parts), 500.0)
    assert held.of(("a",)).bound == held.of(("a", "c")).bound
    assert held.of(("b", "a")).bound == held.of(("a", "b", "c")).bound


def test_a_bound_of_all_records_of_both_or_more_is_none() -> None:
    chosen, last = one_round(3, 1e-4)
    for unbiased in (noisy(0, [("a",)]), None):
        held = ErrorBounds(DOMAIN, uniform, unbiased, (chosen,), last, 500.0)
        for found in (held.of(("b", "c")), held.all([("b", "c")])[0]):
            assert (found.kind, math.isnan(found.bound), math.isnan(found.share)) == ("none", True, True)
        assert np.isnan(held.margin(("b", "c"), np.zeros(2), np.ones(2))).all()
    wide = ErrorBounds(DOMAIN, uniform, None, (chosen,), last, 1e7).of(("b", "c"))
    assert wide.kind == "unsupported"


def test_bounds_that_are_not_known_are_equal() -> None:
    """NaN is not equal to itself, and Python 3.13 compares the fields of dataclasses one by one."""
    one, other = (ErrorBound(clique=("a",), kind="none", bound=float("nan"), share=float("nan")) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != dataclasses.replace(one, clique=("b",))
    assert dataclasses.replace(one, bound=1.0) != dataclasses.replace(one, bound=2.0)


def test_all_is_one_after_another() -> None:
    chosen, last = one_round(3, 1.0)
    held = bounds_of(noisy(0, [("a", "b")]), last, (chosen,))
    assert [bound.clique for bound in held.all()] == CLIQUES
    assert held.all() == [held.of(clique) for clique in CLIQUES]
    assert [bound.clique for bound in bounds_of(noisy(0, [("b", "a")])).all()] == [("a",), ("b",), ("a", "b")]
    assert held.all([("b", "a"), ("c",)], 0.5) == [held.of(("b", "a"), 0.5), held.of(("c",), 0.5)]


def test_simultaneous_bounds_split_over_supported_tables_and_rounds() -> None:
    chosen, last = one_round(3, 1.0)
    rounds = np.array([0, 0, 0, 0, 1, 1, -1])
    one = scored(rounds=rounds, slacks=last.slacks, slopes=last.slopes)
    held = bounds_of(noisy(0, [("a", "b")]), one, (chosen, chosen))
    found = held.all(level=0.9, simultaneous=True)
    events = 3 + 2  # a, b and (a, b) by their noise; c in round 0; (a, c), (b, c) and with b all three in round 1
    for bound in found:
        alone = held.of(bound.clique, 1 - 0.1 / events)
        assert bound.kind == alone.kind
        assert bound.bound == pytest.approx(alone.bound, nan_ok=True)


def test_many_tables_of_a_model_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Model:
        def many(self, cliques: Any) -> dict[Clique, Floats]:
            asked.append(list(cliques))
            return {clique: uniform(clique) for clique in asked[-1]}

    unbiased = noisy(0, [("a", "b"), ("c",)])
    held = ErrorBounds(DOMAIN, Model(), unbiased, (), None, 500.0)
    assert held.all() == bounds_of(unbiased).all()
    assert asked == [[("a",), ("b",), ("c",), ("a", "b")]]
    monkeypatch.setattr("hush.release.error_bounds.LARGEST_BATCH", 7)
    assert held.all() == bounds_of(unbiased).all()
    assert asked[1:] == [[("a",), ("b",)], [("c",)], [("a", "b")]]


def test_what_is_refused() -> None:
    chosen, last = one_round(3, 1.0)
    held = bounds_of(noisy(0, [("a", "b")]), last, (chosen,))
    with pytest.raises(QueryError, match="level=1.5: expected a number between 0 and 1"):
        held.of(("a",), 1.5)
    with pytest.raises(QueryError, match="level=0"):
        held.all(level=0)
    with pytest.raises(DomainError, match="'z' is not in the domain"):
        held.of(("z",))
    with pytest.raises(DomainError, match="expected a list of cliques"):
        held.all("a")
    with pytest.raises(DataError, match=r"was scored in round 0: expected -1 .. -1"):
        bounds_of(noisy(0, [("a",)]), last)
    with pytest.raises(DataError, match="total=0"):
        ErrorBounds(DOMAIN, uniform, None, (), None, 0)


def row(kind: str, bound: float, *clique: str) -> ErrorBound:
    return ErrorBound(clique=clique, kind=kind, bound=bound, share=bound / 1000)


def test_a_table_of_bounds_for_people() -> None:
    rows = [row("supported", 12.2, "a"), row("unsupported", 1234.0, "a", "b"), row("none", math.nan, "x" * 60, "y")]
    lines = str(BoundTable(rows, 0.95, simultaneous=True)).splitlines()
    assert lines[0].split() == ["table", "error", "at", "most", "of", "the", "records", "known", "from"]
    assert lines[1].split() == ["a", "13", "1.3", "%", "its", "noisy", "values"]
    assert lines[2].split() == ["a,", "b", "1,234", "123.4", "%", "not", "being", "chosen"]
    assert lines[3].split()[1:] == ["n/a", "n/a", "nothing"]
    assert lines[3].startswith("xxxx")
    assert "…" in lines[3]
    assert "with 95 % all together; 1 table has no bound below 200 %" in " ".join(line.strip() for line in lines[4:])
    assert max(map(len, lines)) <= 80
    many = str(BoundTable([row("supported", 1.0, f"c{i}") for i in range(25)], 0.5))
    assert "... 5 more tables" in many
    assert "with 50 % each by itself" in " ".join(many.split())


def test_a_table_of_bounds_as_arrow() -> None:
    table = BoundTable([row("supported", 12.0, "a", "b")], 0.95).to_arrow()
    assert table.to_pylist() == [{"table": "a, b", "kind": "supported", "bound": 12.0, "share": 0.012}]


def test_the_tables_of_rounds_are_found_from_the_end() -> None:
    chosen, last = one_round(1, 1.0)
    clique = chosen.clique
    whole, other = (np.zeros(DOMAIN.sizes(one), dtype=np.int64) for one in (clique, ("a",)))
    law = DiscreteGaussian(Fraction(9))
    merged = Measurement.of(MergedQuery(clique, DOMAIN.sizes(clique), Merging({})), np.zeros(2, dtype=np.int64), law)
    one = Round(**{name: getattr(chosen, name) for name in Round.__slots__} | {"stddev": merged.stddev})
    tables = [
        Measurement.of(MarginalQuery(clique), whole, law),
        Measurement.of(MarginalQuery(("a",)), other, law),
        merged,
    ]
    assert measured_in([one], tables) == (merged,)
    assert measured_in([one, one], tables) == (tables[0], merged)
    less = DiscreteGaussian(Fraction(2))
    assert measured_in([chosen], [Measurement.of(MarginalQuery(clique), whole, less)]) == (None,)
    own, without = (ErrorBounds(DOMAIN, uniform, None, [one], last, 500.0, made) for made in (tables, tables[:1]))
    error = l1_bounds.chosen(one.misfit, 3.0, 2, 0.025, 1.0), l1_bounds.chosen(one.misfit, 3.0, whole.size, 0.025, 1.0)
    gap = without.of(clique).bound - own.of(clique).bound
    assert gap == pytest.approx(error[1] - error[0])


def test_small_noise_in_whole_numbers_counts_by_its_parameter() -> None:
    values = summed(TRUE, ("a",)).astype(np.int64)
    table = Measurement.of(MarginalQuery(("a",)), values, DiscreteGaussian(Fraction(1, 5)))
    unbiased = UnbiasedEstimates(DOMAIN, [table.floored(LEAST_STDDEV)])
    bound = ErrorBounds(DOMAIN, lambda clique: summed(TRUE, clique), unbiased, (), None, 500.0, [table]).of(("a",))
    assert bound.bound == pytest.approx(l1_bounds.noise_l1(3, 0.2, 0.2, 0.05 * 0.95, 1.0))
    assert table.stddev**2 < 0.19
