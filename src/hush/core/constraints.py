"""Constraints: combinations of codes that no row can have, stated without looking at rows; and their contradictions."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.arrays import Booleans, Integers, axes_outside, reordered
from hush.core.domain import Clique, Domain, domain_of
from hush.core.errors import DomainError, SizeError, shown
from hush.core.memory import readable
from hush.core.validation import check_flag

if TYPE_CHECKING:
    from hush.schema import Schema

MOST_AXES = 63  # numpy arrays have up to 64, and operators need one for several tables at once
LARGEST_TABLE = 2**25  # cells of all constraints: a byte each here, eight bytes each as log-potentials
_MOST_WORK = 2**30  # of a search for contradictions, in units of `_work`, on top of two passes; about two seconds


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constraint:
    """Which combinations of a clique are possible: Z_r = {x_r : not allowed(x_r)} are structural zeros.

    `clique` is in domain order and `allowed` is a read-only table of truth values over it. `from_private_data` says
    that the claim was learned from private rows: a release refuses it, and equality ignores it.

    Privacy: a public claim of the schema's owner. It is never compared with rows, since whether it holds for them is
    private: noisy counts of forbidden cells are measured like any other, and a model puts exactly zero there.
    Reference: [AIM, app. D].

    >>> domain = Domain({"age": 3, "married": 2})
    >>> Constraint.forbid(domain, ("married", "age"), [(1, 0)])
    Constraint(age × married: 1 of 6 combinations forbidden)
    """

    clique: Clique
    allowed: Booleans
    from_private_data: bool = False

    def __post_init__(self) -> None:
        table = np.array(self.allowed, order="C")
        names = tuple(self.clique)
        if table.dtype != np.bool_ or table.ndim != len(names) or not names:
            raise DomainError(
                f"constraint over {names!r}: found a table of {table.dtype} with {table.ndim} axes; "
                "expected truth values with an axis for each attribute"
            )
        if not table.any():
            raise DomainError(f"constraint over {names!r} forbids every combination, so no row is possible; allow some")
        check_flag(DomainError, f"constraint over {names!r}: from_private_data", self.from_private_data)
        table.flags.writeable = False
        object.__setattr__(self, "clique", names)
        object.__setattr__(self, "allowed", table)

    @classmethod
    def of_table(cls, domain: Domain, clique: Iterable[str], allowed: Booleans) -> Constraint:
        """From a table of truth values whose axes are in the order of `clique`."""
        domain = domain_of(domain)
        names = check_size(domain, clique)
        table = np.asarray(allowed)
        if table.shape != domain.sizes(names):
            raise DomainError(
                f"constraint over {names!r}: table of shape {table.shape}, expected {domain.sizes(names)}"
            )
        ordered = domain.clique(names)
        return cls(ordered, reordered(table, names, ordered))

    @classmethod
    def forbid(
        cls, domain: Domain | Schema, clique: Iterable[str], combinations: Iterable[Iterable[int]]
    ) -> Constraint:
        """All combinations are possible except these rows of codes, in the order of `clique`."""
        domain = domain_of(domain)
        names = check_size(domain, clique)
        table = np.ones(domain.sizes(names), dtype=np.bool_)
        table[tuple(_codes(domain, names, combinations).T)] = False
        return cls.of_table(domain, names, table)

    @classmethod
    def allow(cls, domain: Domain | Schema, clique: Iterable[str], combinations: Iterable[Iterable[int]]) -> Constraint:
        """Only these combinations are possible: rows of codes in the order of `clique`."""
        domain = domain_of(domain)
        names = check_size(domain, clique)
        codes = _codes(domain, names, combinations)
        if not len(codes):
            raise DomainError(f"constraint over {names!r} allows no combination; list at least one")
        table = np.zeros(domain.sizes(names), dtype=np.bool_)
        table[tuple(codes.T)] = True
        return cls.of_table(domain, names, table)

    @classmethod
    def depends(
        cls,
        domain: Domain | Schema,
        determined: str,
        given: str | Iterable[str],
        mapping: Mapping[int, int] | Mapping[tuple[int, ...], int] | Iterable[tuple[int | tuple[int, ...], int]],
    ) -> Constraint:
        """A functional dependency: x_determined = mapping[x_given].

        Keys are codes, or tuples of codes for several attributes; pairs of a key and a code do as well.
        Where the mapping has no key, any value of `determined` is possible.

        >>> Constraint.depends(Domain({"city": 3, "state": 2}), "state", "city", {0: 1, 1: 0}).allowed.astype(int)
        array([[0, 1],
               [1, 0],
               [1, 1]])
        """
        domain = domain_of(domain)
        sources = (given,) if isinstance(given, str) else tuple(given)
        names = check_size(domain, (*sources, determined))
        if not sources:
            raise DomainError(f"constraint on {determined!r} depends on no attribute; name the ones that determine it")
        try:
            pairs: list[Any] = [
                (key, code) for key, code in (mapping.items() if isinstance(mapping, Mapping) else mapping)
            ]
        except (TypeError, ValueError):
            raise DomainError(
                f"constraint on {determined!r}: mapping {shown(mapping)}: expected codes and the code that each "
                "determines, such as {0: 1}"
            ) from None
        rows = [(*(key if isinstance(key, tuple) else (key,)), code) for key, code in pairs]
        codes = _codes(domain, names, rows)
        table = np.ones(domain.sizes(names), dtype=np.bool_)
        table[tuple(codes[:, :-1].T)] = False
        table[tuple(codes.T)] = True
        return cls.of_table(domain, names, table)

    @property
    def cells(self) -> int:
        """Combinations of the clique, possible or not."""
        return self.allowed.size

    @property
    def forbidden(self) -> int:
        """Combinations that are not possible."""
        return self.cells - int(np.count_nonzero(self.allowed))

    def potentials(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Log-potentials: theta_r(x_r) = 0 where x_r is possible and -inf where it is not."""
        return np.where(self.allowed, 0.0, -np.inf)

    def __and__(self, other: Constraint) -> Constraint:
        """What both allow; both are over the same clique."""
        if self.clique != other.clique or self.allowed.shape != other.allowed.shape:
            raise DomainError(f"constraints over {self.clique!r} and {other.clique!r} are not over the same table")
        learned = self.from_private_data or other.from_private_data
        return Constraint(self.clique, self.allowed & other.allowed, from_private_data=learned)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraint):
            return NotImplemented
        return self.clique == other.clique and np.array_equal(self.allowed, other.allowed)

    def __hash__(self) -> int:
        return hash((self.clique, self.allowed.shape, np.packbits(self.allowed).tobytes()))

    def __repr__(self) -> str:
        return f"Constraint({' × '.join(self.clique)}: {self.forbidden:,} of {self.cells:,} combinations forbidden)"


