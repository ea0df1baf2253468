"""p-Identity: the best strategy for one attribute under Laplace noise among Q = [I; Theta] D, D = diag(1 / s).

Theta >= 0 has p rows and s = 1 + 1^T Theta, so every column of Q adds up to one and Q has full rank, whatever Theta is.
With V = W^T W, R = (I + Theta Theta^T)^{-1} and C = diag(s) V diag(s),

    loss(Theta) = tr (Q^T Q)^{-1} V = tr C - tr Theta^T R Theta C
    gradient    = -2 R Theta C (I - Theta^T R Theta) + 2 diag((I - Theta^T R Theta) C) / s   (the second to every row),

with one product of a (p, n) and an (n, n) matrix each. The loss has many local minima. Starts are random rows, and
bumps of one or several widths over the levels. The order of levels comes from V, so renaming levels changes nothing.

Reference: [HDMM, sec. 3.2.2, Def. 11]; the paper states the cost O(p n^2), not the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import SizeError
from hush.core.solution import SOLVED, Solution
from hush.linops import Dense, LinearOperator

LARGEST_SIZE = 4096
LARGEST_ENTRY = 1e3  # of Theta; beyond, rounding hides the loss
SEARCH_SEED = 2018  # public: it places the starts of the search, and is no part of any noise
TRIAL_DIVISOR = 4  # every start gets 1 / TRIAL_DIVISOR of the iterations; the best FINAL_STARTS of them go on
FINAL_STARTS = 2
MANY_LEVELS = 2048  # beyond, bumps of several widths are the only start


def loss(theta: Floats, gram: Floats) -> float:
    """tr (Q^T Q)^{-1} V: the summed variance of queries with Gram matrix V at unit noise."""
    s = 1 + theta.sum(axis=0)
    half = np.linalg.cholesky(np.eye(len(theta)) + theta @ theta.T)
    u = np.linalg.solve(half, theta * s)  # (p, n)
    return float(s**2 @ gram.diagonal() - np.sum((u @ gram) * u))


def loss_and_gradient(theta: Floats, gram: Floats) -> tuple[float, Floats]:
    """The loss and its gradient, (p, n); see the module. O(p n^2)."""
    s = 1 + theta.sum(axis=0)
    r = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    m = r @ (((theta * s) @ gram) * s)  # R Theta C
    rest = s**2 * gram.diagonal() - np.einsum("kj,kj->j", theta, m)  # diag((I - Theta^T R Theta) C)
    return float(rest.sum()), 2 * (rest / s - m + (m @ theta.T) @ (r @ theta))


def strategy(theta: Floats) -> LinearOperator:
    """[I; Theta] D, with column sums one.

    >>> strategy(np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])).dense().sum(axis=0).tolist()
    [1.0, 1.0, 1.0]
    """
    s = 1 + theta.sum(axis=0)
    nonzero_rows = theta[theta.any(axis=1)]
    return Dense(np.concatenate([np.diag(1 / s), nonzero_rows / s]))


def optimise_theta(
    gram: Floats,  # (n, n)
    *,
    rows: int | None = None,
    start: Floats | None = None,  # (p, n)
    restarts: int = 2,
    iterations: int = 500,
    seed: int = SEARCH_SEED,
) -> Solution[Floats]:
    """The Theta with the smallest loss that was found; never worse than `start`, nor than Theta = 0, the identity.

    `rows` is p, by default n // 16 and at least 1; `restarts` is how many random starts join the structured ones, and
    with a `start` and no restarts that start is the only one. `stats` has `value` and `iterations`.

    Reference: [HDMM, sec. 3.2.2] for p and the random starts.
    """
    n = len(gram)
    if n > LARGEST_SIZE:
        raise SizeError(
            f"an attribute of {n} levels is too large to design a strategy for (limit {LARGEST_SIZE}); "
            "coarsen its bins, or ask for its levels by themselves"
        )
    p = max(1, n // 16) if rows is None else rows
    starts = [] if start is None else [start]
    if start is None or restarts:
        starts += _starts(gram, p, restarts, seed)
    if len(starts) > FINAL_STARTS:
        trials = [_descend(gram, theta, -(-iterations // TRIAL_DIVISOR)) for theta in starts]
        starts = [theta for _, theta, _, _ in sorted(trials, key=lambda trial: trial[0])[:FINAL_STARTS]]
    value, theta, count, done = min((_descend(gram, theta, iterations) for theta in starts), key=lambda run: run[0])
    if value > np.trace(gram):
        value, theta, done = float(np.trace(gram)), np.zeros((p, n)), True
    status = SOLVED if done else f"the strategy still improved after {iterations} iterations; raise iterations"
    return Solution(value=theta, status=status, stats={"value": value, "iterations": float(count)})


def _descend(gram: Floats, theta: Floats, iterations: int) -> tuple[float, Floats, int, bool]:
    """Loss, Theta, iterations taken, and whether the descent converged."""
    unit = float(np.trace(gram))
    if unit <= 0:
        return 0.0, np.zeros_like(theta), 0, True
    scaled = gram / unit
    shape = theta.shape

    def scaled_loss(flat: Floats) -> tuple[float, Floats]:
        value, slope = loss_and_gradient(flat.reshape(shape), scaled)
        return value, slope.ravel()

    options = {"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-9, "gtol": 1e-10}
    bounds = scipy.optimize.Bounds(0, LARGEST_ENTRY)
    descent = scipy.optimize.minimize(
        scaled_loss, theta.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    if descent.fun <= scaled_loss(theta.ravel())[0]:
        theta = descent.x.reshape(shape)
    return loss(theta, gram), theta, int(descent.nit), descent.status == 0


def _starts(gram: Floats, p: int, restarts: int, seed: int) -> Sequence[Floats]:
    """Bumps of several widths, of one, of one with the total, and random rows."""
    n = len(gram)
    random = np.random.Generator(np.random.PCG64(seed))
    order = _order(gram, random)
    counts = [1]  # of bumps of each width: 1, 2, 4, ... and the remainder, p in all
    while sum(counts) < p:
        counts.append(min(2 * counts[-1], p - sum(counts)))
    shaped = [_bumps(n, counts)]
    if n <= MANY_LEVELS:
        shaped.append(_bumps(n, [p]))
    if p >= 2 and n <= MANY_LEVELS:
        shaped.append(np.concatenate([np.ones((1, n)), _bumps(n, [p - 1])]))
    if p >= 4 and n <= MANY_LEVELS:
        shaped.append(_bumps(n, [p // 2]))
    starts = []
    for ordered in shaped:
        theta = np.zeros((p, n))
        theta[: len(ordered), order] = ordered
        starts.append(theta)
    return starts + [random.random((p, n)) for _ in range(restarts if n <= MANY_LEVELS else 0)]


def _bumps(n: int, counts: Sequence[int]) -> Floats:
    """For each count k, k overlapping triangles that cover the levels evenly."""
    level = np.arange(n) + 0.5
    rows = [
        np.maximum(0, 1 - np.abs(level - (j + 0.5) * n / k) / ((1.5 if len(counts) == 1 else 1) * n / k))
        for k in counts
        for j in range(k)
    ]
    return np.array(rows)


def _order(gram: Floats, random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Levels by the ratio of the two leading eigenvectors of V, monotone for ranges and prefix sums.

    Falls back to the given order if V has no two leading directions.
    """
    n = len(gram)
    if n < 4:
        return np.arange(n)
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        _, q = eigsh(gram, k=2, v0=random.random(n))
    except ArpackError:
        return np.arange(n)
    if np.abs(q[:, 1]).min() <= 1e-9 * np.abs(q[:, 1]).max():
        return np.arange(n)
    return np.argsort(q[:, 0] / q[:, 1], kind="stable")
