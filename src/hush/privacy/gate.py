"""The gate: the only way for noisy answers and private choices to leave a table, and the requests that it accepts.

The order is fixed: check everything public, check that the budget suffices and that the rows conform to the schema,
charge the account, count, add exact noise. If the charge is refused, nothing was counted. A failure after the charge
costs budget and reveals nothing. Test harnesses observe the gate through `watch`; what passes a watched gate, or is
drawn from seeded bits, is marked as not private.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, DataError, HushError, SizeError
from hush.core.unit import Unit
from hush.linops import LinearOperator
from hush.privacy.account import Account
from hush.privacy.discovery import KeyDiscovery
from hush.privacy.events import Event, compose
from hush.privacy.exact_sampling import Entropy, SystemEntropy
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.noisy_threshold import NoisyThreshold
from hush.privacy.partition_laws import NoisyPartition, PartitionCosts, PartitionMechanism, SplittingTree, TreeScores
from hush.privacy.selection import ExponentialMechanism, GeneralizedExponentialMechanism, Scores, TopK
from hush.privacy.sensitivity import ONE_CELL, Neighbours, RowNorms, Sensitivity, sensitivity
from hush.privacy.sum_query import SumQuery

Exact = np.ndarray[Any, np.dtype[np.int64]]
Counts = Mapping[Clique, Exact]


class Query(Protocol):
    """Integer answers that add up over rows; everything but the argument of `answer` is public."""

    @property
    def cliques(self) -> tuple[Clique, ...]: ...
    @property
    def row_norms(self) -> RowNorms: ...
    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]: ...


class LinearQuery(Query, Protocol):
    """A query whose answers are `scale` times the rows of `operator` applied to the table of its clique.

    Without an operator the answers are the table itself.
    """

    @property
    def operator(self) -> LinearOperator | None: ...
    @property
    def scale(self) -> int: ...


class DeclaredStatistic(ABC):
    """Integer answers that do not add up over rows, with a sensitivity that their type declares.

    Each statistic is a frozen dataclass whose docstring proves the sensitivity for every pair of neighbours. The gate
    checks, charges and batches a request for a statistic like a request for counts.
    """

    @property
    @abstractmethod
    def cliques(self) -> tuple[Clique, ...]:
        """The tables of counts that the statistic is computed from."""

    @abstractmethod
    def sensitivity(self, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        """How far a unit of at most `max_rows` rows moves the answers; public."""

    @abstractmethod
    def answer(self, counts: Counts) -> Integers:
        """The exact answers."""


class SelectionFamily(Protocol):
    """Exact scores of a family of candidates, listed or implicit: private, apart from their number and bounds."""

    @property
    def candidates(self) -> int: ...
    @property
    def sensitivity(self) -> float: ...
    @property
    def error(self) -> float: ...
    def distance(self, other: Any) -> Fraction: ...


Scoring = TypeVar("Scoring", bound=SelectionFamily)
ScoringOut = TypeVar("ScoringOut", bound=SelectionFamily, covariant=True)
ScoringIn = TypeVar("ScoringIn", bound=SelectionFamily, contravariant=True)
Choice = TypeVar("Choice", covariant=True)


class Scorer(Protocol[ScoringOut]):
    """Scores of public candidates, computed from exact counts.

    `row_norms` bounds how far one row moves any score. From it the gate computes the bound for its unit and neighbours,
    passes the bound to `scores`, and refuses scores that claim a smaller sensitivity.
    """

    @property
    def cliques(self) -> tuple[Clique, ...]: ...
    @property
    def candidates(self) -> int: ...
    @property
    def row_norms(self) -> RowNorms: ...
    def scores(self, counts: Counts, bound: Fraction) -> ScoringOut: ...


class SelectionLaw(Protocol[ScoringIn, Choice]):
    """A law of private selection, which states its own privacy cost."""

    def event(self) -> Event: ...
    def choose(self, scores: ScoringIn, entropy: Entropy) -> Choice: ...


@dataclass(frozen=True, slots=True)
class MarginalQuery:
    """The table of counts over a clique: each row adds one to one cell."""

    clique: Clique
    operator: ClassVar[None] = None
    scale: ClassVar[int] = 1
    row_norms: ClassVar[RowNorms] = ONE_CELL

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    def answer(self, counts: Counts) -> np.ndarray[Any, np.dtype[np.int64]]:
        return counts[self.clique]


LARGEST_ANSWER = 2**61  # leaves room for noise within int64
MOST_SCORED_ROWS = 2**53  # scores are floats: larger counts would be rounded, and one row could move them by 2
BATCH_CELLS = 1 << 24  # of the tables that are counted at a time

# Only laws of exactly these types draw, so that what draws is what was charged: they are immutable, and a subclass
# could draw something else.
NOISE_LAWS: tuple[type, ...] = (DiscreteGaussian, DiscreteLaplace)
SELECTION_LAWS: tuple[type, ...] = (
    ExponentialMechanism,
    TopK,
    GeneralizedExponentialMechanism,
    PartitionMechanism,
    NoisyPartition,
    SplittingTree,
)
DISCOVERY_LAWS: tuple[type, ...] = (KeyDiscovery, NoisyThreshold)
SCORES: tuple[type, ...] = (Scores, PartitionCosts, TreeScores)


class CountSource(Protocol):
    """Where exact counts come from.

    `require` refuses cliques that cannot be counted, and `require_sums` sums that cannot be formed, from public facts
    alone. `check` reads the rows and refuses values that the schema does not allow, and tables of more than `most_rows`
    rows. The gate calls all three before it charges, so that nobody pays for what cannot be done. It counts nothing
    before the charge, and reads nothing once the budget is spent.
    """

    @property
    def domain(self) -> Domain: ...
    @property
    def unit(self) -> Unit: ...
    def require(self, cliques: Sequence[Clique]) -> None: ...
    def check(self, most_rows: int = ...) -> None: ...
    def counts(self, cliques: Sequence[Clique]) -> Counts: ...
    def require_sums(self, queries: Sequence[SumQuery]) -> None: ...
    def sums(self, queries: Sequence[SumQuery]) -> Mapping[SumQuery, Exact]: ...


class CoarseSource(CountSource, Protocol):
    """A source that can merge levels of columns before it counts; the merged level of each code is public."""

    def coarse(self, codes: Mapping[str, Integers]) -> CountSource: ...


class KeySource(CountSource, Protocol):
    """A source of keys that nobody can list beforehand, such as texts that people typed.

    `counted_keys` gives the number of units that hold each key, in batches of keys and counts; each key comes once. It
    may leave out keys of fewer than `least` units. A unit counts once for each of at most `max_keys` keys, which depend
    on that unit alone.
    """

    @property
    def max_keys(self) -> int: ...
    def counted_keys(self, least: int) -> Iterator[tuple[Sequence[Any], Exact]]: ...


class DiscoveryLaw(Protocol):
    """A law of private discovery, which states its own privacy cost; keys of fewer than `minimum` units never leave."""

    @property
    def minimum(self) -> int: ...
    def check(self) -> None: ...
    def event(self, keys: int) -> Event: ...
    def released(self, keys: Sequence[Any], counts: Exact, entropy: Entropy) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """A query and the noise that will protect its answer."""

    query: Query | DeclaredStatistic
    noise: Noise


class Watcher(Protocol):
    """A test harness that sees exact inputs and may replace outputs."""

    def charged(self, event: Event) -> None: ...
    def measured(
        self, request: Request, bound: Sensitivity, exact: Integers, draw: Callable[[], Integers]
    ) -> Integers: ...
    def selected(self, scorer: Scorer[Any], law: Any, scores: Any, draw: Callable[[], Any]) -> Any: ...
    def discovered(
        self, law: DiscoveryLaw, keys: int, exact: Mapping[Any, int], draw: Callable[[], tuple[Any, ...]]
    ) -> tuple[Any, ...]: ...


_watcher: ContextVar[Watcher | None] = ContextVar("hush_gate_watcher", default=None)


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Let a test harness see and replace what passes any gate in this context, which is marked as not private."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class Gate:
    """Noisy answers and private choices about one table, within one account.

    Privacy: the sum of the charged events, under `neighbours`; the law that draws makes the event. Laws must be in
    `NOISE_LAWS`, `SELECTION_LAWS` or `DISCOVERY_LAWS`, and queries and scorers must be frozen, so that nothing can
    state the cost of one thing and draw another.
    """

    def __init__(
        self,
        table: CountSource,
        account: Account,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        entropy: Entropy | None = None,
    ) -> None:
        self._table = table
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._watched = False  # whether a watcher saw anything pass
        self._views: list[Gate] = []
        self.account = account
        self.neighbours = neighbours

    @property
    def private(self) -> bool:
        """Whether everything that passed, and what would pass now, is protected: no seeded bits, no watcher."""
        protected = type(self._entropy) is SystemEntropy and not self._watched and _watcher.get() is None
        return protected and all(view.private for view in self._views)

    @property
    def countable_cells(self) -> float:
        """How many cells can be counted at once; public, and infinite if the table does not say."""
        return float(getattr(self._table, "countable_cells", math.inf))

    def can_count(self, clique: Clique) -> bool:
        """Whether the table over a clique can be counted, judged by public facts."""
        try:
            self._table.require([clique])
        except SizeError:
            return False
        return True

    def coarse(self, codes: Mapping[str, Integers]) -> Gate:
        """A gate over the same rows with levels merged, so that tables over wide columns are small.

        Privacy: charges go to the same account. Each row still counts as one row.
        """
        table: CoarseSource = self._table  # type: ignore[assignment]
        self._views.append(Gate(table.coarse(codes), self.account, neighbours=self.neighbours, entropy=self._entropy))
        return self._views[-1]

    def event(self, request: Request) -> Event:
        """The cost of a request on this table; public."""
        if type(request.noise) not in NOISE_LAWS:
            raise BudgetError(_not_a_law("noise by", request.noise, NOISE_LAWS))
        return request.noise.event(self.bound(request.query))

    def measure(self, requests: Sequence[Request], *, note: str = "") -> Iterator[Measurement]:
        """Charge for all requests at once, then answer them in order, counting a batch at a time.

        The call itself charges, before the caller asks for the first answer. Answers already received stay valid if a
        later one fails.
        """
        requests = tuple(requests)
        events = [self.event(request) for request in requests]
        # Batches: consecutive requests, as index ranges, whose counts fit in about `BATCH_CELLS` cells.
        cuts, cells = [0], 0
        for index, request in enumerate(requests):
            added = sum(self._table.domain.size(clique) for clique in request.query.cliques)
            if index > cuts[-1] and cells + added > BATCH_CELLS:
                cuts.append(index)
                cells = 0
            cells += added
        batches = list(pairwise([*cuts, len(requests)])) if requests else []
        # Check what is public, then charge for all requests.
        for start, stop in batches:
            self._table.require(_cliques(requests[start:stop]))
            if summed := _sums(requests[start:stop]):
                self._table.require_sums(summed)
        if requests:
            # So many rows keep every answer below `LARGEST_ANSWER`.
            most_rows = min(LARGEST_ANSWER // getattr(request.query, "largest_factor", 1) for request in requests)
            self._charge(compose(events), note, most_rows=most_rows)
        return self._answers(requests, batches)

    def select(self, scorer: Scorer[Scoring], law: SelectionLaw[Scoring, Choice], *, note: str = "") -> Choice:
        """Charge for one choice, score the candidates, choose."""
        # Check what is public: the law, the scorer and the tables it needs.
        if type(law) not in SELECTION_LAWS:
            raise BudgetError(_not_a_law("a choice by", law, SELECTION_LAWS))
        if isinstance(law, TopK):
            law.check(scorer.candidates)
        _require_frozen(scorer)
        bound = sensitivity(scorer.row_norms, max_rows=self._table.unit.max_rows, neighbours=self.neighbours).l1
        self._table.require(scorer.cliques)
        self._charge(law.event(), note, most_rows=MOST_SCORED_ROWS)

        # Score the candidates on exact counts. Messages about scores give their public bounds alone.
        counts = self._table.counts(scorer.cliques)
        with self._messages_kept(scorer):
            scores = scorer.scores(counts, bound)
        if type(scores) not in SCORES:
            raise BudgetError(_not_a_law("a choice from", scores, SCORES))
        if scores.candidates != scorer.candidates:
            raise DataError(f"a scorer of {scorer.candidates} candidates gave another number of scores")
        if scores.sensitivity < bound:
            raise BudgetError(
                f"{type(scorer).__name__} claims that a unit moves its scores by {scores.sensitivity:g}, but its "
                f"row_norms allow {float(bound):g} here; use the bound passed to `scores`"
            )

        def draw() -> Choice:
            return law.choose(scores, self._entropy)

        watcher = self._watcher()
        return draw() if watcher is None else watcher.selected(scorer, law, scores, draw)

    def discover(self, source: KeySource, law: DiscoveryLaw, *, note: str = "") -> tuple[Any, ...]:
        """Charge for a list of keys, count the units that hold each, and release what the law draws, sorted.

        Keys that are not released are held a batch at a time.

        Privacy: under `neighbours` a unit moves the counts of `max_keys` keys by one, or of twice as many if units are
        replaced. The order of the keys reveals nothing about their counts.
        """
        if type(law) not in DISCOVERY_LAWS:
            raise BudgetError(_not_a_law("discovery by", law, DISCOVERY_LAWS))
        if source is not self._table:
            raise BudgetError("a gate discovers the keys of its own table; open another gate for another table")
        law.check()
        keys = source.max_keys * (2 if self.neighbours is Neighbours.REPLACE else 1)
        self._charge(law.event(keys), note, most_rows=LARGEST_ANSWER)

        def draw(batches: Iterable[tuple[Sequence[Any], Exact]]) -> tuple[Any, ...]:
            found: list[Any] = []
            for names, counts in batches:
                if counts.dtype != np.int64 or (counts.size and int(counts.min()) < 1):
                    raise DataError("a source of keys gave a count that is not a whole number above 0")
                held = counts >= law.minimum  # whatever the source left out
                if not held.all():
                    names, counts = [names[int(place)] for place in np.flatnonzero(held)], counts[held]
                found += law.released(names, counts, self._entropy)
            return tuple(sorted(found))

        watcher = self._watcher()
        if watcher is None:
            return draw(source.counted_keys(law.minimum))
        # A watcher compares all counts, so all are held.
        exact: dict[Any, int] = {}
        for names, counts in source.counted_keys(1):
            exact.update(zip(names, counts.tolist(), strict=True))
        held = tuple(exact), np.array(list(exact.values()), dtype=np.int64)
        return watcher.discovered(law, keys, exact, lambda: draw([held]))

    def bound(self, query: Query | DeclaredStatistic) -> Sensitivity:
        """How far a unit moves the answers to a query on this table; public."""
        for clique in query.cliques:
            self._table.domain.check(clique)
        _require_frozen(query)
        max_rows = self._table.unit.max_rows
        if not isinstance(query, DeclaredStatistic):
            return sensitivity(query.row_norms, max_rows=max_rows, neighbours=self.neighbours)
        return query.sensitivity(max_rows=max_rows, neighbours=self.neighbours)

    def _charge(self, event: Event, note: str, *, most_rows: int) -> None:
        """Charge, after checking that the budget suffices and that the schema allows the rows."""
        self.account.require(event)
        self._table.check(most_rows)
        self.account.charge(event, note=note)
        watcher = _watcher.get()
        if watcher is not None:
            watcher.charged(event)

    def _answers(self, requests: tuple[Request, ...], batches: list[tuple[int, int]]) -> Iterator[Measurement]:
        process = os.getpid()
        for start, stop in batches:
            batch = requests[start:stop]
            exact: dict[Any, Exact] = dict(self._table.counts(_cliques(batch)))
            if summed := _sums(batch):
                exact.update(self._table.sums(summed))
            for request in batch:
                if os.getpid() != process:
                    raise BudgetError("a measurement belongs to the process that paid for it; measure in one process")
                yield Measurement.of(request.query, self._noisy(request, exact), request.noise)

    def _noisy(self, request: Request, counts: Counts) -> Integers:
        with self._messages_kept(request.query):
            exact = request.query.answer(counts)
        if exact.dtype != np.int64:
            raise DataError(f"a query answered in {exact.dtype}; only exact int64 answers may pass")
        if exact.size and max(int(exact.max()), -int(exact.min())) > LARGEST_ANSWER:
            raise DataError("a query's answer is too large to add noise to without overflow")

        def draw() -> Integers:
            noise = request.noise.sample(exact.shape, self._entropy)
            noise += exact
            return noise

        watcher = self._watcher()
        return draw() if watcher is None else watcher.measured(request, self.bound(request.query), exact, draw)

    @contextmanager
    def _messages_kept(self, asked: object) -> Iterator[None]:
        """Withhold the message of a query or scorer that fails on exact counts, unless the gate is watched."""
        try:
            yield
        except (HushError, MemoryError):
            raise
        except Exception:
            if self._watcher() is not None:
                raise
            raise DataError(
                f"{type(asked).__name__} failed on the exact counts; its message could reveal them and is not shown; "
                "find the cause on a made-up table, with hush.testing.check_replay"
            ) from None

    def _watcher(self) -> Watcher | None:
        """The watcher, if any; the gate remembers that it was watched."""
        watcher = _watcher.get()
        self._watched = self._watched or watcher is not None
        return watcher


def _require_frozen(asked: Query | DeclaredStatistic | Scorer[Any]) -> None:
    """Refuse an object that could change between the charge and the answer."""
    if not (is_dataclass(asked) and type(asked).__dataclass_params__.frozen):
        raise BudgetError(f"{type(asked).__name__} must be a frozen dataclass, or it could change after the charge")


def _not_a_law(what: str, law: object, known: tuple[type, ...]) -> str:
    names = ", ".join(kind.__name__ for kind in known)
    return f"{what} {type(law).__name__}: expected one of {names}, so that what is drawn is what was charged"


def _cliques(requests: Sequence[Request]) -> list[Clique]:
    """The cliques whose counts these requests read, each once."""
    queries = (request.query for request in requests if not isinstance(request.query, SumQuery))
    return list(dict.fromkeys(clique for query in queries for clique in query.cliques))


def _sums(requests: Sequence[Request]) -> list[SumQuery]:
    """The sums of values that these requests read, each once."""
    return list(dict.fromkeys(request.query for request in requests if isinstance(request.query, SumQuery)))
