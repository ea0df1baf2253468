"""The requests of a residual strategy: one exact integer query per set, each with its share of the budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hush.domain import Clique
from hush.errors import SizeError
from hush.privacy.gate import LARGEST_ANSWER, Request
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.sensitivity import sensitivity
from hush.strategies.product_query import LARGEST_ROWS, ProductQuery, too_large
from hush.strategies.residual import ResidualStrategy
from hush.strategies.shares import split_exactly


def residual_query(strategy: ResidualStrategy, clique: Clique) -> ProductQuery:
    """The integers (kron_{i in A} M_i) v_A of one set; for the empty set the total count.

    Reference: [ResidualPlanner, Alg. 1], in integers and with noise on M v in place of correlated noise.
    """
    return ProductQuery(tuple((name,) for name in clique), strategy.clique_bases(clique))


def requests(strategy: ResidualStrategy) -> list[Request]:
    """One request per set of the closure, in its order, whose exact costs add up to at most `strategy.rho`.

    Set A gets the share rho_A = p_A / (2 sigma^2_A), rounded down to a short binary fraction, and discrete Gaussian
    noise of variance Delta^2_A / (2 rho_A) on its integers, where Delta^2_A is the query's squared sensitivity; the
    variance in units of counts is sigma^2_A up to about 2^-47. All shares have a power of two below, so that sums over
    a hundred thousand sets stay short.

    Privacy: for units of one row under `strategy.neighbours`; for units of m rows plan with rho / m^2.
    """
    check_measurable(strategy)
    made = []
    laws: dict[tuple[Fraction, Fraction], DiscreteGaussian] = {}
    for clique, share in zip(strategy.closure, exact_shares(strategy), strict=True):
        query = residual_query(strategy, clique)
        norm = sensitivity(query.row_norms, max_rows=1, neighbours=strategy.neighbours).l2_squared
        law = laws.get((norm, share)) or DiscreteGaussian(norm / (2 * share))
        laws[norm, share] = law
        made.append(Request(query, law))
    return made


def check_measurable(strategy: ResidualStrategy) -> None:
    """Refuse, before anything is charged, a strategy with a set whose exact answers could overflow 64-bit integers."""
    entries = np.array([1.0 if basis is None else float(basis.largest_entry) for basis in strategy.bases])
    factors = strategy.closure.products(entries)
    worst = int(np.argmax(factors))
    if factors[worst] * LARGEST_ROWS > LARGEST_ANSWER:
        raise SizeError(too_large(strategy.closure.cliques[worst], factors[worst]))


def exact_shares(strategy: ResidualStrategy) -> list[Fraction]:
    """The zCDP cost of each set, as binary fractions that add up to at most `strategy.rho`."""
    return split_exactly(strategy.privacy / (2 * strategy.sigma_squared), strategy.rho)
