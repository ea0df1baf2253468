"""Releases to report on: a real one, and a stand-in with any counts and variance; and a reader of pages."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.datasets import people, people_schema
from hush.inference.error_law import ErrorLaw
from hush.planning import plan
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent
from hush.privacy.measurement import Measurement, StatedNoise
from hush.privacy.noise import Noise
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.release.record import Record
from hush.release.release import Release
from hush.release.statement import Statement
from hush.schema import ROW, Schema, Unit
from hush.tables import read
from hush.workloads import Workload

VOID = {"meta", "br"}


class StandInEstimates:
    """Given or invented counts, and independent noise of one variance on every cell of every table."""

    def __init__(
        self,
        domain: Domain,
        order: int,
        variance: float,
        counts: Mapping[Clique, Any],
        cliques: tuple[Clique, ...] | None,
    ) -> None:
        self.domain = domain
        self.order = order
        self.cliques = tuple(itertools.combinations(domain.attributes, order)) if cliques is None else cliques
        self.variance = variance
        self.given = counts

    def covers(self, clique: Clique) -> bool:
        return len(clique) <= self.order

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        return None

    def counts(self, clique: Clique) -> Floats:
        names = self.domain.clique(clique)
        shape = self.domain.sizes(names)
        found = self.given.get(names)
        table = np.random.default_rng(len(names)).gamma(2.0, 50.0, shape) if found is None else np.array(found, float)
        return np.transpose(table.reshape(shape), [names.index(name) for name in clique])

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return np.asarray(self.variance * (first * second).sum(axis=tuple(range(groups, len(clique)))))

    laplace = False

    def alike(self, name: str) -> bool:
        return True

    def error_law(self, clique: Clique, coefficients: Floats, blocks: Any = None) -> ErrorLaw:
        return ErrorLaw([(coefficients, np.ones(1), StatedNoise(math.sqrt(self.variance)))])


class StandInRecord(Record):
    kind = "stand-in"

    def __init__(self, estimates: StandInEstimates) -> None:
        self._estimates = estimates

    @property
    def tables(self) -> int:
        return len(self._estimates.cliques)

    def measurements(self) -> list[Measurement]:
        cliques = self._estimates.cliques
        deviation = math.sqrt(self._estimates.variance)
        return [Measurement(clique, self._estimates.counts(clique), deviation) for clique in cliques]

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter()

    def estimates(self, release: Release) -> StandInEstimates:
        return self._estimates

    def inconsistency(self, release: Release) -> None:
        return None

    def pack(self) -> Any:
        return {}, {}

    @classmethod
    def unpack(cls, entry: Any, archive: Any, schema: Schema) -> Any:
        raise NotImplementedError


def stand_in(
    schema: Schema,
    *,
    order: int = 2,
    variance: float = 100.0,
    counts: Mapping[Clique, Any] | None = None,
    cliques: tuple[Clique, ...] | None = None,
    workload: Workload | None = None,
    private: bool = True,
    complete: bool = True,
    unit: Unit = ROW,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    rho: Fraction = Fraction(1, 8),
) -> Release:
    order = min(order, len(schema))
    return Release(
        mechanism="stand-in",
        record=StandInRecord(StandInEstimates(schema.domain, order, variance, counts or {}, cliques)),
        schema=schema,
        workload=workload or Workload.kway(schema.domain, order),
        statement=Statement(
            budget=Budget(rho=1.0),
            neighbours=neighbours,
            unit=unit,
            event=GaussianEvent(1 / (2 * rho), Fraction(1)),
            seeded=not private,
        ),
        complete=complete,
    )


@pytest.fixture(scope="session")
def make() -> Callable[..., Release]:
    return stand_in


@pytest.fixture(scope="session")
def people_release() -> Release:
    schema = people_schema()
    table = read(people(3000, seed=4), schema)
    return plan(Workload.upto(schema.domain, 2), Budget(rho=0.5)).release(table)


class Page(HTMLParser):
    """A page as elements: (tag, attributes, text inside), and every piece of text; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of <{tag}> is given twice"
        if tag in VOID:
            self.elements.append((tag, dict(attrs), ""))
        else:
            self.open.append((tag, dict(attrs), []))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        for _, _, texts in self.open:
            texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        name, attributes, texts = self.open.pop()
        assert name == tag, f"</{tag}> closes <{name}>"
        self.elements.append((name, attributes, "".join(texts)))

    def texts(self, tag: str, kind: str | None = None) -> list[str]:
        """The text inside every element of a tag, and class."""
        return [text for name, attrs, text in self.elements if name == tag and kind in (None, attrs.get("class"))]

    def count(self, tag: str, kind: str | None = None) -> int:
        return len(self.texts(tag, kind))


@pytest.fixture(scope="session")
def read_page() -> type[Page]:
    return Page
