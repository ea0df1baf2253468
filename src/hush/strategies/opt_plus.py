"""OPT_+: a product of strategies for each group of terms, and the best split of the budget between them.

Group g has error E_g at unit noise, so the best shares are c_g ~ E_g^{1/2} under Gaussian and ~ E_g^{1/3} under Laplace
noise (`NoiseKind.shares`), and the error is that of local least squares: each term is answered from its own group.

Reference: [HDMM, sec. 3.3.3, Def. 21].
Differs from [HDMM]: the printed Gaussian results use the Laplace split; groups are found, where there they are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hush.errors import WorkloadError
from hush.strategies import p_identity
from hush.strategies.draft import Draft, Recovery
from hush.strategies.grouping import Grouping, Groups
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.opt_kron import fit_product, part_of
from hush.strategies.shelf import Shelf, shelves_of
from hush.strategies.term_grams import TermGrams


def opt_plus(
    grams: TermGrams,
    noise: NoiseKind,
    *,
    groups: Iterable[Iterable[int]] | None = None,
    shelves: Sequence[Shelf] | None = None,
    cells: float = math.inf,
    restarts: int = 2,
    sweeps: int = 5,
    seed: int = p_identity.SEED,
) -> Draft:
    """The best union of products found; `groups` lists the places of terms, by default grouped automatically.

    `cells` bounds the cells of a product over several terms.

    >>> from hush.domain import Domain
    >>> from hush.workloads import Workload
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 5, "c": 50, "d": 100}), 2))
    >>> single = opt_plus(grams, NoiseKind.LAPLACE, groups=[[j] for j in range(6)])
    >>> round(single.error), opt_plus(grams, NoiseKind.LAPLACE).error < single.error
    (85070, True)
    """
    given = None if groups is None else check_groups(groups, len(grams))
    shelves = shelves_of(grams, noise, restarts=restarts, seed=seed) if shelves is None else shelves
    found: Groups
    if given is not None:
        found = given
    else:
        found = Grouping(grams, shelves, noise, cells).merged() if shelves else (tuple(range(len(grams))),)
    products = [fit_product(grams, shelves, own, sweeps=sweeps) for own in found]
    errors = np.array([product.error for product in products])
    parts = tuple(
        part_of(grams, shelves, product, share)
        for product, share in zip(products, noise.shares(errors).tolist(), strict=True)
    )
    return Draft(grams.domain, parts, noise, Recovery.LOCAL, noise.total(errors), "plus")


def check_groups(groups: Iterable[Iterable[int]], terms: int) -> Groups:
    """Groups as sorted places of terms; refuses a term that is in no group or in two."""
    made = tuple(tuple(sorted(int(j) for j in own)) for own in groups)
    if any(not own for own in made) or sorted(j for own in made for j in own) != list(range(terms)):
        raise WorkloadError(f"groups: expected every one of the terms 0 .. {terms - 1} in exactly one group")
    return made
