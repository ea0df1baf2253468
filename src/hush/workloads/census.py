"""Tables of the decennial census, as ready-made examples of unions of products.

Persons by sex (2), hispanic (2: yes, no), race (64: any set of six races), age (115 years) and state (51).

Reference: [HDMM, Tables 3.4 and 3.5]: the person tables of Summary File 1, 33 products in all; relationship to
the householder, which each of these tables totals out, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from hush.core.domain import Domain
from hush.linops import Dense, Identity, LevelsAndTotal, LinearOperator, Total
from hush.workloads.term import ProductTerm
from hush.workloads.workload import Workload

COLUMN_SIZES = {"sex": 2, "hispanic": 2, "race": 64, "age": 115}
NUMBER_OF_STATES = 51
NUMBER_OF_RACES = 6
AGE_GROUPS = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 115)
SINGLE_AGES = (*range(101), 105, 110, 115)

# Each product is written by its blocks on sex, hispanic, race and age: T total, I every level, J every level and the
# total, His and NH one level of hispanic, R1 the six races alone and all others, R2 every set of races, every number of
# races, and two or more, Wh white alone, Ad adults, A1 age groups, A3 single ages up to 99 and three groups above.
TABLES: Mapping[str, tuple[str, ...]] = {
    "P1": ("T T T T",),
    "P3": ("T T R1 T", "T T T T"),
    "P4": ("T I T T", "T T T T"),
    "P5": ("T I R1 T", "T J T T"),
    "P8": ("T T R2 T", "T T T T"),
    "P9": ("T I T T", "T NH R2 T", "T T T T"),
    "P10": ("T T R2 Ad", "T T T Ad"),
    "P11": ("T I T Ad", "T NH R2 Ad", "T T T Ad"),
    "P12": ("I T T A1", "J T T T"),
    "P12A-I": ("I T R1 A1", "J T R1 T", "I His T A1", "J His T T", "I NH Wh A1", "J NH Wh T"),
    "PCT12": ("I T T A3", "J T T T"),
    "PCT12A-O": ("I T R1 A3", "J T R1 T", "I His T A3", "J His T T", "I NH R1 A3", "J NH R1 T"),
}


def sf1() -> Workload:
    """The person tables of Summary File 1 for the nation; tables that repeat a count ask for it again.

    >>> sf1()
    Workload(33 products, 4151 queries over 4 attributes)
    """
    return _workload(COLUMN_SIZES)


def sf1_plus() -> Workload:
    """The same tables for the nation and for every state.

    >>> sf1_plus()
    Workload(33 products, 215852 queries over 5 attributes)
    """
    return _workload(COLUMN_SIZES | {"state": NUMBER_OF_STATES})


def _workload(sizes: Mapping[str, int]) -> Workload:
    terms = []
    for written in (product for products in TABLES.values() for product in products):
        words = (*written.split(), *("J" for _ in range(len(sizes) - len(COLUMN_SIZES))))
        blocks = {name: _block(word, size) for (name, size), word in zip(sizes.items(), words, strict=True)}
        kept = {name: block for name, block in blocks.items() if not isinstance(block, Total)}
        terms.append(ProductTerm(tuple(kept), tuple(kept.values())))
    return Workload(Domain(sizes), terms)


@cache
def _block(word: str, size: int) -> LinearOperator:
    races = np.bitwise_count(np.arange(1 << NUMBER_OF_RACES))
    match word:
        case "T":
            return Total(size)
        case "I":
            return Identity(size)
        case "J":
            return LevelsAndTotal(size)
        case "His" | "NH":
            return Dense(np.eye(2)[["His", "NH"].index(word)][None])
        case "Wh":
            return Dense(np.eye(size)[[1]])
        case "R1":
            alone = np.eye(size)[1 << np.arange(NUMBER_OF_RACES)]
            return Dense(np.vstack([alone, 1 - alone.sum(axis=0)]))
        case "R2":
            numbers = [races == number for number in range(1, NUMBER_OF_RACES + 1)]
            return Dense(np.vstack([np.eye(size)[1:], *numbers, races >= 2]))
        case "Ad":
            return Dense((np.arange(size) >= 18)[None])
        case "A1" | "A3":
            edges = np.array(AGE_GROUPS if word == "A1" else SINGLE_AGES)
            ages = np.arange(size)
            return Dense((ages >= edges[:-1, None]) & (ages < edges[1:, None]))
    raise ValueError(word)
