"""The likelihood of drawn queries, as a loss of the tables that they are cells of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.domain import Domain
from hush.graphical.custom_loss import CustomLoss
from hush.graphical.factors import Factors
from hush.graphical.loss import SquaredLoss
from hush.graphical.marginal_loss import MarginalLoss, SumLoss
from hush.graphical.measurement import Measurement
from hush.mechanisms.query_game import QueryGame
from hush.release.draws import Draw

Floats = np.ndarray[Any, np.dtype[np.float64]]


class DrawLikelihood:
    """L(mu) = sum over draws of log sum_q 2 cosh(r_t (mu_q - h_tq)) - r_t sign (mu_q - h_tq), with q the drawn cell.

    In turn t a cell and a sign were drawn with probability proportional to exp(sign r_t (c_q - h_tq)), with
    r_t = epsilon_t / (2 m) and h_t what the rows before turn t would have. Each term is log sum exp of linear functions
    less a linear one, so L is convex; the Hessian of a term is at most r_t^2.

    Reference: [HDMM, sec. 4.5], which leaves the formula to the reader.
    """

    def __init__(self, game: QueryGame, total: int, draws: Sequence[Draw], max_rows: int) -> None:
        self._game = game
        self._total = total
        groups: dict[tuple[int, float], list[tuple[int, float]]] = defaultdict(list)
        for draw in draws:
            rate = float(f"{draw.epsilon:.9e}") / (2 * max_rows)
            place = game.number(draw.clique, draw.cell, 1.0)
            groups[draw.turn, rate].append((place, draw.weight))
        self._groups = sorted(groups.items())

    @property
    def bend(self) -> float:
        """The largest eigenvalue of the Hessian, at most."""
        return sum(len(drawn) * rate**2 for (_, rate), drawn in self._groups)

    def __call__(self, tables: list[Floats]) -> tuple[float, list[Floats]]:
        """The loss and its gradients, one for each of the game's tables."""
        mu = np.concatenate([table.ravel() for table in tables])
        slope, value = np.zeros(len(mu)), 0.0
        for (turn, rate), drawn in self._groups:
            x = rate * (mu - self._game.expected(self._total, turn - 1))
            top = float(np.abs(x).max())
            more, fewer = np.exp(x - top), np.exp(-x - top)
            z = float(more.sum() + fewer.sum())
            value += len(drawn) * (top + float(np.log(z)))
            slope += (len(drawn) * rate / z) * (more - fewer)
            for place, sign in drawn:
                value -= sign * float(x[place])
                slope[place] -= sign * rate
        return value, [own.copy() for own in self._game.factors.tables(slope)]


def likelihood(
    domain: Domain, measurements: Sequence[Measurement], game: QueryGame, total: int, draws: Sequence[Draw], rows: int
) -> MarginalLoss:
    """The loss of noisy tables and of drawn queries together; `rows` is how many a unit has at most."""
    factors = Factors(domain, [*(one.clique for one in measurements), *game.factors.cliques])
    squares = SquaredLoss(domain, measurements, factors=factors)
    own = DrawLikelihood(game, total, draws, rows)
    if not draws:
        return squares
    drawn = CustomLoss(
        domain, game.factors.cliques, own, lipschitz=own.bend, numbers=len(draws), factors=factors
    )  # fmt: skip
    return SumLoss([squares, drawn])
