"""Comparison: figures by their definitions, for rows, models and releases; the stamp; and what is refused."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from rich.cells import cell_len

import hush
from hush import Domain, Measurement, Workload, queries
from hush.core.errors import DataError, DomainError, WorkloadError
from hush.datasets import people, people_schema
from hush.evaluation import STAMP, Comparison, compare, equivalent_fraction
from hush.evaluation.comparison import comparison_tables, cramers_v
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.schema import Categorical, Schema, Unit
from hush.testing import TinyTable

SCHEMA = people_schema()
REAL = hush.read(people(800, seed=1), SCHEMA)
OTHER = hush.read(people(600, seed=2), SCHEMA)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(REAL, OTHER)


def shares(table: object, clique: tuple[str, ...]) -> np.ndarray:
    counts = table.counts([clique])[clique]  # type: ignore[attr-defined]
    return counts / counts.sum()


def distance(clique: tuple[str, ...]) -> float:
    return 0.5 * float(np.abs(shares(REAL, clique) - shares(OTHER, clique)).sum())


def test_columns_and_pairs_have_their_distances_the_worst_first(found: Comparison) -> None:
    assert (found.real_rows, found.synthetic_rows, found.modelled) == (800, 600, False)
    assert found.columns == pytest.approx({name: distance((name,)) for name in SCHEMA.domain})
    assert list(found.columns.values()) == sorted(found.columns.values(), reverse=True)
    assert {pair.columns: pair.distance for pair in found.pairs} == pytest.approx(
        {clique: distance(clique) for clique in Workload.kway(SCHEMA.domain, 2).cliques}
    )
    assert [pair.distance for pair in found.pairs] == sorted((pair.distance for pair in found.pairs), reverse=True)


def test_associations_are_those_of_both_tables(found: Comparison) -> None:
    pair = next(pair for pair in found.pairs if pair.columns == ("age", "employed"))
    assert pair.real == pytest.approx(cramers_v(shares(REAL, pair.columns)))
    assert pair.synthetic == pytest.approx(cramers_v(shares(OTHER, pair.columns)))
    assert pair.difference == abs(pair.real - pair.synthetic)
    assert pair.real > 0.5


def test_the_usual_workload_is_every_pair_and_worth_is_in_shares(found: Comparison) -> None:
    assert found.workload == Workload.kway(SCHEMA.domain, 2)
    assert found.errors.mean_distance == pytest.approx(np.mean([pair.distance for pair in found.pairs]))
    tables = REAL.counts(found.workload.cliques).values()
    assert found.equivalent_fraction == pytest.approx(equivalent_fraction(tables, found.errors.share_error, 800))
    assert found.error > found.errors.share_error  # a quarter of the rows is missing


def test_a_sample_of_the_rows_is_worth_itself() -> None:
    drawn = np.random.Generator(np.random.PCG64(5)).integers(0, 4000, 1000)
    rows = people(4000, seed=3)
    real, sample = hush.read(rows, SCHEMA), hush.read(rows.take(drawn), SCHEMA)
    assert compare(real, sample).equivalent_fraction == pytest.approx(0.25, rel=0.05)
    assert compare(real, real).capped


def test_products_of_sets_are_worth_a_sample_and_other_queries_are_not() -> None:
    prefixes = Workload.product(SCHEMA.domain, {"age": queries.permuted(queries.prefix, range(99, -1, -1))})
    chosen = Workload.product(SCHEMA.domain, {"sex": queries.predicates([[0], [0, 1]])})
    found = compare(REAL, OTHER, prefixes + 2 * chosen)
    assert 0 < (found.equivalent_fraction or 0) < 10
    differences = Workload.product(SCHEMA.domain, {"sex": queries.matrix([[1, -1]])})
    found = compare(REAL, OTHER, differences)
    assert found.equivalent_fraction is None
    assert "unknown as a sample" in " ".join(str(found).split())


def test_models_and_releases_are_compared_by_their_tables() -> None:
    cliques = [("sex", "region"), ("region", "employed"), ("age",)]
    exact = REAL.counts(cliques)
    model = hush.fit(SCHEMA, [Measurement(clique, exact[clique], 0.1) for clique in cliques], total=800)
    found = compare(REAL, model, Workload.marginals(SCHEMA.domain, cliques))
    assert found.modelled
    assert found.error < 0.01
    assert next(pair for pair in found.pairs if pair.columns == ("age", "employed")).synthetic < 0.1
    plan = hush.plan(Workload.marginals(SCHEMA.domain, cliques), hush.Budget(rho=1e4), "residual")
    release = plan.release(REAL, entropy=NotPrivateEntropy(seed=1))
    assert compare(REAL, release, plan.workload).error < 0.02


def test_the_stamp_is_the_first_line_and_the_first_entry(found: Comparison) -> None:
    assert str(found).splitlines()[0] == STAMP == "internal: computed on private data, not for release"
    assert next(iter(found.to_dict().items())) == ("stamp", STAMP)


def test_to_dict_is_json_with_every_figure(found: Comparison) -> None:
    made = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert made["rows"] == {"real": 800, "synthetic": 600, "modelled": False}
    assert made["workload"]["error"] == found.error
    assert [one["distance"] for one in made["workload"]["terms"]] == found.errors.distances.tolist()
    assert (len(made["columns"]), len(made["pairs"])) == (7, 21)
    assert made["pairs"][0]["cramers_v"] == {"real": found.pairs[0].real, "synthetic": found.pairs[0].synthetic}


@pytest.mark.parametrize("width", [60, 100])
def test_the_text_fits_its_width_and_lists_the_worst(found: Comparison, width: int) -> None:
    lines = [line for table in comparison_tables(found) for line in table.text(width).splitlines()]
    assert max(map(cell_len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "800 real, 600 synthetic" in text
    assert "the worst 10 of 21" in text
    assert f"{found.pairs[0].distance:.4f}" in text
    assert f"{found.pairs[-1].distance:.4f}" not in text


def test_worth_in_words() -> None:
    domain = Domain({"a": 2, "b": 2})
    real = TinyTable(domain, [(0, 0), (1, 1), (0, 1), (1, 0)] * 25)
    texts = {
        "more than a sample of 100 times": real,
        "no more than a sample of one real row": TinyTable(domain, [(0, 0)]),
        "of the real rows": TinyTable(domain, [(0, 0), (1, 1), (0, 1), (1, 0)] * 5 + [(0, 0)]),
    }
    for text, other in texts.items():
        assert text in " ".join(str(compare(real, other)).split())  # type: ignore[arg-type]


def test_columns_of_one_level_say_nothing() -> None:
    domain = Domain({"a": 3, "one": 1})
    found = compare(TinyTable(domain, [(0, 0), (1, 0)]), TinyTable(domain, [(0, 0)]))  # type: ignore[arg-type]
    assert found.workload.cliques == (("a",),)
    assert (found.columns, found.pairs) == ({"a": 0.5, "one": 0.0}, ())
    assert "Pairs" not in str(found)


def test_progress_reaches_the_end() -> None:
    fractions: list[float] = []
    compare(REAL, OTHER, Workload.kway(SCHEMA.domain, 1), progress=fractions.append)
    assert fractions == sorted(fractions)
    assert math.isclose(fractions[-1], 1.0)


def test_another_unit_is_no_other_schema() -> None:
    domain = Domain({"a": 2})
    real = TinyTable(domain, [(0,), (1,), (1,)], unit=Unit(column="id"), units=[1, 2, 2])
    assert compare(real, TinyTable(domain, [(0,), (1,)])).error == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Categorical(name="sex", values=("f", "m")), "column 'sex' has other levels"),
        (Categorical(name="gender", values=("female", "male")), "column 'sex' is not in the schema of the synthetic"),
    ],
)
def test_schemas_that_differ_are_refused(column: Categorical, message: str) -> None:
    real = hush.read(people(20, seed=1), Schema([SCHEMA["sex"]]))
    rows = {column.name: list(column.values)}
    other = hush.read(pa.table(rows), Schema([column]))
    with pytest.raises(DomainError, match=message):
        compare(real, other)


def test_what_cannot_be_compared_is_refused() -> None:
    domain = Domain({"a": 2})
    real, none = TinyTable(domain, [(0,)]), TinyTable(domain, [])
    model = hush.fit(domain, [Measurement(("a",), [4.0, 5.0], 1.0)])
    with pytest.raises(DataError, match="real: expected a table of the private rows, got Model"):
        compare(model, real)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="synthetic: expected a table, a release or a model, got str"):
        compare(real, "rows.csv")  # type: ignore[arg-type]
    for pair in ((real, none), (none, real)):
        with pytest.raises(DataError, match="has no rows"):
            compare(*pair)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="over another domain"):
        compare(real, real, Workload.kway(Domain({"a": 3}), 1))  # type: ignore[arg-type]


def test_counts_are_compared_only_where_the_rows_are_as_many() -> None:
    schema = hush.datasets.people_schema()
    real, few, alike = (hush.read(hush.datasets.people(rows, seed=rows), schema) for rows in (1000, 50, 1010))
    workload = hush.Workload.marginals(schema.domain, [("sex",)])
    found = compare(real, few, workload)
    said = " ".join(str(found).split())
    assert not found.same_rows
    assert found.error > 0.9  # nearly all rows are missing, which says nothing of the shares
    assert f"Error {found.errors.share_error:.3g} (0 = identical" in said
    assert "The numbers of rows differ, so counts are not compared" in said
    assert f"{found.error:.3g} in counts" not in said
    near = compare(real, alike, workload)
    assert near.same_rows
    assert f"{near.error:.3g} in counts per real row" in " ".join(str(near).split())
