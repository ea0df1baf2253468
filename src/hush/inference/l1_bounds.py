"""L1 bounds: how far a table of a fitted model is from the truth, from noisy measurements and at no privacy cost.

x is the true table of n cells, m the model's, y = x + e an unbiased estimate with Gaussian noise e. Every bound holds
with probability 1 - `failure` for any m, even one that was fitted to y.

Noise in whole numbers, or in multiples of `step`, has atoms that a Gaussian does not have. Adding half a step, and
using the variance *parameters* of the discrete law, which are never below its variances, makes up for them; the tests
compare the bounds with the exact law for independent cells. `step` = 0 is for Gaussian noise.

Reference: [AIM, sec. 5].
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from hush.core.arrays import Floats

MEAN_ABSOLUTE_NORMAL = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
LEAST_CELLS = 64  # fewer do not justify a second bound, which takes a share of the failure probability
STEP_SURPLUS = 1 / 19  # of d^2 / s^2: noise in steps d has a mean beyond a threshold larger by this; 1/24 for large s
STEP_DEFICIT = 1 / 8  # of d^2 / s^2: and a mean distance smaller by this; 1/12 for large s
NEWTON_STEPS = 100
GRID_SHARE = 0.2  # of the failure probability of a supported table, for the bounds of sparse tables
TOTAL_SHARE = 0.05  # of the failure probability, for the number of records
CHOICE_SHARE = 0.5  # of the rest, for the exponential mechanism; the other part is for the noise of the chosen table


def noise_l1(cells: int, variance: float, largest: float, failure: float, step: float = 0.0) -> float:
    """A bound that the L1 norm of Gaussian noise exceeds with probability at most `failure`.

    With s^2 the variance of every cell and lambda the largest eigenvalue of the covariance,
    P(||e||_1 >= sqrt(2/pi) n s + t sqrt(n lambda)) <= 1 - Phi(t).
    Write e as a linear function of white noise. The norm is a convex function of the white noise with Lipschitz
    constant sqrt(n lambda). Gaussian isoperimetry gives 1 - Phi(t) for deviations above the median, and the median of a
    convex function is at most its mean.

    Reference: [Borell 1975; Sudakov and Tsirelson 1974] for the median; [Kwapien 1994] for median <= mean.
    Differs from [AIM, Thm 3]: sqrt(2/pi) = 0.798 in place of sqrt(2 log 2) = 1.177, 1 - Phi(t) in place of
    exp(-t^2/2), and correlated cells, as generalised least squares has them.

    >>> round(noise_l1(100, 1.0, 1.0, 0.05), 1), round(math.sqrt(2 * math.log(2)) * 100 + 1.7309 * math.sqrt(200), 1)
    (96.2, 142.2)
    """
    return (
        MEAN_ABSOLUTE_NORMAL * cells * math.sqrt(variance) + _quantile(failure) * math.sqrt(cells * largest) + step / 2
    )


def top_noise(
    cells: int, largest_cells: int, variance: float, largest: float, failure: float, step: float = 0.0
) -> float:
    """A bound that the sum of the k largest positive parts of the noise exceeds with probability at most `failure`.

    For any tau >= 0 the sum is at most k tau + sum_i (e_i - tau)_+. With tau = s q and 1 - Phi(q) = k/n, the mean of
    this is n s phi(q), for any correlations. The sum is convex with Lipschitz constant sqrt(k lambda) in white noise,
    so t sqrt(k lambda) is added as in `noise_l1`. Holds for all sets of k cells at once. For noise in steps d the mean
    is larger by at most d^2 / (19 s^2) of itself.
    """
    q = float(-scipy.special.ndtri(min(largest_cells / cells, 0.5)))
    mean = cells * math.sqrt(variance / (2 * math.pi)) * math.exp(-q * q / 2)
    mean *= 1 + STEP_SURPLUS * step * step / variance
    return mean + _quantile(failure) * math.sqrt(largest_cells * largest) + step / 2


def supported(
    model: Floats,
    unbiased: Floats,
    variance: float,
    largest: float,
    failure: float,
    records: float = math.inf,
    step: float = 0.0,
) -> float:
    """A bound on ||x - m||_1 from an unbiased estimate y of the same table: the smaller of two kinds of bound.

    The plain bound is ||m - y||_1 + `noise_l1`. The other uses x, m >= 0 and a bound `records` on sum(x):
    ||x - m||_1 = sum(x) + sum(m) - 2 sum min(x, m), and for every set S of k cells
    sum min(x, m) >= sum_S min(x, m) >= sum_S min(y, m) - sum_S e_+ >= sum_S min(y, m) - `top_noise`(k).
    `top_noise` holds for all sets at once, so S may be the best one for y and m. k runs through 0 and the powers of two
    up to n/2, each with an equal part of a fifth of the failure probability: a union bound over a grid fixed in
    advance. Sparse tables, whose overlap is in few cells, get far smaller bounds; k = 0 is the trivial bound
    sum(x) + sum(m). Tables of fewer than 64 cells use only k = 0.

    The failure probability of `records` is not included.

    Reference: [AIM, Cor. 1] for the plain bound.
    """
    n, overlap = model.size, np.minimum(model, unbiased).ravel()
    grid = [2**j for j in range((n // 2).bit_length())] if n >= LEAST_CELLS and math.isfinite(records) else []
    grid_failure = GRID_SHARE * failure if grid else 0.0
    bounds = [float(np.abs(model - unbiased).sum()) + noise_l1(n, variance, largest, failure - grid_failure, step)]
    held = records + float(model.sum())
    best = np.concatenate([[0.0], np.cumsum(np.maximum(np.sort(overlap)[::-1], 0.0))])
    share = grid_failure / max(len(grid), 1)
    bounds += [held, *(held - 2 * (best[k] - top_noise(n, k, variance, largest, share, step)) for k in grid)]
    return max(min(bounds), 0.0)


def chosen(misfit: float, stddev: float, cells: int, failure: float, step: float = 0.0) -> float:
    """A bound on ||x - m||_1 from ||y - m||_1 = `misfit`, for noise that is independent of m.

    ||y - m||_1 >= ||x - m||_1 - sum_i s_i e_i with the signs s of x - m, hence
    P(||x - m||_1 > misfit + t sigma sqrt(n)) <= 1 - Phi(t).
    On average noise increases a misfit: E||y - m||_1 >= n h(||x - m||_1 / n) by Jensen's inequality, with
    h(u) = E|u + sigma z| convex and increasing, and P(||y - m||_1 <= E - t sigma sqrt(n)) <= exp(-t^2/2). Tables of 64
    cells or more take the smaller of both bounds, each with half the failure probability. In steps d, h is smaller by
    at most sqrt(2/pi) min(sigma, 1/8 d^2 / sigma).

    Reference: [AIM, Thm 6]. Differs from [AIM]: 1 - Phi(t) in place of exp(-t^2/2), and the second bound.

    >>> [round(chosen(misfit, 1.0, 1000, 0.025)) for misfit in (800, 1200, 3000)]
    [495, 1176, 3071]
    """
    spread = stddev * math.sqrt(cells)
    if cells < LEAST_CELLS:
        return misfit + _quantile(failure) * spread + step / 2
    direct = misfit + _quantile(failure / 2) * spread + step / 2
    mean = (misfit + math.sqrt(2 * math.log(2 / failure)) * spread) / (cells * stddev)
    mean += MEAN_ABSOLUTE_NORMAL * min(1.0, STEP_DEFICIT * (step / stddev) ** 2)
    return min(direct, cells * stddev * _unfolded(mean))


def unsupported(
    chosen_error: float,
    chosen_penalty: float,
    relative_weight: float,
    penalty: float,
    slack: float,
    slope: float,
    failure: float,
) -> float:
    """A bound on the error of any candidate, from `chosen_error`, a bound on the error of the chosen one.

    The exponential mechanism chooses a score near the best: with probability 1 - `failure`, for all
    candidates at once, ||x - m||_1 <= penalty_r + (w_t / w_r) (error_t - penalty_t) + slack_r + slope_r log(1/failure).

    Reference: [AIM, Thm 4]. Differs from [AIM]: the weight w_t also multiplies the part of the chosen table's error
    that is due to its noise; as printed there, the bound fails far more often than it claims.
    """
    bound = penalty + relative_weight * (chosen_error - chosen_penalty) + slack - slope * math.log(failure)
    return max(bound, 0.0)


def split(failure: float) -> tuple[float, float]:
    """The failure probabilities of the noise of the chosen table and of the choice, fixed in advance.

    Half each is within 15 % of the best split of t sigma sqrt(n_t) + slope log(1/failure), for chosen tables of 2 to
    10,000 cells and nine parts of the budget for measuring to one for choosing. No other fixed share is better by more
    than 1 % in the worst case.
    """
    return failure * (1 - CHOICE_SHARE), failure * CHOICE_SHARE


def above(variance: float, failure: float, step: float = 0.0) -> float:
    """What an unbiased estimate of a number is below that number, except with probability `failure`, at most."""
    return _quantile(failure) * math.sqrt(variance) + step / 2


def total_error(estimate: float, variance: float, model_total: float, failure: float, step: float = 0.0) -> float:
    """A bound on |N - sum(m)| from an unbiased estimate of the number of records N."""
    return abs(estimate - model_total) + _quantile(failure / 2) * math.sqrt(variance) + step / 2


def linear_margin(lowest: Floats, highest: Floats, l1_error: float, total_drift: float) -> Floats:
    """A bound on |sum_i a_i m_i - sum_i a_i x_i| for coefficients in [lowest, highest].

    With d = x - m, ||d||_1 <= B and |sum d| <= D <= B,
    |sum a d| <= (highest - lowest) B / 2 + |highest + lowest| D / 2:
    excess in some cells is balanced by deficits in others, up to D. A count has coefficients 0 and 1, so (B + D) / 2.

    >>> float(linear_margin(np.array(0.0), np.array(1.0), 100.0, 10.0))
    55.0
    """
    drift = min(total_drift, l1_error)
    return np.asarray((highest - lowest) * (l1_error / 2) + np.abs(highest + lowest) * (drift / 2))


def _quantile(failure: float) -> float:
    """t with 1 - Phi(t) = failure; at least 0, which isoperimetry requires."""
    return max(float(-scipy.special.ndtri(failure)), 0.0)


def _unfolded(mean: float) -> float:
    """u >= 0 with E|u + z| = 2 phi(u) + u (2 Phi(u) - 1) = mean; 0 if the mean is below that of u = 0.

    Newton's method from above: the function is convex and at least u, and its slope is 2 Phi(u) - 1. So no step goes
    below the solution, and every iterate is an upper bound.
    """
    if mean <= MEAN_ABSOLUTE_NORMAL:
        return 0.0
    u = mean
    for _ in range(NEWTON_STEPS):
        slope = float(2 * scipy.special.ndtr(u) - 1)
        step = (MEAN_ABSOLUTE_NORMAL * math.exp(-u * u / 2) + u * slope - mean) / slope
        u -= max(step, 0.0)
        if step <= 1e-12 * mean:
            break
    return u
