import datetime as dt
import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hush.core.domain import Domain
from hush.core.errors import DataError, SchemaError, SizeError, WorkloadError
from hush.inference.factors import Factors
from hush.models.graphical import synthetic_rows as synthesis
from hush.models.graphical._row_kernels import EVERY_ROW_DRAWN, group_rows, round_cells, sample_cells
from hush.models.graphical.belief_propagation import Belief, in_tree_order
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.synthetic_rows import (
    DRAWING_METHODS,
    LEAST_MEAN,
    decoded,
    draw_rows,
    mean_tilts,
    shares_in_bins,
    tilts,
)
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema

DOMAIN = Domain({"a": 3, "b": 4, "one": 1, "c": 2, "d": 5, "e": 3, "alone": 6})
CLIQUES = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "three-way": [("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"), ("one", "e")],
    "disconnected": [("a", "b"), ("d", "e")],
    "nothing": [],
    "everything": [tuple(DOMAIN)],
}
trees = st.sampled_from([JunctionTree.build(DOMAIN, cliques) for cliques in CLIQUES.values()])


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def conditionals_of(tree: JunctionTree, seed: int, zeros: float = 0.3) -> list[np.ndarray]:
    """Skewed tables with cells of probability zero, but no row without a positive cell."""
    random = generator(seed)
    tables = []
    for node in tree.nodes:
        shape = (tree.domain.size(node.separator), tree.domain.size(node.rest))
        table = random.gamma(0.5, size=shape) * (random.random(shape) >= zeros)
        table[np.arange(shape[0]), random.integers(0, shape[1], shape[0])] += 0.1
        tables.append(table)
    return tables


def joint_of(tree: JunctionTree, tables: list[np.ndarray]) -> np.ndarray:
    """The probability of every cell of the domain: the product of all conditionals."""
    letter = {name: chr(ord("a") + i) for i, name in enumerate(tree.domain)}
    operands = [
        (table / table.sum(axis=1, keepdims=True)).reshape(tree.domain.sizes(node.axes))
        for node, table in zip(tree.nodes, tables, strict=True)
    ]
    inputs = ",".join("".join(letter[name] for name in node.axes) for node in tree.nodes)
    return np.einsum(f"{inputs}->{''.join(letter.values())}", *operands)


def count(domain: Domain, codes: dict[str, np.ndarray], clique: tuple[str, ...]) -> np.ndarray:
    cells = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
    for name in clique:
        cells = cells * domain[name] + codes[name]
    return np.bincount(cells, minlength=domain.size(clique))


def by_node(tree: JunctionTree, tables: list[np.ndarray], codes: dict[str, np.ndarray]):
    """For every node: rows in each cell, and rows expected there given the rows in each separator cell."""
    for node, table in zip(tree.nodes, tables, strict=True):
        found = count(tree.domain, codes, node.axes).reshape(table.shape)
        yield found, found.sum(axis=1, keepdims=True) * (table / table.sum(axis=1, keepdims=True))


# one node at a time: compiled loops and their plain twins


