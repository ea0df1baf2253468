"""The workloads over several attributes in HDMM's tables.

Reference: [HDMM, Tables 3.4 and 3.5]; the domains are those that reproduce the printed Identity and direct columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hush.core.domain import Domain
from hush.linops import Identity, LevelsAndTotal, Prefix
from hush.workloads import ProductTerm, Workload
from hush.workloads.census import sf1, sf1_plus

CPS = (50, 100, 7, 4, 2)
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
ADULT_NUMERIC = 5
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
LOANS_NUMERIC = 4
LOANS_CELLS = 5000


def domain_of(sizes: Iterable[int]) -> Domain:
    return Domain({f"a{place}": size for place, size in enumerate(sizes)})


def cps_all() -> Workload:
    """All 32 marginals."""
    return Workload.upto(domain_of(CPS), len(CPS))


def cps_prefix() -> Workload:
    """Prefix sums of both numeric attributes, levels and the total of every other: one product."""
    domain = domain_of(CPS)
    blocks = [Prefix if place < 2 else LevelsAndTotal for place in range(len(CPS))]
    return Workload.product(domain, dict(zip(domain, blocks, strict=True)))


def with_prefixes(plain: Workload, numeric: int) -> Workload:
    """The same marginals, with prefix sums of the first attributes."""
    ordered = set(plain.domain.attributes[:numeric])
    return Workload(
        plain.domain,
        [
            ProductTerm(
                term.clique,
                tuple((Prefix if name in ordered else Identity)(plain.domain[name]) for name in term.clique),
            )
            for term in plain
        ],
    )


def adult_three() -> Workload:
    return Workload.upto(domain_of(ADULT), 3)


def adult_prefix() -> Workload:
    return with_prefixes(Workload.kway(domain_of(ADULT), 2), ADULT_NUMERIC)


def loans_small() -> Workload:
    return Workload.small(domain_of(LOANS), LOANS_CELLS)


def loans_prefix() -> Workload:
    return with_prefixes(loans_small(), LOANS_NUMERIC)


WORKLOADS: dict[str, tuple[Callable[[], Workload], int]] = {  # and how many queries are printed
    "SF1": (sf1, 4_151),
    "SF1+": (sf1_plus, 215_852),
    "CPS all marginals": (cps_all, 618_120),
    "CPS prefix": (cps_prefix, 600_000),
    "Adult <=3D": (adult_three, 21_043_262),
    "Adult 2D prefix": (adult_prefix, 148_137),
    "Loans small": (loans_small, 279_751),
    "Loans small prefix": (loans_prefix, 279_751),
}


def two_prefixes() -> Workload:
    """Example 2: prefix sums of either of two attributes of 100 levels."""
    domain = domain_of((100, 100))
    return Workload(domain, [ProductTerm((name,), (Prefix(100),)) for name in domain])


def two_way() -> Workload:
    """Example 4: all two-way marginals of (2, 5, 50, 100)."""
    return Workload.kway(domain_of((2, 5, 50, 100)), 2)
