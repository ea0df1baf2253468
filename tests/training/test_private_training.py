"""Lots, clipping, noise and steps of private training: against plain numpy twins and by statistics with controls."""

import itertools
from collections import Counter

import numpy as np
import pytest

from hush.core.errors import DataError
from hush.training import private_training
from hush.training.private_training import (
    LEAST_CLIP,
    MOST_CLIP,
    Network,
    SparseRows,
    TrainingRule,
    checked_rows,
    draw_lots,
    shortened,
    softmax,
    train_linear,
    train_network,
)

HUGE = np.finfo(float).max
SIZES = (HUGE, 1e300, 1e155, 1.1e154, 1e100, 1e8, 1.0, 1e-160, 1e-308, 5e-324, -0.0)  # of what rows and weights hold
SIGNS = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [-1, 0, 0, 1], [0, 0, 0, -1]])
RULE = {"epochs": 1, "lot": 4, "learning_rate": 0.5, "noise": 0.0, "clip": 0.7}


def rows(count: int = 12, width: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    features = random.normal(size=(count, width)) * (random.random((count, width)) < 0.6)
    return features, np.where(random.random(count) < 0.5, 1.0, -1.0)


def twin(features, labels, rule: TrainingRule, generator, *, hinge: bool) -> np.ndarray:
    """The algorithm as it is written, one row at a time."""
    wide = np.column_stack([features, np.ones(len(features))])
    weights, mean, square = np.zeros(wide.shape[1]), 0.0, 0.0
    steps = rule.epochs * round(len(labels) / rule.lot)
    lots, ends = draw_lots(len(labels), rule.lot, steps, generator, poisson=rule.poisson)
    noise = generator.standard_normal((steps, len(weights)))
    for step in range(steps):
        total = np.zeros(len(weights))
        for i in lots[ends[step] : ends[step + 1]]:
            margin = labels[i] * (wide[i] @ weights)
            slope = -labels[i] * (float(margin < 1) if hinge else 1 / (1 + np.exp(margin)))
            gradient = slope * wide[i]
            total += gradient * min(1.0, rule.clip / max(np.linalg.norm(gradient), 1e-300))
        gradient = (total + rule.noise * rule.sensitivity * noise[step]) / rule.lot
        if rule.adam:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            gradient = mean / (1 - 0.9 ** (step + 1)) / (np.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-8)
        weights = weights - rule.learning_rate * gradient
    return weights


@pytest.mark.parametrize(("hinge", "adam", "poisson"), list(itertools.product([False, True], repeat=3)))
def test_compiled_steps_are_those_of_the_algorithm(hinge: bool, adam: bool, poisson: bool) -> None:
    features, labels = rows()
    rule = TrainingRule(**RULE | {"epochs": 3, "noise": 0.3, "adam": adam, "poisson": poisson})
    found = train_linear(SparseRows.of(features), labels, rule, np.random.default_rng(7), hinge=hinge)
    assert found == pytest.approx(twin(features, labels, rule, np.random.default_rng(7), hinge=hinge))
    assert np.abs(found).max() > 0.01


@pytest.mark.parametrize("adam", [False, True])
def test_rows_of_ones_train_as_if_their_ones_were_written_out(adam: bool) -> None:
    features, labels = rows()
    ones = (features != 0).astype(float)
    rule = TrainingRule(**RULE | {"epochs": 3, "noise": 0.3, "adam": adam})
    sparse = SparseRows.of(ones)
    assert len(sparse.values) == 0
    assert sparse.entries.sum() == ones.sum() == len(sparse.columns)
    found = train_linear(sparse, labels, rule, np.random.default_rng(7), hinge=False)
    assert found == pytest.approx(twin(ones, labels, rule, np.random.default_rng(7), hinge=False))


def test_long_rows_leave_the_norms_of_others_exact() -> None:
    features = np.array([[1e9, 0.0], [30.0, 40.0], [0.0, 0.0], [1e9, 1e9], [3.0, 4.0]])
    assert SparseRows.of(features).squares[[1, 2, 4]].tolist() == [2500.0, 0.0, 25.0]


@pytest.mark.parametrize(("poisson", "factor"), [(False, 2.0), (True, 1.0)])
def test_the_noise_has_the_scale_of_its_sensitivity(poisson: bool, factor: float) -> None:
    """20,000 draws: the standard deviation is known to 0.5 %, so 4 % is eight standard errors; half or double fails."""
    rule = TrainingRule(**RULE | {"lot": 10, "noise": 1.3, "learning_rate": 1.0, "poisson": poisson})
    empty = SparseRows.of(np.zeros((10, 20_000)))
    weights = train_linear(empty, np.ones(10), rule, np.random.default_rng(2), hinge=False)[:-1]
    stated = 1.3 * factor * rule.clip / 10
    assert weights.std() == pytest.approx(stated, rel=0.04)
    assert abs(weights.mean()) < 5 * stated / np.sqrt(20_000)
    assert np.mean(np.abs(weights) > 2 * stated) == pytest.approx(0.0455, abs=0.01)  # the tails are Gaussian
    for wrong in (0.5, 0.8, 1.25, 2.0):
        assert weights.std() != pytest.approx(wrong * stated, rel=0.04)


def moved(clip: float, other: float) -> float:
    """How far the clipped sum of one step moves if a row is replaced by its worst opposite."""
    features, labels = rows()
    features[0], labels[0] = 50.0, 1.0
    changed = features.copy()
    changed[0] = 50.0 * other
    rule = TrainingRule(**RULE | {"lot": 12, "learning_rate": 12.0, "clip": clip})
    found = [
        train_linear(SparseRows.of(x), y, rule, np.random.default_rng(3), hinge=False)
        for x, y in ((features, labels), (changed, labels))
    ]
    return float(np.linalg.norm(found[0] - found[1]))


def test_one_row_moves_a_sum_by_twice_the_clip_at_most() -> None:
    assert 1.9 * 0.7 < moved(0.7, -1.0) <= 2 * 0.7 * (1 + 1e-9)
    assert moved(0.7, 1.0) == 0.0
    assert moved(1e9, -1.0) > 50  # without clipping, the row would decide everything


def hostile_rows() -> np.ndarray:
    """Rows of equal numbers, and rows that hold a huge one and an ordinary one."""
    even = [size * sign for size in SIZES for sign in SIGNS]
    return np.array([*even, *([size, 1.0, -1.0, 0.5] for size in SIZES)])


def linear_sum(row, label: float, weights, clip: float, *, hinge: bool) -> np.ndarray:
    """What one row adds to a sum of clipped gradients, at given weights."""
    sparse, total = SparseRows.of(row[None]), np.zeros((1, len(weights)))
    norms = np.sqrt(sparse.squares + 1.0)
    lots, ends = np.array([0], dtype=np.uint32), np.array([0, 1], dtype=np.uint32)
    private_training.private_steps(
        sparse.starts, sparse.columns, sparse.values, norms, np.array([label]), lots, ends, total, weights.copy(),
        np.zeros((2, len(weights))), 0, 1.0, clip, 0.0, hinge, False,
    )  # fmt: skip
    return total[0]


WEIGHTS = {
    "at the start": np.zeros(5),
    "trained": np.array([0.3, -2.0, 1.5, 0.7, -0.2]),
    "large": np.array([1e200, -1e300, 1e160, 1e-200, 1.0]),
    "infinite": np.array([np.inf, -np.inf, 1.0, 0.0, np.inf]),
    "lost": np.full(5, np.nan),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("hinge", [False, True])
def test_no_row_adds_more_than_the_clip_to_a_linear_sum(hinge: bool, weights: str) -> None:
    reached = 0.0
    with np.errstate(all="ignore"):
        for row, label, clip in itertools.product(hostile_rows(), (-1.0, 1.0), (LEAST_CLIP, 0.7, MOST_CLIP)):
            added = linear_sum(row, label, WEIGHTS[weights], clip, hinge=hinge) / clip
            assert np.linalg.norm(added) <= 1 + 1e-12  # never NaN
            reached = max(reached, float(np.linalg.norm(added)))
    assert reached > 0.99 or weights == "lost"  # the clip is used up, so that a looser one would be seen


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("hidden", [(), (6,), (3, 6)])
def test_no_row_adds_more_than_the_clip_to_the_sum_of_a_network(hidden: tuple[int, ...], weights: str) -> None:
    network, reached = Network((4, *hidden, 2), np.random.default_rng(2)), 0.0
    if weights != "at the start":
        for layer in network.layers:
            layer[:] = np.resize(WEIGHTS[weights], layer.shape)
    with np.errstate(all="ignore"):
        for row, label, clip in itertools.product(hostile_rows(), (0, 1), (LEAST_CLIP, 0.7, MOST_CLIP)):
            sums = network.clipped_sums(row[None], np.array([label]), clip)
            norm = np.linalg.norm(np.concatenate([layer.ravel() / clip for layer in sums]))
            assert norm <= 1 + 1e-12
            reached = max(reached, float(norm))
    assert reached > 0.99 or weights in ("large", "infinite", "lost")


def test_small_errors_of_large_layers_are_clipped() -> None:
    """A value of 1e153 and an error of 1e-163: the square of the error is 0, and the gradient 1e-10."""
    network = Network((1, 1, 2), np.random.default_rng(2))
    network.layers = [np.array([[1e153], [0.0]]), np.array([[3.75e-151, 0.0], [0.0, 0.0]])]
    error = softmax(network.outputs(np.ones((1, 1)))[-1])[0, 1]
    assert error * 1e153 > 1e-11
    assert error**2 == 0
    sums = network.clipped_sums(np.ones((1, 1)), np.array([0]), LEAST_CLIP)
    assert np.sqrt(sum((layer**2).sum() for layer in sums)) <= LEAST_CLIP * (1 + 1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_a_row_that_overflows_leaves_the_others_of_its_lot_as_they_are(size: float) -> None:
    random = np.random.default_rng(6)
    network, features, classes = Network((4, 5, 2), random), random.normal(size=(6, 4)), np.arange(6) % 2
    for row in size * SIGNS:
        with np.errstate(all="ignore"):
            both = network.clipped_sums(np.vstack([features, row]), np.append(classes, 1), 0.7)
            own = network.clipped_sums(row[None], np.array([1]), 0.7)
        for found, others, added in zip(both, network.clipped_sums(features, classes, 0.7), own, strict=True):
            assert found == pytest.approx(others + added, abs=1e-9)


def test_shortened_rows_have_a_length_of_one_at_most() -> None:
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(shortened(np.vstack([hostile_rows(), [[0.6, 0.8, 0, 0], [0.3, 0.4, 0, 0]]])), axis=1)
    assert lengths.max() == pytest.approx(1, abs=1e-12)
    assert lengths[-2:] == pytest.approx([1, 0.5])  # which nothing shortens
    assert np.linalg.norm(shortened(np.ones((1, 400)))) == pytest.approx(1)


def test_fixed_lots_are_uniform_subsets() -> None:
    """All 10 subsets of 2 of 5 rows, 10,000 lots: each has 1,000 +- 30; the bound is five standard deviations."""
    for lots, ends in (
        draw_lots(5, 2, 10_000, np.random.default_rng(4)),
        draw_lots(5, 3, 10_000, np.random.default_rng(4)),
    ):
        size = int(ends[1])
        subsets = Counter(frozenset(lot) for lot in lots.reshape(-1, size))
        assert len(subsets) == 10
        assert all(len(subset) == size for subset in subsets)
        assert max(abs(count - 1000) for count in subsets.values()) < 150


def test_poisson_lots_take_every_row_by_itself() -> None:
    """Sizes of 20,000 lots have the variance n q (1 - q) of independent rows, and pairs meet with probability q^2."""
    lots, ends = draw_lots(20, 5, 20_000, np.random.default_rng(5), poisson=True)
    sizes = np.diff(ends)
    assert sizes.mean() == pytest.approx(5, abs=0.07)
    assert sizes.var() == pytest.approx(20 * 0.25 * 0.75, rel=0.05)
    inside = np.zeros((20_000, 20), dtype=bool)
    inside[np.repeat(np.arange(20_000), sizes), lots] = True
    assert inside.sum() == sizes.sum()  # nobody twice
    assert inside.mean(axis=0) == pytest.approx(0.25, abs=0.02)
    assert np.mean(inside[:, 0] & inside[:, 1]) == pytest.approx(0.0625, abs=0.009)


def test_gradients_of_networks_are_clipped_row_by_row() -> None:
    random = np.random.default_rng(6)
    network = Network((4, 5, 3), random)
    features, classes = random.normal(size=(6, 4)), np.array([0, 1, 2, 0, 1, 2])

    def loss(row: int) -> float:
        return -np.log(softmax(network.outputs(features[row : row + 1])[-1])[0, classes[row]])

    expected = [np.zeros_like(layer) for layer in network.layers]
    norms = []
    for row in range(6):
        gradients = []
        for layer in network.layers:
            gradient = np.zeros_like(layer)
            for place in np.ndindex(layer.shape):
                layer[place] += 1e-6
                up = loss(row)
                layer[place] -= 2e-6
                gradient[place] = (up - loss(row)) / 2e-6
                layer[place] += 1e-6
            gradients.append(gradient)
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        norms.append(norm)
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * min(1.0, 0.9 / norm)
    assert min(norms) < 0.9 < max(norms)
    for found, wanted in zip(network.clipped_sums(features, classes, 0.9), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("adam", [False, True])
def test_a_network_learns_what_no_line_separates(adam: bool) -> None:
    random = np.random.default_rng(8)
    features = random.uniform(-1, 1, (600, 2))
    classes = (features[:, 0] * features[:, 1] > 0).astype(np.int64)
    rule = TrainingRule(epochs=40, lot=60, learning_rate=0.02 if adam else 1.0, noise=0.3, clip=1.0, adam=adam)
    network = train_network(features, classes, (2, 16, 2), rule, np.random.default_rng(9))
    assert np.mean(network.outputs(features)[-1].argmax(axis=1) == classes) > 0.85


def test_training_that_diverges_stops() -> None:
    features, labels = rows()
    rule = TrainingRule(**RULE | {"epochs": 5, "learning_rate": 1e308, "noise": 1.0})
    with np.errstate(all="ignore"):
        weights = train_linear(SparseRows.of(features), labels, rule, np.random.default_rng(1), hinge=False)
    assert not np.isfinite(weights).all()


def test_rows_that_are_no_numbers_are_refused() -> None:
    for features, says in (
        ([["a"]], "a matrix of numbers"),
        ([[10**400]], "a matrix of numbers"),
        ([1.0, 2.0], "shape"),
        ([[np.nan]], "finite"),
        (np.zeros((0, 2)), "shape"),
    ):
        with pytest.raises(DataError, match=says):
            checked_rows(features)
    with pytest.raises(DataError, match="2 columns; the model was trained on 3"):
        checked_rows([[1, 2]], 3)