def grouped(keys: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    starts, order = np.zeros(cells + 1, dtype=np.int64), np.empty(len(keys), dtype=np.int32)
    group_rows(keys.astype(np.int32), starts, order)
    return starts, order


def rounded(table: np.ndarray, keys: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    starts, order = grouped(keys, len(table))
    picked = np.empty(len(keys), dtype=np.int32)
    assert round_cells(table, starts, order, uniforms, np.empty_like(picked), picked) == EVERY_ROW_DRAWN
    return picked


def sampled(table: np.ndarray, keys: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    starts, order = grouped(keys, len(table))
    width = table.shape[1]
    picked = np.empty(len(keys), dtype=np.int32)
    assert (
        sample_cells(table, starts, order, uniforms, np.empty(width), np.empty(width, np.int32), picked)
        == EVERY_ROW_DRAWN
    )
    return picked


def twin(table, keys, uniforms, *, method: str = "rounding", shuffle: bool = True) -> np.ndarray:
    """The same by whole arrays: a stable sort, cumulative sums, repetition, and the same exchanges."""
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=len(table)))
    picked = np.empty(len(keys), dtype=np.int32)
    for s, (first, last) in enumerate(itertools.pairwise([0, *ends])):
        g, u = last - first, uniforms[first:last]
        reached = np.cumsum(table[s])
        reached = reached / reached[-1] if g else reached
        if method == "sampling":
            cells = np.searchsorted(reached, u, side="right")
        elif g:
            upto = np.minimum(np.floor(g * reached + u[0]), g).astype(np.int64)
            cells = np.repeat(np.arange(table.shape[1]), np.diff(upto, prepend=0))
            for i in range(g - 1, 0, -1) if shuffle else ():
                j = int(u[i] * (i + 1))
                cells[i], cells[j] = cells[j], cells[i]
        else:
            continue
        picked[order[first:last]] = cells
    return picked


@given(seed=st.integers(0, 2**32), groups=st.integers(1, 6), width=st.integers(1, 9), rows=st.integers(0, 60))
def test_compiled_loops_equal_their_plain_twins(seed: int, groups: int, width: int, rows: int) -> None:
    random = generator(seed)
    table = random.gamma(0.3, size=(groups, width)) * 10.0 ** random.integers(-300, 300, size=(groups, 1))
    table[:, random.integers(width)] += 1e-300
    keys, uniforms = random.integers(0, groups, rows), random.random(rows)
    np.testing.assert_array_equal(rounded(table, keys, uniforms), twin(table, keys, uniforms))
    np.testing.assert_array_equal(sampled(table, keys, uniforms), twin(table, keys, uniforms, method="sampling"))


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize(
    "row", [[0.1] * 10, [5e-324, 1e-323, 0.0], [0.0, 1e300, 0.0], [0.0, 0.3, 1e-20, 0.0], [1 / 3] * 3]
)
def test_extreme_uniforms_and_tables_fill_every_group_exactly(row: list[float], u: float) -> None:
    table = np.array([row])
    for rows in (1, 2, 3, 10, 1000, 99_999):
        keys, uniforms = np.zeros(rows, dtype=np.int64), np.full(rows, u)
        for picked in (rounded(table, keys, uniforms), sampled(table, keys, uniforms)):
            assert table[0, picked].min() > 0
        found = np.bincount(rounded(table, keys, uniforms), minlength=len(row))
        assert found.sum() == rows
        assert np.abs(found - rows * table[0] / table.sum()).max() < 1 + 1e-9


GROUPS, ROWS = 40_000, 7
SHARES = np.array([0.31, 0.02, 0.0, 0.27, 0.05, 0.35])  # times 7: 2.17, 0.14, 0, 1.89, 0.35, 2.45


def counts_per_group(picked: np.ndarray) -> np.ndarray:
    keys = np.repeat(np.arange(GROUPS), ROWS)
    return np.bincount(keys * len(SHARES) + picked, minlength=GROUPS * len(SHARES)).reshape(GROUPS, -1)


def farthest(found: np.ndarray) -> float:
    """How many standard errors the mean count of a cell is from ROWS * SHARES, at most.

    With 40,000 groups a standard error is at most 0.0025, so that 5 of them are a bias of 0.0125 rows per group.
    """
    e = ROWS * SHARES
    f = e - np.floor(e)
    deviation = np.abs(found.mean(axis=0) - e)
    return float((deviation / np.sqrt(f * (1 - f) / GROUPS + 1e-30))[f > 1e-9].max())


def replicate(draw, seed: int) -> np.ndarray:
    table = np.tile(SHARES, (GROUPS, 1))
    return counts_per_group(draw(table, np.repeat(np.arange(GROUPS), ROWS), generator(seed).random(GROUPS * ROWS)))


def test_rounding_has_exactly_the_expected_counts_and_the_least_variance() -> None:
    found, e = replicate(rounded, 1), ROWS * SHARES
    assert farthest(found) < 5
    assert ((found == np.floor(e)) | (found == np.ceil(e))).all()
    f = e - np.floor(e)
    np.testing.assert_allclose(found.var(axis=0), f * (1 - f), atol=0.006)


def test_sampling_has_the_expected_counts_and_binomial_variance() -> None:
    found = replicate(sampled, 2)
    variance = ROWS * SHARES * (1 - SHARES)
    assert (np.abs(found.mean(axis=0) - ROWS * SHARES) <= 5 * np.sqrt(variance / GROUPS)).all()
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.05)
    assert found.var(axis=0).sum() > 4 * replicate(rounded, 3).var(axis=0).sum()


