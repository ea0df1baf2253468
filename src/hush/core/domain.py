"""Domain: ordered attributes and their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from hush.core.errors import DomainError, HushError, close_match, shown
from hush.core.validation import check_whole

Clique: TypeAlias = tuple[str, ...]


class Domain:
    """Ordered attributes with their sizes; codes of an attribute of size n are 0 .. n-1.

    `from_private_data` are the attributes whose levels came from private rows; see `hush.Schema`. Plans store it;
    equality ignores it.

    >>> domain = Domain({"age": 85, "sex": 2, "race": 5})
    >>> domain.size(), domain.size(("sex", "race"))
    (850, 10)
    >>> domain.clique(["race", "age"])
    ('age', 'race')
    """

    __slots__ = ("_positions", "_sizes", "from_private_data")

    def __init__(self, sizes: Mapping[str, int], *, from_private_data: Iterable[str] = ()) -> None:
        if not isinstance(sizes, Mapping):
            raise DomainError(f'sizes = {shown(sizes)}: expected names and sizes, such as {{"age": 85, "sex": 2}}')
        checked: dict[str, int] = {}
        for name, size in sizes.items():
            if not isinstance(name, str) or not name:
                raise DomainError(f"attribute {shown(name)}: expected a non-empty name")
            checked[name] = check_whole(DomainError, f"attribute {shown(name)}: size", size, least=1)
        self._sizes = checked
        self._positions = {name: position for position, name in enumerate(checked)}
        self.from_private_data = frozenset(self.check(from_private_data))

    @property
    def attributes(self) -> Clique:
        """Names, in order."""
        return tuple(self._sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, in order."""
        return tuple(self._sizes.values())

    def size(self, clique: Iterable[str] | None = None) -> int:
        """The number of cells of the table over `clique`, by default over all attributes; exact at any size."""
        return math.prod(self.shape if clique is None else self.sizes(clique))

    def sizes(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Sizes of the attributes of `clique`, in the order given."""
        return tuple(self[name] for name in self.check(clique))

    def check(self, clique: Iterable[str]) -> Clique:
        """The clique as a tuple in the order given; refuses unknown and repeated names."""
        if isinstance(clique, str):
            raise DomainError(f"clique {clique!r}: expected a tuple of names, such as ({clique!r},)")
        names = tuple(clique)
        for name in names:
            if not isinstance(name, str) or name not in self._sizes:
                raise DomainError(self._unknown(name))
        if len(set(names)) != len(names):
            raise DomainError(f"clique {names!r} names an attribute twice; give each name once")
        return names

    def named(self, attributes: tuple[object, ...]) -> Clique:
        """The attributes of a call, given one by one or as one clique.

        >>> domain = Domain({"age": 85, "sex": 2})
        >>> domain.named(("sex", "age")), domain.named((("sex", "age"),))
        (('sex', 'age'), ('sex', 'age'))
        """
        if len(attributes) != 1 or isinstance(attributes[0], str):
            return self.check(attributes)  # type: ignore[arg-type]
        if not isinstance(attributes[0], Iterable):
            raise DomainError(f"clique {shown(attributes[0])}: expected names of columns")
        return self.check(attributes[0])

    def clique(self, names: Iterable[str]) -> Clique:
        """The clique in domain order: the canonical form of a set of attributes."""
        return tuple(sorted(self.check(names), key=self._positions.__getitem__))

    def varying(self, clique: Iterable[str] | None = None) -> Clique:
        """The attributes of a clique that have more than one level, in the order given; of the domain by default.

        >>> Domain({"country": 1, "age": 85, "sex": 2}).varying(("sex", "country"))
        ('sex',)
        """
        return tuple(name for name in (self if clique is None else self.check(clique)) if self._sizes[name] > 1)

    def project(self, clique: Iterable[str]) -> Domain:
        """The domain over `clique`, in the order given."""
        names = self.check(clique)
        return Domain(
            {name: self._sizes[name] for name in names}, from_private_data=self.from_private_data.intersection(names)
        )

    def marked(self, names: Iterable[str]) -> Domain:
        """The same domain, with these attributes added to `from_private_data`."""
        return Domain(self._sizes, from_private_data=self.from_private_data.union(names))

    def _unknown(self, name: object) -> str:
        near = close_match(str(name), self._sizes, cutoff=0.65)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(list(self._sizes)[:12])}"
        if not near and len(self._sizes) > 12:
            hint += f" and {len(self._sizes) - 12} more"
        return f"attribute {name!r} is not in the domain; {hint}"

    def __getitem__(self, name: str) -> int:
        try:
            return self._sizes[name]
        except KeyError:
            raise DomainError(self._unknown(name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and list(self._sizes.items()) == list(other._sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._sizes.items()))

    def __repr__(self) -> str:
        return f"Domain({self._sizes!r})"


def domain_of(given: object, error: type[HushError] = DomainError) -> Domain:
    """The domain itself, or that of a schema or table.

    Privacy: anything else may hold rows, so the message names only its type.
    """
    domain = given if isinstance(given, Domain) else getattr(given, "domain", None)
    if not isinstance(domain, Domain):
        raise error(f"domain of type {type(given).__name__}: expected a Domain or a Schema, or a table")
    return domain


def listed_cliques(cliques: object) -> list[Iterable[str]]:
    """The cliques as a list; refuses a single name, a mapping and anything else that is not a list of cliques."""
    if isinstance(cliques, str | Mapping) or not isinstance(cliques, Iterable):
        raise DomainError(f'cliques = {shown(cliques)}: expected a list of cliques, such as [("age", "sex")]')
    listed = list(cliques)
    alone = next((clique for clique in listed if isinstance(clique, str) or not isinstance(clique, Iterable)), None)
    if alone is not None:
        raise DomainError(
            f"cliques = {shown(listed)}: {shown(alone)} is not a clique; expected a list of cliques, such as "
            '[("age", "sex")], or [("age",)] for one column'
        )
    return listed


def clique_batches(domain: Domain, cliques: Iterable[Clique], most_cells: int) -> Iterator[list[Clique]]:
    """Batches of cliques whose tables have at most `most_cells` cells together; a larger table is its own batch.

    >>> list(clique_batches(Domain({"a": 2, "b": 3}), [("a",), ("b",), ("a", "b")], 5))
    [[('a',), ('b',)], [('a', 'b')]]
    """
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = domain.size(clique)
        if batch and cells + size > most_cells:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    if batch:
        yield batch


def maximal_cliques(cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques that are subsets of no other, once each, in the order given.

    >>> maximal_cliques([("a",), ("a", "b"), ("b", "c"), ("a", "b")])
    [('a', 'b'), ('b', 'c')]
    """
    listed = list(dict.fromkeys(cliques))
    holders: dict[str, set[int]] = {}
    for index, clique in enumerate(listed):
        for name in clique:
            holders.setdefault(name, set()).add(index)
    kept = [clique for clique in listed if clique and len(set.intersection(*(holders[n] for n in clique))) == 1]
    return kept or listed[:1]
