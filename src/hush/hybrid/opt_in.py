"""People who opted in: what the curator sees, kept as types of their own, and read by the gate alone.

The number of people who opted in is public, and neighbours are two groups of which one person's data was exchanged:
the relation under which a client's report is private too. So both groups get the same promise.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError
from hush.core.unit import ROW, Unit
from hush.hybrid.client.question import WILDCARD
from hush.privacy.account import Account
from hush.privacy.gate import LARGEST_ANSWER, Counts, Gate, Request
from hush.privacy.noise import DiscreteLaplace
from hush.privacy.sensitivity import Neighbours, RowNorms, sensitivity
from hush.privacy.sum_query import SumQuery

RECORD = "record"
STEP = "step"
Key = Hashable


class OptInRecords:
    """People who opted in, each with a few records, such as pairs of query and URL.

    At most `max_records` different records of a person count. Which ones is decided by a hash of that person's own
    list, so that no other person has a part in it. `listed` are records that are public; others count for the wildcard
    URL of their query if that is listed, else for the wildcard.
    """

    def __init__(self, people: Iterable[Sequence[Key]], *, max_records: int = 1, listed: Sequence[Key] = ()) -> None:
        if isinstance(max_records, bool) or not isinstance(max_records, int) or max_records < 1:
            raise DataError(f"max_records={max_records!r}: expected an integer >= 1")
        self.max_records = max_records
        self._people = [_some(records, max_records) for records in people]
        if not self._people:
            raise DataError("nobody opted in: without opt-in people there is no head list; ask clients a list you know")
        self._listed = {record: index for index, record in enumerate(listed)}
        self.unit = ROW if max_records == 1 else Unit(column="person", max_rows=max_records)
        self.domain = Domain({RECORD: len(self._listed) + 1})

    def __len__(self) -> int:
        return len(self._people)

    @property
    def max_keys(self) -> int:
        """How many keys a person counts for at most."""
        return self.max_records

    def with_list(self, listed: Sequence[Key]) -> OptInRecords:
        """The same people, with another public list."""
        same = object.__new__(OptInRecords)
        same.__dict__.update(self.__dict__)
        same._listed = {record: index for index, record in enumerate(listed)}
        same.domain = Domain({RECORD: len(listed) + 1})
        return same

    def split(self, share: float) -> tuple[OptInRecords, OptInRecords]:
        """Two groups of people, the first with this share of them, chosen by their places in the list alone."""
        if not 0 < share < 1:
            raise DataError(f"share={share!r}: expected a number between 0 and 1")
        places = np.floor(np.arange(1, len(self) + 1) * share) > np.floor(np.arange(len(self)) * share)
        groups = []
        for wanted in (True, False):
            group = object.__new__(OptInRecords)
            group.__dict__.update(self.__dict__)
            group._people = [self._people[i] for i in np.flatnonzero(places == wanted)]
            if len(group._people) < 2:
                raise DataError(f"{len(self)} opt-in people are too few to split at {share:g}; more must opt in")
            groups.append(group)
        return groups[0], groups[1]

    def key_counts(self) -> Mapping[Any, int]:
        """How many people hold each record; private, for the gate alone."""
        return dict(Counter(record for records in self._people for record in records))

    def require(self, cliques: Sequence[Clique]) -> None:
        for clique in cliques:
            self.domain.check(clique)

    def check(self, most_rows: int = LARGEST_ANSWER) -> None:
        """Refuse records that are not pairs of texts: such records cannot be sorted or put on a list."""
        if not all(_is_pair(record) for records in self._people for record in records):
            raise DataError("every record must be a tuple of two texts, such as a query and a URL; convert them first")

    def counts(self, cliques: Sequence[Clique]) -> Counts:
        """Exact counts of the listed records, the wildcard last; private, for the gate alone."""
        places = [self._place(record) for records in self._people for record in records]
        cells = np.bincount(np.array(places, dtype=np.int64), minlength=len(self._listed) + 1).astype(np.int64)
        return {tuple(clique): cells for clique in cliques}

    def _place(self, record: Key) -> int:
        """Where a record counts: at itself, at the wildcard URL of its query, or at the wildcard."""
        if record in self._listed:
            return self._listed[record]
        query = (record[0], WILDCARD) if _is_pair(record) else None
        return self._listed.get(query, len(self._listed))

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        raise DataError("records have no sums")

    def sums(self, queries: Sequence[SumQuery]) -> Mapping[SumQuery, Any]:
        raise DataError("records have no sums")

    def __repr__(self) -> str:
        return f"OptInRecords({len(self)} people)"


class OptInNumbers:
    """People who opted in, each with a number between two bounds, taken to the nearest of `steps` + 1 grid points.

    Numbers outside the bounds count as the nearer bound. Whether there were any is private, so nothing here says it.
    """

    unit = ROW

    def __init__(self, numbers: Any, lower: float, upper: float, *, steps: int = 1 << 16) -> None:
        held = np.asarray(numbers, dtype=np.float64)
        if held.ndim != 1 or not len(held):
            raise DataError("nobody opted in: give at least one number, or estimate from clients alone")
        if not np.isfinite(held).all():
            raise DataError("numbers of opt-in people must be finite; replace missing ones first")
        check_bounds(lower, upper)
        self.lower, self.upper, self.steps = float(lower), float(upper), steps
        inside = np.clip(held, self.lower, self.upper)
        places = np.rint((inside - self.lower) / (self.upper - self.lower) * steps).astype(np.int64)
        self._cells = np.bincount(places, minlength=steps + 1).astype(np.int64)
        self._people = len(held)
        self.domain = Domain({STEP: steps + 1})

    def __len__(self) -> int:
        return self._people

    def require(self, cliques: Sequence[Clique]) -> None:
        for clique in cliques:
            self.domain.check(clique)

    def check(self, most_rows: int = LARGEST_ANSWER) -> None:
        """Every number is on the grid, so nothing can be refused."""

    def counts(self, cliques: Sequence[Clique]) -> Counts:
        """Exact counts of the steps; private, for the gate alone."""
        return {tuple(clique): self._cells for clique in cliques}

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        raise DataError("ask for a StepSum")

    def sums(self, queries: Sequence[SumQuery]) -> Mapping[SumQuery, Any]:
        raise DataError("ask for a StepSum")

    def __repr__(self) -> str:
        return f"OptInNumbers({len(self)} people)"


@dataclass(frozen=True, slots=True)
class StepSum:
    """The sum of the grid steps of all people: one person's step is between 0 and `steps`."""

    steps: int

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((STEP,),)

    @property
    def row_norms(self) -> RowNorms:
        return RowNorms.of_number(self.steps, self.steps)

    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([np.dot(np.arange(self.steps + 1), counts[(STEP,)])], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NoisyMean:
    """A curator's mean of those who opted in, and the variance of its noise."""

    mean: float
    noise: float
    people: int


def noisy_mean(people: OptInNumbers, epsilon: Fraction, account: Account, *, note: str = "opt-in mean") -> NoisyMean:
    """The mean of those who opted in, with discrete Laplace noise.

    Privacy: epsilon-DP when one person's number is exchanged; the number of people is public.
    """
    require_opt_in(people, OptInNumbers)
    query = StepSum(people.steps)
    bound = sensitivity(query.row_norms, max_rows=1, neighbours=Neighbours.REPLACE)
    noise = DiscreteLaplace.for_epsilon(epsilon, bound)
    gate = Gate(people, account, neighbours=Neighbours.REPLACE)
    (measured,) = gate.measure([Request(query, noise)], note=note)
    unit = (people.upper - people.lower) / people.steps
    mean = people.lower + unit * float(measured.values[0]) / len(people)
    return NoisyMean(mean, (unit * noise.stddev / len(people)) ** 2, len(people))


def noisy_counts(
    people: OptInRecords, epsilon: Fraction, account: Account, *, note: str = "opt-in counts"
) -> tuple[Floats, float]:
    """Counts of the listed records, the wildcard last, with discrete Laplace noise; and the variance of the noise.

    Privacy: epsilon-DP when one person's records are exchanged; the number of people is public.
    """
    from hush.privacy.gate import MarginalQuery

    require_opt_in(people, OptInRecords)
    query = MarginalQuery((RECORD,))
    bound = sensitivity(query.row_norms, max_rows=people.max_records, neighbours=Neighbours.REPLACE)
    noise = DiscreteLaplace.for_epsilon(epsilon, bound)
    gate = Gate(people, account, neighbours=Neighbours.REPLACE)
    (measured,) = gate.measure([Request(query, noise)], note=note)
    return np.asarray(measured.values, dtype=np.float64).ravel(), noise.stddev**2


def require_opt_in(people: object, kind: type) -> None:
    """Refuse anything but opt-in people: a curator, and a curator's baseline, may use no client's data."""
    if type(people) is not kind:
        raise DataError(
            f"a curator may use people who opted in alone, as {kind.__name__}, and no {type(people).__name__}"
        )


def check_bounds(lower: float, upper: float) -> None:
    """Refuse bounds of numbers that are not finite, or not in order, or too far apart for a float."""
    if not (np.isfinite([lower, upper]).all() and lower < upper and np.isfinite(float(upper) - float(lower))):
        raise DataError(f"lower={lower!r}, upper={upper!r}: expected finite bounds, the first below the second")


def _is_pair(record: object) -> TypeGuard[tuple[str, str]]:
    return isinstance(record, tuple) and len(record) == 2 and all(isinstance(part, str) for part in record)


def _some(records: Sequence[Key], most: int) -> tuple[Key, ...]:
    """At most so many different records of one person."""
    if isinstance(records, str | bytes):
        raise DataError("each person holds a list of records; put a single record in a list of its own")
    if len(records) == 1:
        return (records[0],)
    text = repr(records)
    order = sorted(
        range(len(records)), key=lambda index: hashlib.sha256(f"{index} {text}".encode("utf-8", "replace")).digest()
    )
    return tuple(dict.fromkeys(records[index] for index in order))[:most]