def test_biased_rounders_are_caught() -> None:
    e = ROWS * SHARES
    whole = np.floor(e).astype(np.int64)
    f, left = e - whole, ROWS - int(whole.sum())
    assert left == 2
    nearest = whole + (stats.rankdata(-f, method="ordinal") <= left)
    assert farthest(np.tile(nearest, (GROUPS, 1))) > 50
    # one remaining row after the other with probability proportional to the fractional parts: not the right law
    races = -np.log(1 - generator(4).random((GROUPS, len(e)))) / np.maximum(f, 1e-300)
    successive = whole + (np.argsort(np.argsort(races, axis=1), axis=1) < left)
    assert farthest(successive) > 20


def test_the_order_within_a_group_is_uniform() -> None:
    rows, groups = 4, 24_000
    table = np.full((groups, rows), 1.0)
    picked = rounded(table, np.repeat(np.arange(groups), rows), generator(5).random(rows * groups)).reshape(-1, rows)
    seen = np.unique(picked, axis=0, return_counts=True)[1]
    assert len(seen) == 24
    assert stats.chisquare(seen).pvalue > 1e-6


# whole trees


@settings(max_examples=60)
@given(tree=trees, seed=st.integers(0, 2**32), rows=st.integers(0, 3000))
def test_rounding_is_within_one_row_of_expectation_in_every_cell_of_every_group(tree, seed, rows) -> None:
    tables = conditionals_of(tree, seed)
    codes = draw_rows(tree, tables, rows, generator(seed))
    assert tuple(codes) == tree.domain.attributes
    assert {len(column) for column in codes.values()} == {rows}
    for (found, expected), table in zip(by_node(tree, tables, codes), tables, strict=True):
        assert np.abs(found - expected).max() < 1 + 1e-9
        assert not found[table == 0].any()
        runs = np.abs(np.cumsum(found, axis=1) - np.cumsum(expected, axis=1))
        assert runs.max() < 1 + 1e-9


@pytest.mark.parametrize("cliques", CLIQUES.values(), ids=CLIQUES)
def test_marginals_of_nodes_are_within_rounding_error_of_the_model(cliques) -> None:
    """Off by less than one more in each cell than its share of what its separator's cell is off by."""
    tree = JunctionTree.build(DOMAIN, cliques)
    tables = conditionals_of(tree, 7)
    joint, rows = joint_of(tree, tables), 20_000
    codes = draw_rows(tree, tables, rows, generator(7))
    bounds: list[np.ndarray] = []
    for node, table in zip(tree.nodes, tables, strict=True):
        above = np.zeros(1)
        if node.separator:
            parent = tree.nodes[node.parent]
            gone = tuple(axis for axis, name in enumerate(parent.axes) if name not in node.separator)
            kept = [name for name in parent.axes if name in node.separator]
            margin = bounds[node.parent].sum(axis=gone)
            above = margin.transpose([kept.index(name) for name in node.separator]).reshape(-1)
        bound = above[:, None] * (table / table.sum(axis=1, keepdims=True)) + 1
        bounds.append(bound.reshape(DOMAIN.sizes(node.axes)))
        gone = tuple(axis for axis, name in enumerate(DOMAIN) if name not in node.clique)
        places = [node.clique.index(name) for name in node.axes]
        expected = rows * joint.sum(axis=gone).transpose(places).reshape(-1)
        found = count(DOMAIN, codes, node.axes)
        assert (np.abs(found - expected) < bound.reshape(-1) + 1e-6).all()


def law(draws: int, rows: int, seed: int, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per cell of the whole domain: rows in all draws, first rows of all draws, and the model's probability."""
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 2})
    tree = JunctionTree.build(domain, [("a", "b"), ("b", "c"), ("c", "d")])
    tables = conditionals_of(tree, 3, zeros=0.15)
    random = generator(seed)
    found = [draw_rows(tree, tables, rows, random, method=method) for _ in range(draws)]
    stacked = {name: np.stack([codes[name] for codes in found]) for name in domain}
    every = {name: column.ravel() for name, column in stacked.items()}
    first = {name: column[:, 0] for name, column in stacked.items()}
    names = domain.attributes
    return count(domain, every, names), count(domain, first, names), joint_of(tree, tables).ravel()


def z_scores(found: np.ndarray, total: int, p: np.ndarray) -> np.ndarray:
    """Deviations in binomial standard errors, an upper bound for rounded rows, which vary less."""
    assert not found[p == 0].any()
    return np.abs(found - total * p)[p > 0] / np.sqrt(total * p * (1 - p))[p > 0]


