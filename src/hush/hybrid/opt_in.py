"""People who opted in: the data that the curator holds, in types of their own that only the gate reads.

The number of people who opted in is public. Neighbours differ in the data of one person, as they do for a client's
report. So both groups get the same promise.
"""

from __future__ import annotations

import copy
import csv
import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError
from hush.core.rational import float_down
from hush.core.unit import ROW, Unit
from hush.core.validation import check_number, check_whole
from hush.hybrid.client.question import WILDCARD
from hush.privacy.account import Account
from hush.privacy.conversions import gaussian_mu
from hush.privacy.gate import LARGEST_ANSWER, Counts, Gate, MarginalQuery, Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.sensitivity import Neighbours, RowNorms, sensitivity
from hush.privacy.sum_query import SumQuery

RECORD = "record"  # the attribute of listed records
STEP = "step"  # the attribute of grid steps
Key = Hashable


class OptInPeople(Sized):
    """A group of people who opted in, as the gate reads them."""

    unit: Unit = ROW
    domain: Domain

    def require(self, cliques: Sequence[Clique]) -> None:
        for clique in cliques:
            self.domain.check(clique)

    def check(self, most_rows: int = LARGEST_ANSWER) -> None:
        """Numbers and points are on a grid, so there is nothing to refuse."""

    def require_sums(self, queries: Sequence[SumQuery]) -> None:
        raise DataError(f"{type(self).__name__} give counts alone; ask for counts, StepSum or ClusterSums")

    def sums(self, queries: Sequence[SumQuery]) -> Mapping[SumQuery, Any]:
        raise DataError(f"{type(self).__name__} give counts alone; ask for counts, StepSum or ClusterSums")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} people)"


class OptInRecords(OptInPeople):
    """People who opted in, each with a few records, such as pairs of query and URL.

    At most `max_records` different records of a person count. A hash of that person's own list chooses them, so that
    no other person affects the choice. `listed` are public records; any other record counts for the wildcard URL of its
    query if that is listed, else for the wildcard record.
    """

    def __init__(self, people: Iterable[Sequence[Key]], *, max_records: int = 1, listed: Sequence[Key] = ()) -> None:
        self.max_records = max_records = check_whole(DataError, "max_records", max_records, least=1)
        self._people = [_chosen_records(records, max_records) for records in people]
        if not self._people:
            raise DataError("nobody opted in, so no head list can be found; ask clients about a list that you know")
        self._listed = {record: index for index, record in enumerate(listed)}
        self.unit = ROW if max_records == 1 else Unit(column="person", max_rows=max_records)
        self.domain = Domain({RECORD: len(self._listed) + 1})

    def __len__(self) -> int:
        return len(self._people)

    @property
    def max_keys(self) -> int:
        """The largest number of keys that a person counts for; `gate.discover` asks for it."""
        return self.max_records

    def with_list(self, listed: Sequence[Key]) -> OptInRecords:
        """The same people, with another public list."""
        same = copy.copy(self)
        same._listed = {record: index for index, record in enumerate(listed)}
        same.domain = Domain({RECORD: len(listed) + 1})
        return same

    def split(self, share: float) -> tuple[OptInRecords, OptInRecords]:
        """Two groups of people, the first with this share of them, chosen by their places in the list alone."""
        check_number(DataError, "share", share, above=0, below=1)
        in_first = np.floor(np.arange(1, len(self) + 1) * share) > np.floor(np.arange(len(self)) * share)
        groups = []
        for chosen in (in_first, ~in_first):
            group = copy.copy(self)
            group._people = [self._people[i] for i in np.flatnonzero(chosen)]
            if len(group._people) < 2:
                raise DataError(f"{len(self)} opt-in people are too few to split at {share:g}; more must opt in")
            groups.append(group)
        return groups[0], groups[1]

    def key_counts(self) -> Mapping[Any, int]:
        """How many people hold each record; private, for the gate alone."""
        return dict(Counter(record for records in self._people for record in records))

    def counted_keys(self, least: int = 1) -> Iterator[tuple[Sequence[Any], Integers]]:
        """The same, sorted by record, as one batch; private, for the gate alone."""
        counts = self.key_counts()
        yield sorted(counts), np.array([counts[record] for record in sorted(counts)], dtype=np.int64)

    def check(self, most_rows: int = LARGEST_ANSWER) -> None:
        """Refuse records that are not pairs of texts: they cannot be sorted or listed."""
        if not all(_is_pair(record) for records in self._people for record in records):
            raise DataError("records: expected tuples of two texts, such as a query and a URL; convert them first")

    def counts(self, cliques: Sequence[Clique]) -> Counts:
        """Exact counts of the listed records, the wildcard record last; private, for the gate alone.

        A record counts for itself, else for the wildcard URL of its query, else for the wildcard record.
        """
        listed, places = self._listed, []
        for record in (record for records in self._people for record in records):
            query = (record[0], WILDCARD) if _is_pair(record) else None
            places.append(listed[record] if record in listed else listed.get(query, len(listed)))
        cells = np.bincount(np.array(places, dtype=np.int64), minlength=len(listed) + 1).astype(np.int64)
        return {tuple(clique): cells for clique in cliques}


