"""One run: whatever is asked is charged first, within one account, and put on record."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Neighbours, Release, Schema, Workload
from hush.core.constraints import Constraint
from hush.core.errors import BudgetError, WorkloadError
from hush.core.unit import Unit
from hush.linops import Identity
from hush.mechanisms.candidates import MisfitScorer, on_grid
from hush.mechanisms.session import Session
from hush.privacy.account import Allowance
from hush.privacy.events import GaussianEvent, SelectionEvent, compose
from hush.privacy.gate import Gate, watch
from hush.privacy.sensitivity import RowNorms
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.release.record import Round
from hush.release.statement import Statement
from hush.schema import ROW
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.product_strategy import ProductQuery
from hush.strategies.rare_levels import MergedQuery, Merging
from hush.strategies.strategy import NoiseKind
from hush.strategies.sum_strategy import SumStrategy
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 4, "c": 2})
ROWS = [(i % 2, i % 2, 0) for i in range(40)]
PLAYED = Round(
    clique=("a",),
    epsilon=1.0,
    stddev=1.0,
    candidates=2,
    misfit=1.0,
    penalty=0.0,
    weight=1.0,
    annealed=False,
    size_mb=1e-3,
)


def session(rho: float = 1.0, table: Any = None, relation: Neighbours = Neighbours.ADD_REMOVE, **how: Any) -> Session:
    account = Allowance(Budget(rho=rho))
    counted = TinyTable(DOMAIN, ROWS) if table is None else table
    return Session(Gate(counted, account, neighbours=relation), account, domain=DOMAIN, **({"max_rows": 1} | how))


def test_what_is_left_is_the_accounts():
    run = session()
    assert (run.limit, run.remaining) == (1, 1)
    run.measure([("a",), ("b",)], Fraction(1, 8), note="two")
    assert run.remaining == Fraction(3, 4)
    assert [event.cost.rho for event in run._account.events[0].parts[0][:1]] == [Fraction(1, 8)]


@pytest.mark.parametrize("rows", [1, 3])
def test_sums_have_their_share_of_the_budget_for_units_of_several_rows(rows: int):
    """Counts may spend what the sums leave: the cost of sums is for units of one row, and m^2 of it for m rows."""
    schema = Schema.from_domain(DOMAIN)
    terms = Workload.sums(schema, "b", by=["a"]).sum_terms
    sums = SumStrategy.for_cost(terms, NoiseKind.GAUSSIAN, Fraction(1, 100), Neighbours.ADD_REMOVE)
    unit = Unit(column="id", max_rows=rows)
    table = TinyTable(DOMAIN, ROWS, unit=unit, units=[i // 4 for i in range(len(ROWS))])
    run = session(table=table, max_rows=rows, sums=sums)
    list(run.gate.measure(sums.requests()))
    assert run.limit == run.remaining == 1 - sums.cost * rows**2


def test_every_table_may_have_its_own_cost():
    run = session()
    noisy_tables = run.measure([("a",), ("b", "a")], [Fraction(1, 2), Fraction(1, 8)], note="two")
    assert [table.law.variance_parameter for table in noisy_tables] == [1, 4]
    assert noisy_tables == run.noisy_tables
    assert noisy_tables[1].values.shape == (4, 2)
    with pytest.raises(ValueError, match="zip"):
        run.measure([("a",)], [Fraction(1, 8)] * 2, note="")
    assert run.remaining == Fraction(3, 8)


def test_what_is_not_left_is_refused_and_nothing_is_read():
    table = TinyTable(DOMAIN, ROWS)
    run = session(0.1, table)
    with pytest.raises(BudgetError, match="exceeds the 0.1 left"):
        run.measure([("a",), ("b",)], Fraction(1, 10), note="two")
    with pytest.raises(BudgetError):
        run.select(scorer(), Fraction(1, 5), note="")
    assert (table.reads, run.noisy_tables, run.remaining) == (0, [], Fraction(0.1))


@pytest.mark.parametrize(
    ("relation", "rows", "squared"),
    [(Neighbours.ADD_REMOVE, 1, 1), (Neighbours.REPLACE, 1, 2), (Neighbours.ADD_REMOVE, 3, 9)],
)
def test_noise_grows_with_the_sensitivity(relation, rows, squared):
    run = session(1.0, relation=relation, max_rows=rows)
    assert run.law(Fraction(1, 8)).variance_parameter == 4 * squared


def test_noise_is_never_less_than_the_least():
    run = session(1e9)
    assert run.law(Fraction(10**8)).variance_parameter == Fraction(1, 64) ** 2
    (table,) = run.measure([("a",)], run.remaining, note="")
    assert table.values.tolist() == [20, 20]
    assert run.remaining > 0


def scorer() -> MisfitScorer:
    cliques = (("a",), ("b",))
    model = on_grid({("a",): np.array([20.0, 20.0]), ("b",): np.array([0.0, 0.0, 0.0, 40.0])})
    return MisfitScorer(cliques, model, np.ones(2), np.zeros(2))


def test_a_choice_costs_what_it_was_given():
    run = session(1e6)
    pick, law = run.select(scorer(), Fraction(10**4), note="one")
    assert pick == 1  # b is off by 80, a by nothing
    assert run._account.events == (SelectionEvent(law.epsilon),)
    assert law.epsilon**2 / 8 <= 10**4
    assert float(law.epsilon) == pytest.approx(np.sqrt(8e4))


def test_whoever_watches_is_told_shares_and_rounds():
    calls: list[tuple[Round | None, float]] = []
    run = session(watch=lambda played, spent: calls.append((played, spent)))
    run.measure([("a",)], Fraction(1, 4), note="")
    run.ended(PLAYED)
    assert calls == [(None, 0.25), (PLAYED, 0.25)]
    assert run.record.rounds == [PLAYED]


def test_a_resumed_session_has_its_record():
    first = session()
    tables = first.measure([("a",)], Fraction(1, 4), note="")
    run = session(record=NoisyTablesRecord(DOMAIN, tables, rounds=[PLAYED]))
    assert run.noisy_tables == tables
    assert run.record.rounds == [PLAYED]
    run.measure([("b",)], Fraction(1, 4), note="")
    assert len(tables) == 1


def test_models_keep_to_the_rules():
    rule = Constraint.forbid(DOMAIN, ("a", "b"), [(0, 3), (1, 2)])
    run = session(constraints=[rule])
    run.measure([("a",), ("b",), ("c",)], Fraction(1, 8), note="")
    assert run.cliques == [("a",), ("b",), ("c",), ("a", "b")]
    model = run.fit().value
    assert run.model is not None
    assert run.model.value is model
    assert model.counts(("a", "b"))[0, 3] == model.counts(("a", "b"))[1, 2] == 0
    assert len(run.record.measurements()) == 3


def test_all_of_a_measurement_is_charged_together():
    run = session()
    run.measure([("a",), ("b",), ("c",)], Fraction(1, 8), note="")
    assert len(run._account.events) == 1
    assert run._account.events[0].parts == ((GaussianEvent(Fraction(4), Fraction(1), True), 3),)


class Onlooker:
    """A harness that lets everything through."""

    def charged(self, event: Any) -> None:
        pass

    def measured(self, request: Any, bound: Any, exact: Any, draw: Any) -> Any:
        return draw()

    def selected(self, entropy: Any, law: Any, scores: Any, draw: Any) -> Any:
        return draw()


@pytest.mark.parametrize("what", ["table", "choice"])
def test_what_was_watched_once_is_not_private_afterwards(what):
    run = session()
    run.measure([("a",)], Fraction(1, 8), note="")
    assert run.gate.private
    with watch(Onlooker()):
        if what == "table":
            run.measure([("b",)], Fraction(1, 8), note="")
        else:
            run.select(scorer(), Fraction(1, 8), note="")
    run.measure([("c",)], Fraction(1, 8), note="")
    assert not run.gate.private


def test_any_linear_queries_are_measured_kept_and_fitted(tmp_path):
    """The seam for other queries: prefix sums of one column, with the noise that their own sensitivity needs."""
    prefix = ProductQuery((("b",),), (AxisStrategy.of(np.tri(4, dtype=np.int64)),))
    run = session(rho=20.0)
    columns, (sums,) = run.measure([("a",), ("c",)], Fraction(1), note=""), run.measure([prefix], Fraction(10), note="")
    assert float(sums.law.variance_parameter) == pytest.approx(4 / 20)  # Delta^2 / (2 rho): level 0 is in four sums
    assert float(run.remaining) == pytest.approx(8)
    assert run.noisy_tables == [*columns, sums]
    exact = TinyTable(DOMAIN, ROWS).counts([("b",)])[("b",)]
    np.testing.assert_allclose(run.fit().value.counts(("b",)), exact, atol=3.0)
    run.record.fitted = run.model
    statement = Statement(
        budget=Budget(rho=20.0),
        neighbours=Neighbours.ADD_REMOVE,
        unit=ROW,
        event=compose(run._account.events),
        seeded=False,
    )
    release = Release(
        mechanism="theirs",
        schema=Schema.from_domain(DOMAIN),
        workload=Workload.kway(DOMAIN, 1),
        statement=statement,
        record=run.record,
    )
    assert release.inconsistency() is None
    release.save(tmp_path / "x.hush")
    loaded = hush.load(tmp_path / "x.hush")
    np.testing.assert_array_equal(loaded.noisy_tables[-1].values, sums.values)
    np.testing.assert_array_equal(loaded.noisy_tables[-1].query.dense(), np.tri(4))
    np.testing.assert_allclose(loaded.counts(("b",)), release.counts(("b",)))


def test_what_files_cannot_hold_is_refused_before_a_charge():
    class Tripled:
        cliques = (("a",),)
        row_norms = RowNorms(Fraction(3), Fraction(9), Fraction(6), Fraction(18))
        operator, scale = None, 3

        def answer(self, counts: Any) -> Any:
            return 3 * counts[("a",)]

    own = session()
    with pytest.raises(WorkloadError, match="files cannot hold answers to Tripled"):
        own.measure([Tripled()], Fraction(1, 8), note="")
    for codes in ([0, 0, 1, 1], [0, 1, 1, 1]):
        asked = MergedQuery(("b",), (4,), Merging({"b": np.array(codes)}))
        if codes[1]:
            with pytest.raises(WorkloadError, match="one way to merge"):
                own.measure([asked], Fraction(1, 8), note="")
        else:
            own.measure([asked], Fraction(1, 8), note="")
    assert own.remaining == Fraction(7, 8)


def test_an_identity_with_a_scale_stands_for_its_share_of_the_counts():
    query = ProductQuery((("a",),), (AxisStrategy(Identity(2), scale=2),))
    np.testing.assert_array_equal(query.operator.dense(), np.eye(2) / 2)