@pytest.mark.slow
@pytest.mark.parametrize("method", DRAWING_METHODS)
def test_rows_follow_the_joint_law_and_so_does_the_first_of_them(method: str) -> None:
    """3,000 draws of 6 rows: a cell of probability 0.1 would be caught at 0.1 +- 0.011 (all rows; first: 0.027)."""
    draws, rows = 3000, 6
    found, first, p = law(draws, rows, 11, method)
    assert z_scores(found, draws * rows, p).max() < 5
    assert z_scores(first, draws, p).max() < 5


def test_rows_that_are_not_shuffled_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unshuffled(table, starts, order, uniforms, group, picked) -> int:
        keys = np.empty(len(order), dtype=np.int64)
        keys[order] = np.repeat(np.arange(len(table)), np.diff(starts))
        picked[:] = twin(table, keys, uniforms, shuffle=False)
        return EVERY_ROW_DRAWN

    monkeypatch.setattr(synthesis, "round_cells", unshuffled)
    found, first, p = law(1000, 6, 11, "rounding")
    assert z_scores(found, 6000, p).max() > 8
    assert z_scores(first, 1000, p).max() > 8


@pytest.mark.parametrize("method", DRAWING_METHODS)
def test_columns_without_a_common_node_are_independent_given_the_separator(method: str) -> None:
    domain = Domain({"a": 4, "b": 3, "c": 4})
    tree = JunctionTree.build(domain, [("a", "b"), ("b", "c")])
    codes = draw_rows(tree, conditionals_of(tree, 5, zeros=0.0), 30_000, generator(5), method=method)
    for value in range(3):
        together = count(domain, {name: codes[name][codes["b"] == value] for name in domain}, ("a", "c")).reshape(4, 4)
        together = together[together.sum(axis=1) > 50][:, together.sum(axis=0) > 50]
        assert min(together.shape) > 1
        assert stats.chi2_contingency(together).pvalue > 1e-6


@pytest.mark.parametrize("method", DRAWING_METHODS)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows(method: str, rows: int) -> None:
    tree = JunctionTree.build(DOMAIN, CLIQUES["three-way"])
    codes = draw_rows(tree, conditionals_of(tree, 1), rows, generator(1), method=method)
    assert [len(column) for column in codes.values()] == [rows] * len(DOMAIN)


@pytest.mark.parametrize("method", DRAWING_METHODS)
def test_codes_have_the_smallest_type_and_use_every_level(method: str) -> None:
    sizes = {"n1": 1, "n2": 2, "n256": 256, "n257": 257, "n65536": 65_536, "n65537": 65_537}
    tree = JunctionTree.build(Domain(sizes), [("n2", "n256"), ("n257", "n2")])
    tables = [np.ones((tree.domain.size(node.separator), tree.domain.size(node.rest))) for node in tree.nodes]
    codes = draw_rows(tree, tables, 200_000, generator(1), method=method)
    names = [str(column.dtype) for column in codes.values()]
    assert names == ["uint8", "uint8", "uint8", "uint16", "uint16", "uint32"]
    assert all(column.max() < sizes[name] for name, column in codes.items())
    if method == "rounding":
        assert [len(np.unique(column)) for column in codes.values()] == list(sizes.values())


def test_a_domain_without_attributes_has_rows_without_columns() -> None:
    tree = JunctionTree.build(Domain({}), [])
    assert draw_rows(tree, [np.ones((1, 1))], 5, generator(1)) == {}


@pytest.mark.parametrize("method", DRAWING_METHODS)
def test_rows_depend_on_the_seed_and_on_nothing_else(method: str) -> None:
    tree = JunctionTree.build(DOMAIN, CLIQUES["loop"])
    tables = conditionals_of(tree, 2)
    scaled = [table * 2.0 ** np.arange(-3, len(table) - 3)[:, None] for table in tables]
    first, again, other, transposed = (
        draw_rows(tree, given, 500, generator(seed), method=method)
        for given, seed in ((tables, 8), (scaled, 8), (tables, 9), ([np.asfortranarray(t) for t in tables], 8))
    )
    for name in DOMAIN:
        np.testing.assert_array_equal(first[name], again[name])
        np.testing.assert_array_equal(first[name], transposed[name])
    assert any((first[name] != other[name]).any() for name in DOMAIN)