def fingerprint(constraints: Iterable[Constraint]) -> str | None:
    """The SHA-256 of some constraints in hexadecimal digits; None for none.

    It covers the names, the sizes and which combinations are allowed, so two releases that state the same one were made
    under the same claims about codes.

    >>> rule = Constraint.forbid(Domain({"age": 3, "married": 2}), ("age", "married"), [(0, 1)])
    >>> fingerprint([rule])[:16], fingerprint([])
    ('bfa747d6c2c76847', None)
    """
    digest, some = hashlib.sha256(), False
    for constraint in constraints:
        some = True
        digest.update(json.dumps([constraint.clique, constraint.allowed.shape]).encode() + b"\n")
        digest.update(np.packbits(constraint.allowed).tobytes())
    return digest.hexdigest() if some else None


def merge(domain: Domain, constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The same claims with one constraint for each clique, in the order of the domain.

    Constraints over the same clique are joined by AND; what forbids nothing is left out.
    """
    merged: dict[Clique, Constraint] = {}
    for constraint in check_constraints(domain, constraints):
        clique = constraint.clique
        if constraint.forbidden:
            merged[clique] = merged[clique] & constraint if clique in merged else constraint
    position = {name: index for index, name in enumerate(domain)}
    return tuple(merged[clique] for clique in sorted(merged, key=lambda names: [position[name] for name in names]))


def check_constraints(domain: Domain, constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints, if all are tables of this domain that fit in memory together."""
    listed = tuple(constraints)
    for constraint in listed:
        if not isinstance(constraint, Constraint):
            raise DomainError(f"{shown(constraint)}: expected a Constraint, such as Constraint.forbid(...)")
        ordered, shape = domain.clique(constraint.clique), constraint.allowed.shape
        if ordered != constraint.clique or domain.sizes(ordered) != shape:
            raise DomainError(
                f"constraint over {constraint.clique!r} of shape {shape}: the domain has {ordered!r} of shape "
                f"{domain.sizes(ordered)}; make it for this domain"
            )
    check_cells(domain, [constraint.clique for constraint in listed])
    return listed


def check_size(domain: Domain, clique: Iterable[str]) -> Clique:
    """The clique in the order given; refuses unknown attributes and a table too large to hold."""
    names = domain.check(clique)
    if not names:
        raise DomainError("constraint over no attribute: expected at least one attribute")
    check_cells(domain, [names])
    return names


def check_axes(clique: Clique) -> None:
    """Refuse cliques of more attributes than an array has axes."""
    if len(clique) > MOST_AXES:
        raise SizeError(
            f"the clique {shown(clique)} has {len(clique)} attributes: expected {MOST_AXES} at most; leave out "
            "those of one level, which add nothing, or use smaller cliques"
        )


def check_cells(domain: Domain, cliques: Iterable[Clique]) -> None:
    """Refuse constraints whose tables together are too large, before they are made."""
    distinct = {domain.clique(clique) for clique in cliques}
    check_axes(max(distinct, key=len, default=()))
    cells = sum(domain.size(clique) for clique in distinct)
    if cells > LARGEST_TABLE:
        largest = max(distinct, key=domain.size)
        size = readable(8 * cells) if cells < 2**80 else f"2^{math.log2(cells) + 3:.0f} bytes"
        raise SizeError(
            f"constraints of {shown(cells)} cells need {size} as potentials, most for {largest!r}: "
            f"at most {LARGEST_TABLE:,} cells are possible; constrain fewer attributes together"
        )


def _codes(domain: Domain, names: Clique, combinations: Iterable[Iterable[int]]) -> Integers:
    """Rows of codes as an array; refuses wrong lengths, non-integers and codes out of range."""
    k = len(names)
    try:
        rows = combinations if isinstance(combinations, np.ndarray) else [tuple(row) for row in combinations]
    except TypeError:
        raise DomainError(
            f"constraint over {names!r}: expected combinations of {k} codes each, such as {(0,) * k}"
        ) from None
    if not len(rows):
        return np.empty((0, k), dtype=np.int64)
    wrong = next((row for row in rows if np.ndim(row) != 1 or len(row) != k), None)
    if wrong is not None:
        raise DomainError(
            f"constraint over {names!r}: combination {shown(wrong)}: expected {k} codes, such as {(0,) * k}"
        )
    codes = np.asarray(rows)
    if codes.dtype.kind not in "iu":
        raise DomainError(f"constraint over {names!r}: expected integer codes, found {codes.dtype}")
    outside = (codes < 0) | (codes >= np.array(domain.sizes(names)))
    if outside.any():
        row, axis = np.argwhere(outside)[0]
        raise DomainError(
            f"constraint over {names!r}: code {codes[row, axis]} of {names[axis]!r}: "
            f"expected 0 .. {domain[names[axis]] - 1}"
        )
    return codes.astype(np.int64)


def contradiction(domain: Domain, constraints: Iterable[Constraint]) -> str | None:
    """Why no row satisfies all constraints, or None if pairwise consistency finds no contradiction.

    Combinations are removed until any two tables agree on the attributes they share: with L_r the combinations of r
    that remain, L_r <- {x_r in L_r : x_{r∩s} in pi_{r∩s}(L_s) for every s}. An empty L_r is a contradiction. If none is
    empty, a row is certain to exist only if the cliques form a junction tree: three attributes of two levels that must
    all differ pass. Exact inference decides those cases, with log Z = -inf.

    The work grows with the cells of the tables and with their number, not with its square. A search that takes too long
    returns None.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> rules = [Constraint.allow(domain, ("a", "b"), [(0, 0), (1, 0)]), Constraint.forbid(domain, ("b",), [(0,)])]
    >>> contradiction(domain, rules)
    "the constraints leave no possible value of 'b'; relax one of those over ('a', 'b'), ('b',)"
    """
    # The combinations that each clique still allows, and for each set of attributes that cliques share, those that all
    # of them still allow.
    remaining: dict[Clique, Booleans] = {}
    for constraint in check_constraints(domain, constraints):
        known = remaining.get(constraint.clique)
        remaining[constraint.clique] = constraint.allowed.copy() if known is None else known & constraint.allowed
    holders = _shared(domain, list(remaining))
    agreed = {names: np.ones(domain.sizes(names), dtype=np.bool_) for names in holders}
    shared: dict[Clique, list[Clique]] = {clique: [] for clique in remaining}
    for names, cliques in holders.items():
        for clique in cliques:
            shared[clique].append(names)
    # Take a clique, remove what others no longer allow, and queue the cliques that its own removals affect.
    queue, waiting = deque(remaining), set(remaining)
    work = {clique: _work(domain, clique) * (1 + len(shared[clique])) for clique in remaining}
    most = _MOST_WORK + 2 * sum(work.values())
    while queue and most > 0:
        clique = queue.popleft()
        waiting.discard(clique)
        table = remaining[clique]
        most -= work[clique]
        for names in shared[clique]:
            table &= agreed[names].reshape([domain[name] if name in names else 1 for name in clique])
        if not table.any():
            sharing = {other for names in shared[clique] for other in holders[names]} | {clique}
            near = [other for other in remaining if other in sharing]
            what = f"value of {clique[0]!r}" if len(clique) == 1 else f"combination of {', '.join(map(repr, clique))}"
            listed = ", ".join(map(repr, near[:4])) + (f" and {len(near) - 4} more" if len(near) > 4 else "")
            return f"the constraints leave no possible {what}; relax one of those over {listed}"
        for names in shared[clique]:
            possible = table.any(axis=axes_outside(clique, names))
            if (agreed[names] & ~possible).any():
                agreed[names] &= possible
                changed = [other for other in holders[names] if other != clique and other not in waiting]
                queue.extend(changed)
                waiting.update(changed)
    return None


def _work(domain: Domain, clique: Clique) -> int:
    """The time to process a table, in units of about two nanoseconds: tables of many axes are slow."""
    return 2**13 + domain.size(clique) * len(clique) ** 2 // 64


def _shared(domain: Domain, cliques: list[Clique]) -> dict[Clique, list[Clique]]:
    """The intersections of two or more cliques, each with the cliques that contain it.

    Attributes of one level are left out, since all tables agree on them. The cliques that share a set are divided by
    each further attribute; every part shares a larger set or is a single clique. Single attributes come first. Larger
    sets are left out once comparing tables on them takes more than `_MOST_WORK`.
    """
    holding: dict[str, list[Clique]] = {}
    for clique in cliques:
        for name in clique:
            if domain[name] > 1:
                holding.setdefault(name, []).append(clique)
    sets: dict[Clique, list[Clique]] = {(name,): holders for name, holders in holding.items() if len(holders) > 1}
    queue, most = deque(sets.values()), _MOST_WORK
    while queue and most > 0:
        together = queue.popleft()
        counts = Counter(name for clique in together for name in clique if domain[name] > 1)
        common = tuple(name for name in together[0] if counts[name] == len(together))
        if len(common) > 1:
            most -= sum(_work(domain, clique) for clique in together)
            if common in sets:
                continue
            sets[common] = together
        parts: dict[str, list[Clique]] = {name: [] for name, times in counts.items() if 1 < times < len(together)}
        for clique in together:
            for name in clique:
                if name in parts:
                    parts[name].append(clique)
        queue.extend(parts.values())
    return sets


def checked(domain: Domain, constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints, one for each clique; DomainError where a contradiction is found."""
    merged = merge(domain, constraints)
    reason = contradiction(domain, merged)
    if reason is not None:
        raise DomainError(reason)
    return merged
