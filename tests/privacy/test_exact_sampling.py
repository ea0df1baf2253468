"""Exact sampling: bounds, laws, undecided trials, and where random bits come from."""

import gc
import math
import multiprocessing
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hush.privacy._kernels import DONE, run_trials
from hush.privacy.exact_sampling import (
    Envelope,
    NotPrivateEntropy,
    SystemEntropy,
    below_exp,
    envelope,
    exp_bounds,
    numpy_trials,
)
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.testing import check_law
from hush.testing.laws import LawError

GAUSSIAN_SCALES = [0.3, 1.0, 7.99, 33.7, 1000.5, 2.0**25]
LAPLACE_SCALES = [0.3, 1.0, 20.0, 1e5]


def gaussian(scale: float, **options: float) -> Envelope:
    return Envelope(1 / (2 * Fraction(scale) ** 2), quadratic=True, **options)  # type: ignore[arg-type]


def laplace(scale: float, **options: float) -> Envelope:
    return Envelope(1 / Fraction(scale), quadratic=False, **options)  # type: ignore[arg-type]


ALL = [gaussian(scale) for scale in GAUSSIAN_SCALES] + [laplace(scale) for scale in LAPLACE_SCALES]


@pytest.mark.parametrize("table", ALL, ids=lambda table: f"{'g' if table.quadratic else 'l'}{table.inverse:.3g}")
def test_compiled_trials_equal_their_numpy_twin(table: Envelope) -> None:
    words = NotPrivateEntropy(1).words(20_000 * table.per_trial)
    values, verdict = numpy_trials(table, words)
    out = np.empty(20_000, dtype=np.int64)
    filled, trial, status = run_trials(
        words, table.per_trial, 0, table.table, table.guide, table.gap, table.shift,
        table.drop, 2.0**-table.accept_bits, table.quadratic, table.inverse, table.slack, out, 0,
    )  # fmt: skip
    assert (trial, status) == (20_000, DONE)
    assert (verdict >= 0).all()  # this seed meets no undecided trial
    np.testing.assert_array_equal(out[:filled], values[verdict == 1])


@pytest.mark.parametrize("table", ALL, ids=lambda table: f"{'g' if table.quadratic else 'l'}{table.inverse:.3g}")
def test_block_table_holds_the_exact_cumulative_law(table: Envelope) -> None:
    low, high = table._cumulative(64)
    with mpmath.workprec(400):
        rate = mpmath.mpf(table.rate.numerator) / table.rate.denominator
        width = 1 << table.shift
        power = 2 if table.quadratic else 1
        weights = [mpmath.exp(-rate * mpmath.mpf(j * width) ** power) for j in range(len(low) * 8 + 400)]
        total = mpmath.fsum(weights)
        sums = [mpmath.fsum(weights[: j + 1]) / total * mpmath.mpf(2) ** 64 for j in range(len(low))]
        assert all(below <= exact <= above for below, exact, above in zip(low, sums, high, strict=True))
    assert table.gap >> (64 - table.block_bits) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "bits"), [(0.5, 3), (9.0, 8), (40.0, 8)])
def test_forced_fallbacks_have_the_same_law(scale: float, bits: int) -> None:
    """With a table of few bits and a slack of a quarter, many trials are finished by exact arithmetic."""
    forced = gaussian(scale, table_bits=bits, slack=0.25)
    words = NotPrivateEntropy(5).words(2000 * forced.per_trial)
    assert (numpy_trials(forced, words)[1] == -1).mean() > 0.1
    samples = forced.sample(40_000, NotPrivateEntropy(6))
    check_law(samples, DiscreteGaussian.of_scale(scale))
    with pytest.raises(LawError):
        check_law(samples, DiscreteGaussian.of_scale(1.25 * scale))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.7, 25.0])
def test_forced_fallbacks_of_laplace_have_the_same_law(scale: float) -> None:
    samples = laplace(scale, table_bits=8, slack=0.25).sample(30_000, NotPrivateEntropy(7))
    check_law(samples, DiscreteLaplace.of_scale(scale))
    with pytest.raises(LawError):
        check_law(samples, DiscreteLaplace.of_scale(0.8 * scale))


class Scripted:
    """Words given in advance, then seeded ones."""

    private = False

    def __init__(self, first: list[int]) -> None:
        self.first, self.rest = list(first), NotPrivateEntropy(8)

    def words(self, count: int) -> np.ndarray:
        own = np.array(self.first[:count], dtype=np.uint64)
        self.first = self.first[count:]
        return np.concatenate([own, self.rest.words(count - len(own))])