def test_more_rows_than_32_bits_count_are_drawn_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = JunctionTree.build(DOMAIN, CLIQUES["tree"])
    tables = conditionals_of(tree, 2)
    plain = [draw_rows(tree, tables, 300, generator(8), method=method) for method in DRAWING_METHODS]
    monkeypatch.setattr(synthesis, "MOST_INT32", 299)
    for method, codes in zip(DRAWING_METHODS, plain, strict=True):
        wide = draw_rows(tree, tables, 300, generator(8), method=method)
        assert all(wide[name].dtype == codes[name].dtype and (wide[name] == codes[name]).all() for name in DOMAIN)


def test_no_rows_are_empty_columns() -> None:
    tree = JunctionTree.build(DOMAIN, [])
    codes = draw_rows(tree, conditionals_of(tree, 4), 0, generator(4))
    assert [len(column) for column in codes.values()] == [0] * len(DOMAIN)


PAIR = JunctionTree.build(Domain({"a": 2, "b": 2, "c": 2}), [("a", "b"), ("b", "c")])


@pytest.mark.parametrize("method", DRAWING_METHODS)
def test_a_row_without_positive_cells_is_refused_only_where_it_is_reached(method: str) -> None:
    assert [node.separator for node in PAIR.nodes] == [(), ("b",)]
    b_is_0 = np.array([[0.5, 0.0, 0.5, 0.0]]) if PAIR.nodes[0].rest[-1] == "b" else np.array([[0.5, 0.5, 0.0, 0.0]])
    below = np.array([[0.2, 0.8], [0.0, 0.0]])
    assert not draw_rows(PAIR, [b_is_0, below], 1000, generator(1), method=method)["b"].any()
    for broken in (below, np.array([[0.2, 0.8], [1e308, 1e308]])):
        with pytest.raises(DataError, match=r"no positive finite total for b = 1, .*take them from a calibrated one"):
            draw_rows(PAIR, [np.ones((1, 4)), broken], 1000, generator(1), method=method)
    with pytest.raises(DataError, match=r"for any row"):
        draw_rows(PAIR, [np.zeros((1, 4)), below], 1, generator(1), method=method)


@pytest.mark.parametrize("method", DRAWING_METHODS)
@pytest.mark.parametrize("scale", [1.0, 800.0])
def test_rows_of_a_calibrated_model_keep_to_what_is_possible(method: str, scale: float) -> None:
    """No b = 1 although only (b, d) forbids it, and a functional dependency of e on d, under extreme potentials too."""
    cliques = CLIQUES["tree"]
    tree = in_tree_order(JunctionTree.build(DOMAIN, cliques))
    factors = Factors(tree.domain, cliques)
    potentials = scale * generator(3).normal(size=factors.size)
    assert [tree.domain.clique(clique) for clique in (("b", "d"), ("d", "e"))] == [("b", "d"), ("d", "e")]
    not_b_1, e_of_d = np.zeros((4, 5)), np.full((5, 3), -np.inf)
    not_b_1[1] = -np.inf
    e_of_d[np.arange(5), np.arange(5) % 3] = 0.0
    belief = Belief(tree, factors, [(("b", "d"), not_b_1), (("d", "e"), e_of_d)])
    rows = 5000
    mu = belief.marginals(potentials, float(rows), np.empty(factors.size))
    codes = draw_rows(tree, belief.conditionals(), rows, generator(3), method=method)
    assert not (codes["b"] == 1).any()
    assert (codes["e"] == codes["d"] % 3).all()
    slack = 6.1 if method == "rounding" else 5 * math.sqrt(rows / 4)
    for index, clique in enumerate(factors.cliques):
        expected = factors.table(mu, index).reshape(-1)
        found = count(tree.domain, codes, clique)
        assert not found[expected == 0].any()
        assert np.abs(found - expected).max() < slack