class OptInNumbers(OptInPeople):
    """People who opted in, each with a number between two bounds, rounded to the nearest of `steps` + 1 grid points.

    Numbers outside the bounds count as the nearer bound. Whether there were any is private, so it is never reported.
    """

    def __init__(self, numbers: Any, lower: float, upper: float, *, steps: int = 1 << 16) -> None:
        values = np.asarray(numbers, dtype=np.float64)
        if values.ndim != 1 or not len(values):
            raise DataError("nobody opted in: give at least one number, or estimate from clients alone")
        if not np.isfinite(values).all():
            raise DataError("numbers of opt-in people: expected finite numbers; replace missing ones first")
        check_bounds(lower, upper)
        self.lower, self.upper, self.steps = float(lower), float(upper), steps
        inside = np.clip(values, self.lower, self.upper)
        places = np.rint((inside - self.lower) / (self.upper - self.lower) * steps).astype(np.int64)
        self._cells = np.bincount(places, minlength=steps + 1).astype(np.int64)
        self._people = len(values)
        self.domain = Domain({STEP: steps + 1})

    def __len__(self) -> int:
        return self._people

    def counts(self, cliques: Sequence[Clique]) -> Counts:
        """Exact counts of the steps; private, for the gate alone."""
        return {tuple(clique): self._cells for clique in cliques}


@dataclass(frozen=True, slots=True)
class StepSum:
    """The sum of the grid steps of all people; one person's step is from 0 to `steps`."""

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
    """The noisy mean of people who opted in, and the variance of its noise."""

    mean: float
    noise: float
    people: int


def noisy_mean(
    people: OptInNumbers,
    epsilon: Fraction,
    account: Account,
    *,
    delta: Fraction | None = None,
    note: str = "opt-in mean",
) -> NoisyMean:
    """The mean of people who opted in, with discrete Laplace noise, or discrete Gaussian noise if delta is given.

    Privacy: epsilon-DP, or (epsilon, delta)-DP, for replacing one person's number; the number of people is public.
    """
    require_opt_in(people, OptInNumbers)
    query = StepSum(people.steps)
    bound = sensitivity(query.row_norms, max_rows=1, neighbours=Neighbours.REPLACE)
    noise: Noise
    if delta is None:
        noise = DiscreteLaplace.for_epsilon(epsilon, bound)
    else:
        mu = Fraction(gaussian_mu(float_down(epsilon), float_down(delta)))
        noise = DiscreteGaussian.for_half_mu_squared(mu**2 / 2, bound)
    gate = Gate(people, account, neighbours=Neighbours.REPLACE)
    (measured,) = gate.measure([Request(query, noise)], note=note)
    unit = (people.upper - people.lower) / people.steps
    mean = people.lower + unit * float(measured.values[0]) / len(people)
    return NoisyMean(mean, (unit * noise.stddev / len(people)) ** 2, len(people))


