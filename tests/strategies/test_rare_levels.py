import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import Domain
from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.models.graphical.graphical_fit import fit_model
from hush.privacy.measurement import Measurement
from hush.privacy.sensitivity import ONE_CELL
from hush.strategies.rare_levels import MergedQuery, Merging, merge_neighbours, merge_rare

MERGING = Merging({"b": np.array([0, 2, 1, 2]), "c": np.array([0, 0])})
CLIQUE = ("c", "a", "b")
SIZES = (2, 3, 4)


def test_levels_below_three_deviations_become_the_last_one() -> None:
    found = merge_rare([("x", np.array([29, 30, -5, 100]), 10.0), ("y", np.array([29, 30, 30]), 10.0)])
    assert found is not None
    assert list(found.codes) == ["x"]
    assert found.codes["x"].tolist() == [2, 0, 2, 1]
    assert merge_rare([("y", np.array([29, 30, 30]), 10.0)]) is None


def test_a_column_of_rare_levels_alone_is_one_level() -> None:
    found = merge_rare([("x", np.array([1, 2, 3]), 10.0)])
    assert found is not None
    assert found.codes["x"].tolist() == [0, 0, 0]


@given(st.lists(st.integers(-5, 30), min_size=2, max_size=8))
def test_merged_codes_are_all_in_use_and_keep_the_order_of_common_levels(counts: list[int]) -> None:
    found = merge_rare([("x", np.array(counts), 4.0)])
    rare = [count < 12 for count in counts]
    if sum(rare) < 2:
        assert found is None
        return
    assert found is not None
    codes = found.codes["x"]
    assert set(codes.tolist()) == set(range(len(counts) - sum(rare) + 1))
    assert [int(code) for code, own in zip(codes, rare, strict=True) if not own] == list(range(len(counts) - sum(rare)))


def test_tables_and_operators_say_the_same() -> None:
    table = np.arange(24).reshape(SIZES)
    merged = MERGING.table(CLIQUE, table)
    assert merged.dtype == table.dtype
    assert merged.shape == MERGING.sizes(CLIQUE, SIZES) == (1, 3, 3)
    assert merged[0, 1, 2] == table[:, 1, 1].sum() + table[:, 1, 3].sum()
    np.testing.assert_array_equal(
        MergedQuery(CLIQUE, SIZES, MERGING).operator @ table.ravel().astype(float), merged.ravel()
    )


def test_what_is_not_merged_stays() -> None:
    table = np.arange(3)
    assert MERGING.table(("a",), table) is table
    assert not MERGING.touches(("a", "d"))
    assert MERGING.touches(("a", "c"))


def test_a_row_adds_one_to_one_cell_of_a_merged_table() -> None:
    query = MergedQuery(CLIQUE, SIZES, MERGING)
    assert query.cliques == (CLIQUE,)
    assert query.row_norms == ONE_CELL
    before = np.zeros(SIZES, dtype=np.int64)
    for cell in np.ndindex(*SIZES):
        after = before.copy()
        after[cell] += 1
        gap = query.answer({CLIQUE: after}) - query.answer({CLIQUE: before})
        assert np.abs(gap).sum() == np.square(gap).sum() == 1


def test_the_model_spreads_merged_levels_as_their_column_is_spread() -> None:
    """A pair known over merged levels alone: p(x_b | merged level, x_a) is that of the column b."""
    domain = Domain({"a": 2, "b": 4})
    column = np.array([50.0, 3.0, 40.0, 7.0])
    pair = np.array([[40.0, 10.0, 2.0], [10.0, 30.0, 8.0]])
    merging = Merging({"b": np.array([0, 2, 1, 2])})
    model = fit_model(
        domain,
        [
            Measurement(("b",), column, 0.01),
            Measurement(("a", "b"), pair.ravel(), 0.01, query=MergedQuery(("a", "b"), (2, 4), merging).operator),
        ],
    ).value
    counts = model.counts(("a", "b"))
    np.testing.assert_allclose(merging.table(("a", "b"), counts), pair, atol=0.05)
    np.testing.assert_allclose(counts[:, 1] / counts[:, 3], [3 / 7, 3 / 7], rtol=0.01)


@pytest.mark.parametrize("clique", [("b",), ("a", "b")])
def test_sums_over_merged_levels_keep_the_total(clique: tuple[str, ...]) -> None:
    sizes = [{"a": 3, "b": 4}[name] for name in clique]
    table = np.arange(np.prod(sizes)).reshape(sizes)
    assert MERGING.table(clique, table).sum() == table.sum()


def test_levels_without_codes_are_refused() -> None:
    """A row would be counted twice, beyond the sensitivity that is charged."""
    with pytest.raises(WorkloadError, match="all of them in use"):
        Merging({"b": np.array([0, 0, 2])})


def test_neighbouring_levels_are_merged_into_groups_of_about_equally_many_rows() -> None:
    random = np.random.Generator(np.random.PCG64(0))
    counts = random.gamma(0.5, 100.0, size=40) - 20.0  # noisy counts may be negative
    merging = merge_neighbours({"x": counts, "few": counts[:6]}, 6)
    assert set(merging.codes) == {"x"}
    codes = merging.codes["x"]
    assert (np.diff(codes) >= 0).all()
    assert codes.max() < 6
    held = np.bincount(codes, np.maximum(counts, 0.0))
    largest = np.maximum(counts, 0.0).max()
    assert held.max() <= np.maximum(counts, 0.0).sum() / 6 + largest


@pytest.mark.parametrize("place", range(10))
def test_a_level_with_all_rows_stands_alone(place: int) -> None:
    merging = merge_neighbours({"x": 50.0 * np.eye(10)[place]}, 3)
    assert (merging.codes["x"] == merging.codes["x"][place]).sum() == 1
    assert merging.codes["x"].max() == 1 + (0 < place < 9)


@pytest.mark.parametrize("counts", [np.zeros(10), -np.ones(10)])
def test_columns_without_rows_keep_their_levels(counts: Floats) -> None:
    assert merge_neighbours({"x": counts}, 6).codes == {}