GOOD = [np.ones((1, 4)), np.ones((2, 2))]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "alias"}, WorkloadError, "method='alias': expected one of 'rounding', 'sampling'"),
        ({"rows": -1}, WorkloadError, "rows=-1: expected a whole number of at least 0"),
        ({"rows": 2.5}, WorkloadError, "rows=2.5"),
        ({"rows": True}, WorkloadError, "rows=True"),
        ({"generator": 5}, WorkloadError, "generator=5: expected a numpy.random.Generator"),
        ({"conditionals": GOOD[:1]}, DataError, "1 conditional tables for 2 nodes"),
        ({"conditionals": [np.ones((1, 4)), np.ones(4)]}, DataError, r"has shape \(4,\), not \(2, 2\)"),
        ({"conditionals": [np.ones((1, 4)), np.array([[1, -1], [1, 1.0]])]}, DataError, "finite and not negative"),
        ({"conditionals": [np.full((1, 4), np.nan), np.ones((2, 2))]}, DataError, "finite and not negative"),
        ({"conditionals": [np.full((1, 4), np.inf), np.ones((2, 2))]}, DataError, "finite and not negative"),
    ],
)
def test_bad_input_is_refused_before_anything_is_drawn(change, error, message) -> None:
    given = {"tree": PAIR, "conditionals": GOOD, "rows": 10, "generator": generator(1)} | change
    with pytest.raises(error, match=message):
        draw_rows(**given)


def test_more_rows_than_memory_holds_are_refused() -> None:
    with pytest.raises(SizeError, match=r"1000000000000000 rows: .* needed, .* free; draw them in chunks, or fewer"):
        draw_rows(PAIR, GOOD, 10**15, generator(1))


# real values

SCHEMA = Schema(
    [
        Numeric(name="height", edges=(0.0, 1.0, 1.0 + 2.0**-52, 50.0, 1e3), missing=True),
        Numeric(name="huge", edges=(-1.7e308, 0.0, 1.7e308)),
        Integer(name="age", low=18, high=20, missing=True),
        Categorical(name="sex", values=("f", "m"), other=True, missing=True),
        Boolean(name="smokes"),
        Date(name="since", start=pa.scalar(0, pa.date32()).as_py(), end=pa.scalar(90, pa.date32()).as_py()),
    ]
)


def test_decoded_numbers_lie_inside_their_bins_and_the_rest_is_what_the_schema_says() -> None:
    random = generator(6)
    codes = {column.name: random.integers(0, column.size, 4000).astype(column.dtype) for column in SCHEMA}
    table, plain = decoded(SCHEMA, codes, random), SCHEMA.decode(codes)
    assert table.schema == plain.schema
    for name in ("age", "sex", "smokes", "since"):
        assert table[name].equals(plain[name])
    for column in SCHEMA.columns[:2]:
        values = table[column.name].to_pylist()
        assert [column.missing_code if v is None else column.code_of(v) for v in values] == codes[column.name].tolist()
        assert all(math.isfinite(v) for v in values if v is not None)
    wide = np.array([v for v in table["height"].to_pylist() if v is not None and v >= 50])
    assert stats.kstest(wide, stats.uniform(50, 950).cdf).pvalue > 1e-6


def test_decoding_is_by_seed_and_refuses_what_the_schema_refuses() -> None:
    codes = {"height": np.arange(4)}
    first, again, other = (decoded(SCHEMA, codes, generator(seed)) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    with pytest.raises(SchemaError, match=r"codes must lie in 0 \.\. 4"):
        decoded(SCHEMA, {"height": np.array([5])}, generator(1))


@settings(max_examples=200)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0), min_size=2, max_size=6, unique=True
    )
    | st.lists(st.decimals(-50, 50, places=1).map(lambda x: float(x) + 0.0), min_size=2, max_size=6, unique=True),
    st.integers(0, 2**32),
)
def test_rounded_numbers_stay_in_their_bins(edges: list[float], seed: int) -> None:
    column = Numeric(name="x", edges=tuple(sorted(edges)))
    codes = np.repeat(np.arange(column.levels), 20)
    values = decoded(Schema([column]), {"x": codes}, generator(seed))["x"].to_pylist()
    assert [column.code_of(value) for value in values] == codes.tolist()
    assert all(column.edges[0] <= value < column.edges[-1] for value in values)


@pytest.mark.parametrize(
    ("edges", "decimals"), [((0, 5000, 10_000), 0), ((0, 50), 2), ((-1, 1, 3), 3), ((0.2, 0.25), 5), ((0, 1e9), 0)]
)
def test_numbers_have_about_four_digits_of_the_width_of_their_bin(edges: tuple[float, ...], decimals: int) -> None:
    codes = np.zeros(1000, dtype=np.int64)
    values = decoded(Schema([Numeric(name="x", edges=edges)]), {"x": codes}, generator(1))["x"].to_pylist()
    assert all(value == round(value, decimals) for value in values)
    assert len(set(values)) > 700
    assert abs(np.mean(values) - (edges[0] + edges[1]) / 2) < 0.06 * (edges[1] - edges[0])