def noisy_counts(
    people: OptInRecords, epsilon: Fraction, account: Account, *, note: str = "opt-in counts"
) -> tuple[Floats, float]:
    """Counts of the listed records, the wildcard record last, with discrete Laplace noise; and the noise variance.

    Privacy: epsilon-DP for replacing one person's records; the number of people is public.
    """
    require_opt_in(people, OptInRecords)
    query = MarginalQuery((RECORD,))
    bound = sensitivity(query.row_norms, max_rows=people.max_records, neighbours=Neighbours.REPLACE)
    noise = DiscreteLaplace.for_epsilon(epsilon, bound)
    gate = Gate(people, account, neighbours=Neighbours.REPLACE)
    (measured,) = gate.measure([Request(query, noise)], note=note)
    return np.asarray(measured.values, dtype=np.float64).ravel(), noise.stddev**2


def read_search_log(path: str | Path) -> dict[str, list[tuple[str, str]]]:
    """The records of each person, from a tab-separated file such as the AOL log.

    The header names the columns of people (AnonID, user or person), queries (Query) and URLs (ClickURL or URL), in
    upper or lower case. Queries and URLs are trimmed; a cell beyond 2000 characters is refused. Rows without a click
    are left out, but a person without any click still counts as a person without records: the number of people is
    published, so it must not depend on what somebody clicked.
    """
    headings = {"person": ("anonid", "user", "person"), "query": ("query",), "url": ("clickurl", "url")}
    people: dict[str, list[tuple[str, str]]] = {}
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            header = [cell.strip().lower() for cell in next(rows, [])]
            places = []
            for part, known in headings.items():
                place = next((header.index(name) for name in known if name in header), None)
                if place is None:
                    raise DataError(f"{path}: no column for the {part}; name it {known[0]!r}")
                places.append(place)
            for number, row in enumerate(rows, 2):
                if len(row) <= max(places):
                    row = row + [""] * (max(places) + 1 - len(row))
                person, query, url = (row[place].strip() for place in places)
                if max(map(len, (person, query, url))) > 2000:
                    raise DataError(f"{path}, line {number}: a cell of over 2000 characters; expected a search log")
                if person:
                    records = people.setdefault(person, [])
                    if query and url:
                        records.append((query, url))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "not a text of tab-separated columns"
        raise DataError(f"{path} cannot be read: {reason}") from None
    if not any(people.values()):
        raise DataError(f"{path} holds no row with a person, a query and a URL")
    return people


def require_opt_in(people: object, kind: type) -> None:
    """Refuse anything but opt-in people: neither a curator nor a curator's baseline may use a client's data."""
    if type(people) is not kind:
        raise DataError(
            f"a curator may use only people who opted in, as {kind.__name__}, and no {type(people).__name__}"
        )


def check_bounds(lower: float, upper: float) -> None:
    """Refuse bounds that are not finite, not in order, or too far apart for a float."""
    if not (np.isfinite([lower, upper]).all() and lower < upper and np.isfinite(float(upper) - float(lower))):
        raise DataError(f"lower={lower!r}, upper={upper!r}: expected finite bounds, lower below upper")


def _is_pair(record: object) -> TypeGuard[tuple[str, str]]:
    return isinstance(record, tuple) and len(record) == 2 and all(isinstance(part, str) for part in record)


def _chosen_records(records: Sequence[Key], most: int) -> tuple[Key, ...]:
    """At most `most` different records of one person, chosen by a hash of the person's list."""
    if isinstance(records, str | bytes):
        raise DataError("people: expected a list of records for each person; put a single record in a list")
    if len(records) == 1:
        return (records[0],)
    text = repr(records)
    order = sorted(
        range(len(records)), key=lambda index: hashlib.sha256(f"{index} {text}".encode("utf-8", "replace")).digest()
    )
    return tuple(dict.fromkeys(records[index] for index in order))[:most]
