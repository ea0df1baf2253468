"""A tree that splits while a noisy score says so: its whole law on every neighbour, and the worst paths there are."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hush.core.errors import BudgetError
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.noise import DiscreteLaplace
from hush.privacy.partition_laws import SplittingTree, TreeScores, loss_bound, node_sizes
from hush.testing.laws import cdf

Cuts = tuple[int, ...]


def split_chances(biased: Any, law: SplittingTree, scale: Fraction) -> np.ndarray:
    """P(b + Z > threshold)."""
    return 1 - cdf(DiscreteLaplace(scale), law.threshold - np.asarray(biased))


def four_cells(law: SplittingTree, levels: tuple[np.ndarray, ...], rows: int = 1) -> dict[Cuts, float]:
    """The probability of every tree over four cells: the root's split, then those of the halves."""
    scale, toll = law.noise(rows)
    root, halves = int(levels[0][0]), np.minimum(levels[1], levels[0][0])
    floor = law.threshold - toll
    top = float(split_chances(max(root, floor), law, scale))
    left, right = split_chances(np.maximum(halves - toll, floor), law, scale)
    return {
        (0, 4): 1 - top,
        (0, 2, 4): top * (1 - left) * (1 - right),
        (0, 1, 2, 4): top * left * (1 - right),
        (0, 2, 3, 4): top * (1 - left) * right,
        (0, 1, 2, 3, 4): top * left * right,
    }


def deviation_levels(cells: np.ndarray) -> tuple[np.ndarray, ...]:
    def deviation(window: np.ndarray) -> int:
        return min(int(np.abs(window - m).sum()) for m in window)

    return np.array([deviation(cells)]), np.array([deviation(cells[:2]), deviation(cells[2:])])