def test_a_uniform_number_beyond_the_table_reaches_the_far_tail() -> None:
    """All ones in the first bits of U lie beyond the table: the block comes from a finer one."""
    table = gaussian(91.0)
    assert table.block_bits == 32
    far = table._finish_block(2**32 - 1, Scripted([2**64 - 2]))
    assert far >= len(table.table)
    edge = int(table.table[3]) >> 32
    assert table._finish_block(edge, Scripted([0])) == 3
    assert table._finish_block(edge, Scripted([2**64 - 1])) == 4


def test_tables_are_shared() -> None:
    assert envelope(Fraction(1, 18), True) is envelope(Fraction(1, 18), True)


@given(
    st.fractions(min_value=0, max_value=400, max_denominator=10**30),
    st.sampled_from([1, 5, 43, 53, 64, 128, 300]),
)
def test_bounds_hold_the_exponential_within_one_step(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(2000):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 1


def test_bounds_at_zero_are_exact() -> None:
    assert exp_bounds(Fraction(0), 64) == (2**64, 2**64)


@pytest.mark.parametrize("x", [Fraction(1, 7), Fraction(1), Fraction(5, 2)])
def test_comparison_from_no_bits_has_the_probability_of_the_exponential(x: Fraction) -> None:
    entropy = NotPrivateEntropy(3)
    hits = sum(below_exp(0, 0, x, entropy) for _ in range(20_000))
    p = float(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator))
    assert stats.binomtest(hits, 20_000, p).pvalue > 1e-9
    assert stats.binomtest(hits, 20_000, 0.9 * p).pvalue < 1e-9


def test_comparison_respects_the_bits_already_drawn() -> None:
    x = Fraction(1)  # exp(-1) = 0.01011110...b
    entropy = NotPrivateEntropy(4)
    assert all(below_exp(0b0100, 4, x, entropy) for _ in range(50))
    assert not any(below_exp(0b0110, 4, x, entropy) for _ in range(50))
    boundary = [below_exp(0b01011110, 8, x, entropy) for _ in range(4000)]
    inside = float((mpmath.exp(-1) * 256) % 1)
    assert stats.binomtest(int(np.sum(boundary)), 4000, inside).pvalue > 1e-9


@pytest.mark.parametrize("x", [Fraction(40), Fraction(800), Fraction(100_001, 100)])
def test_comparison_goes_on_where_floats_are_zero(x: Fraction) -> None:
    """Zero bits of U are below exp(-x) however large x is; one bit further up, where exp(-x) ends, they are not."""
    place = int(float(x) / math.log(2))  # exp(-x) lies between 2^-(place + 1) and 2^-place
    assert below_exp(0, 53, x, Scripted([0] * (place // 64 + 2)))
    assert not below_exp(1, place - 1, x, Scripted([]))
    assert below_exp(0, place + 2, x, Scripted([]))


def _noise(_: int) -> bytes:
    return DiscreteGaussian.of_scale(1000).sample(16, SystemEntropy()).tobytes()


def _noise_in_fork() -> bytes:
    """Noise drawn by a forked child of a process that has drawn noise before."""
    _noise(0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()  # garbage of the parent may hold connections, whose threads a child lacks
        os.write(writer, _noise(1))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read()


def test_forked_children_draw_different_noise() -> None:
    draws = [_noise(0), *(_noise_in_fork() for _ in range(6)), _noise(0)]
    assert len(draws[1]) == 128
    assert len(set(draws)) == len(draws)


def test_spawned_workers_draw_different_noise() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        draws = pool.map(_noise, range(4), chunksize=1)
    assert len(set(draws)) == 4


def test_words_are_uniform_and_never_repeat() -> None:
    words = SystemEntropy().words(100_000)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == len(words)
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 6 * 0.5 / np.sqrt(64 * 100_000)


def test_numpy_global_state_has_no_influence() -> None:
    state = np.random.get_state()[1].copy()
    np.random.seed(0)
    first = _noise(0)
    np.random.seed(0)
    assert _noise(0) != first
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    _noise(0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert state is not None


def test_only_the_seeded_source_is_marked() -> None:
    assert SystemEntropy().private
    assert not NotPrivateEntropy(1).private
    np.testing.assert_array_equal(NotPrivateEntropy(1).words(5), NotPrivateEntropy(1).words(5))