@pytest.mark.parametrize("granularity", ["week", "month", "quarter", "year"])
def test_days_are_uniform_in_their_period(granularity: str) -> None:
    start, end = dt.date(2019, 11, 20), dt.date(2021, 2, 10)
    column = Date(name="since", start=start, end=end, granularity=granularity, missing=True)  # type: ignore[arg-type]
    codes = np.repeat(np.arange(column.size), 3000 // column.size)
    table = decoded(Schema([column]), {"since": codes.astype(np.uint8)}, generator(4))
    assert table.schema == Schema([column]).decode({"since": codes}).schema
    days = table["since"].to_pylist()
    assert [column.missing_code if day is None else column.ordinal(day) for day in days] == codes.tolist()
    assert {day for day in days if day is not None} >= {start, end}
    first, last = column.days(1)
    inside = [(day - first).days for day in days if day is not None and first <= day <= last]
    share = np.bincount(inside, minlength=(last - first).days + 1)
    assert stats.chisquare(share).pvalue > 1e-6


def test_points_are_given_exactly_and_integers_stay_in_their_bins() -> None:
    schema = Schema(
        [
            Numeric(name="gain", edges=(0.0, 10.0, 1e6), points=(0.0, 7.3, 1e6), missing=True),
            Integer(name="hours", low=-3, high=99, starts=(-3, 10, 41), points=(0, 40)),
        ]
    )
    random = generator(8)
    codes = {column.name: random.integers(0, column.size, 4000).astype(column.dtype) for column in schema}
    table = decoded(schema, codes, random)
    assert table.schema == schema.decode(codes).schema
    for column in schema:
        values = table[column.name].to_pylist()
        assert [column.missing_code if v is None else column.code_of(v) for v in values] == codes[column.name].tolist()
    gains, hours = np.array(table["gain"].to_pylist(), dtype=float), np.array(table["hours"].to_pylist())
    assert set(gains[codes["gain"] == schema["gain"].code_of(7.3)]) == {7.3}
    assert set(hours[codes["hours"] == schema["hours"].code_of(50)]) == set(range(41, 100))


STEPPED = [
    Numeric(name="x", edges=(-1.0, 0.0, 0.25, 7.0, 30.5), step=0.1, missing=True),
    Numeric(name="x", edges=(0.0, 10.0, 20.0), points=(0.0, 0.3, 20.0), step=0.1),
    Numeric(name="x", edges=(0.0, 0.05, 1.0), step=0.25),
    Numeric(name="x", edges=(0.0, 1000.0, 5000.0), step=50),
    Numeric(name="x", edges=(0.0, 1e6, 1e7), step=0.01),
]


@pytest.mark.parametrize("column", STEPPED)
@pytest.mark.parametrize("with_means", [False, True])
def test_numbers_with_a_step_are_multiples_of_it_in_their_bins(column: Numeric, with_means: bool) -> None:
    codes = np.repeat(np.arange(column.size), 200)
    means = {"x": np.array([column.value(code) for code in range(column.levels)])} if with_means else None
    numbers = decoded(Schema([column]), {"x": codes}, generator(3), means)["x"].to_pylist()
    present = [(number, code) for number, code in zip(numbers, codes, strict=True) if code != column.missing_code]
    assert [column.code_of(number) for number, _ in present] == [code for _, code in present]
    for number, code in present:
        first, last = column.multiples(int(code))
        multiple = Decimal(repr(number)) / Decimal(repr(column.step))
        assert first > last or multiple == multiple.to_integral_value()
    assert any(column.multiples(code)[0] <= column.multiples(code)[1] for code in range(column.levels))


def test_multiples_in_a_bin_are_equally_likely_and_their_mean_is_kept() -> None:
    """Of 20,000 rows each of five multiples has 4,000, with a standard deviation of 57."""
    column = Numeric(name="x", edges=(0.0, 2.0), step=0.5)
    codes = np.zeros(20_000, dtype=np.int64)
    even = np.array(decoded(Schema([column]), {"x": codes}, generator(4))["x"])
    numbers, rows = np.unique(even, return_counts=True)
    assert numbers.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert abs(rows - 4000).max() < 6 * 57
    placed = np.array(decoded(Schema([column]), {"x": codes}, generator(4), {"x": np.array([0.7])})["x"])
    assert placed.mean() == pytest.approx(0.7, abs=0.02)
    assert abs(even.mean() - 0.7) > 0.1


def test_the_tilt_gives_the_mean() -> None:
    means = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
    x = (np.arange(200_000) + 0.5) / 200_000
    for mean, a in zip(means, tilts(means), strict=True):
        density = np.exp(a * (x - (a > 0)))
        assert float(x @ density / density.sum()) == pytest.approx(mean, abs=2e-5)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_the_means_of_all_bins_are_met_to_a_row(rows: int) -> None:
    means = np.array([0.03, 0.3, 0.5, 0.9, 1.0])
    levels = np.repeat(np.arange(5), rows)
    shares = shares_in_bins(levels, means, np.random.default_rng(1))
    assert shares.min() >= 0
    assert shares.max() < 1
    found = np.array([shares[levels == level].mean() for level in range(5)])
    np.testing.assert_allclose(found, np.clip(means, LEAST_MEAN, 1 - LEAST_MEAN), atol=1 / rows)


def test_rows_of_a_bin_are_in_random_order() -> None:
    shares = shares_in_bins(np.zeros(1000, dtype=np.int64), np.array([0.2]), np.random.default_rng(1))
    assert abs(np.corrcoef(np.arange(1000), shares)[0, 1]) < 0.15  # 4.7 standard errors


def test_numbers_and_integers_meet_the_means_and_keep_their_codes() -> None:
    schema = Schema(
        [
            Numeric(name="fare", edges=(0.0, 10.0, 500.0), points=(0.0,), missing=True),
            Integer(name="age", low=0, high=99, starts=(0, 50)),
        ]
    )
    random = np.random.default_rng(2)
    codes = {"fare": random.integers(0, schema.domain["fare"], 6000), "age": random.integers(0, 2, 6000)}
    means = {"fare": np.array([0.0, 2.5, 40.0]), "age": np.array([10.0, 90.0])}
    table = decoded(schema, codes, random, means).to_pandas()
    for name, wanted in means.items():
        values = table[name].to_numpy(dtype=float)
        again = np.array([schema[name].size - 1 if np.isnan(v) else schema[name].code_of(v) for v in values])
        np.testing.assert_array_equal(again, codes[name])
        for code, mean in enumerate(wanted):
            assert values[codes[name] == code].mean() == pytest.approx(mean, rel=0.02, abs=0.3)


def test_the_least_change_of_shares_brings_a_mean_to_the_measured_one() -> None:
    counts = np.array([[900.0, 90.0, 10.0], [900.0, 90.0, 10.0], [5.0, 5.0, 90.0], [0.0, 0.0, 0.0]])
    values = np.array([0.0, 10.0, 1000.0])
    before = counts[:3] @ values / counts[:3].sum(axis=1)
    measured = np.array([6.0, before[1] + 0.5, 500.0, 3.0])
    logs = mean_tilts(counts, values, measured, np.array([0.1, 1.0, 1.0, 1.0]))
    after = counts * np.exp(logs)
    np.testing.assert_allclose(after.sum(axis=1), counts.sum(axis=1))
    means = after[:3] @ values / after[:3].sum(axis=1)
    assert means[0] == pytest.approx(6.0, abs=0.1)  # far from the model's 10.9, and sure
    assert means[1] == pytest.approx(before[1])  # within the error of the measured one: left alone
    assert means[2] == pytest.approx(500.0, abs=1.0)
    np.testing.assert_array_equal(logs[3], 0.0)
    ratio = np.log(after[0] / counts[0])
    assert (ratio[2] - ratio[1]) / (ratio[1] - ratio[0]) == pytest.approx(990 / 10)  # linear in the value


def test_without_means_bins_are_uniform() -> None:
    """The control: a bin far from uniform is seen."""
    schema = Schema([Numeric(name="fare", edges=(0.0, 100.0))])
    codes = {"fare": np.zeros(4000, dtype=np.int64)}
    assert decoded(schema, codes, np.random.default_rng(1))["fare"].to_numpy().mean() == pytest.approx(50, abs=3)