def count_levels(cells: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.array([cells.sum()]), np.array([cells[:2].sum(), cells[2:].sum()])


@pytest.mark.parametrize("levels_of", [deviation_levels, count_levels])
@pytest.mark.parametrize("law", [SplittingTree(Fraction(1), 2), SplittingTree(Fraction(3), 1, Fraction(2))], ids=str)
def test_no_tree_tells_neighbours_apart_by_more_than_epsilon(levels_of: Any, law: SplittingTree) -> None:
    """All tables of up to four rows in a cell, and all that have one row more; both ways round."""
    furthest = 0.0
    for counts in itertools.product(range(5), repeat=4):
        before = four_cells(law, levels_of(np.array(counts)))
        for cell in range(4):
            more = np.array(counts)
            more[cell] += 1
            after = four_cells(law, levels_of(more))
            furthest = max(furthest, *(abs(math.log(after[cuts] / before[cuts])) for cuts in before))
    assert 0.4 * float(law.epsilon) < furthest <= float(law.epsilon)


def path_loss(law: SplittingTree, scores: np.ndarray, moves: np.ndarray, scale: Fraction, toll: int) -> float:
    """The logarithm of the odds of one path: all nodes split but the last, whose scores a row moves."""
    depth, floor = np.arange(len(scores)), law.threshold - toll
    before = split_chances(np.maximum(np.minimum.accumulate(scores) - toll * depth, floor), law, scale)
    after = split_chances(np.maximum(np.minimum.accumulate(scores + moves) - toll * depth, floor), law, scale)
    return float(np.log(after[:-1] / before[:-1]).sum() + math.log((1 - after[-1]) / (1 - before[-1])))


def worst_path(law: SplittingTree, scale: Fraction, toll: int) -> float:
    """Over paths whose scores fall by the toll each depth or stay, at every height, and ways a row may move them."""
    worst = 0.0
    for lift in range(-2 * toll, 4 * toll + 2):
        for flat, length in itertools.product((True, False), (2, 4, 7)):
            depth = np.arange(length)[::-1]
            scores = law.threshold + lift + toll * (length - 1) + (0 if flat else toll * depth)
            scores = np.broadcast_to(scores, length).astype(np.int64)
            for last, rest in itertools.product((-1, 0, 1), (0, 1)):
                moves = np.full(length, rest)
                moves[-1] = last
                worst = max(worst, abs(path_loss(law, scores, moves, scale, toll)))
    return worst


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_the_worst_paths_lose_nearly_epsilon_and_no_more(epsilon: Fraction) -> None:
    law = SplittingTree(epsilon, 3)
    scale, toll = law.noise()
    assert 0.85 * float(epsilon) < worst_path(law, scale, toll) <= float(epsilon)
    assert loss_bound(scale, toll) <= epsilon
    # with a fifth less noise the same paths would lose more
    assert worst_path(law, scale * Fraction(4, 5), max(1, toll * 4 // 5)) > float(epsilon)


def test_the_loss_is_bounded_closely() -> None:
    for scale, toll in ((Fraction(25), 18), (Fraction(3), 2), (Fraction(1, 2), 1)):
        a, q = math.exp(-1 / scale), math.exp(-toll / scale)
        loss = 2 / scale + sum(math.log1p(q**i * (1 - a) / (1 + a - q**i)) for i in range(1, 400))
        assert loss - 1e-12 <= float(loss_bound(scale, toll)) <= loss + 0.03 * float(1 / scale)


def test_noise_does_not_grow_with_depth_and_grows_with_rows() -> None:
    law = SplittingTree(Fraction(1, 10))
    assert 2.5 < float(law.noise()[0] * law.epsilon) < 2.6
    assert law.noise(3) == SplittingTree(Fraction(1, 30)).noise()
    assert law.noise(1, 4) == SplittingTree(Fraction(1, 10), 0, Fraction(14, 10)).noise()


@pytest.mark.parametrize("fanout", [2, 4])
def test_empty_parts_of_the_tree_stay_small(fanout: int) -> None:
    """A node at the floor has less than one child that splits, on average: trees over nothing have few leaves."""
    levels = [np.zeros(-(-4096 // size), dtype=np.int64) for size in node_sizes(4096, fanout)]
    law, scores = SplittingTree(Fraction(1, 10), 1000), TreeScores(tuple(levels), 4096, fanout)
    leaves = [len(law.choose(scores, NotPrivateEntropy(seed))) - 1 for seed in range(200)]
    assert np.mean(leaves) < 3


@pytest.mark.parametrize("levels", [deviation_levels, count_levels])
def test_draws_have_the_law(levels: Any) -> None:
    law, entropy = SplittingTree(Fraction(2), 2), NotPrivateEntropy(3)
    scores = levels(np.array([4, 0, 3, 2]))
    draws = Counter(law.choose(TreeScores(scores, 4), entropy) for _ in range(3_000))
    expected = four_cells(law, scores)
    assert sum(draws.values()) == sum(draws[cuts] for cuts in expected)
    observed = [draws[cuts] for cuts in expected]
    assert stats.chisquare(observed, np.array(list(expected.values())) * 3_000).pvalue > 1e-9
    other = four_cells(SplittingTree(Fraction(4), 2), scores)
    assert stats.chisquare(observed, np.array(list(other.values())) * 3_000).pvalue < 1e-9


def test_scores_above_those_of_the_parent_count_as_no_more() -> None:
    """Halves that would always split by their own scores split no more often than the root's score lets them."""
    law, whole = SplittingTree(Fraction(1, 2), 10), 0
    plain = (np.array([12]), np.array([12, 12]))
    steep = (np.array([12]), np.array([1000, 1000]))
    for seed in range(30):
        drawn = [law.choose(TreeScores(levels, 4), NotPrivateEntropy(seed)) for levels in (plain, steep)]
        assert drawn[0] == drawn[1]
        whole += drawn[0] in ((0, 2, 4), (0, 1, 2, 4), (0, 2, 3, 4))
    assert whole > 5  # trees in which a half was reached and not split


@pytest.mark.parametrize(("cells", "fanout"), [(1, 2), (2, 2), (7, 2), (64, 4), (50, 4), (10, 3)])
def test_a_tree_that_always_splits_reaches_every_cell_and_one_that_never_does_stays_whole(
    cells: int, fanout: int
) -> None:
    levels = [np.full(-(-cells // size), 10**6) for size in node_sizes(cells, fanout)]
    scores, entropy = TreeScores(tuple(levels), cells, fanout), NotPrivateEntropy(1)
    assert SplittingTree(Fraction(1)).choose(scores, entropy) == tuple(range(cells + 1))
    assert SplittingTree(Fraction(1), 2**40, Fraction(16)).choose(scores, entropy) == (0, cells)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SplittingTree(Fraction(0)), "epsilon=0"),
        (lambda: SplittingTree(Fraction(1), True), "threshold=True"),
        (lambda: SplittingTree(Fraction(1), 0, Fraction(1, 100)), "decay=0.01"),
        (lambda: TreeScores((), 4), "expected int64 arrays of"),
        (lambda: TreeScores((np.zeros(1), np.zeros(2)), 4), "expected int64 arrays of"),
        (lambda: TreeScores((), 1, 1), "fanout=1"),
        (lambda: TreeScores((), 1, 2, 0), "rows=0"),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        make()
