"""Search logs: invented ones with the shape of real ones, and a loader for files of query and URL.

Invented logs have the nine most common queries of a log of 519,371 people from 2006, a tail in which the share of a
query falls with the power 0.95 of its rank, and queries that nobody else typed.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import DataError
from hush.hybrid.simulated_reports import generator_of

AOL_PEOPLE = 519_371
TOP = (
    ("google", 0.0211),
    ("yahoo", 0.0067),
    ("google.com", 0.0066),
    ("myspace.com", 0.0055),
    ("mapquest", 0.0055),
    ("yahoo.com", 0.0048),
    ("www.google.com", 0.0044),
    ("myspace", 0.0034),
    ("ebay", 0.0030),
)
URL_SHARES = (0.7, 0.2, 0.1)
POWER = 0.95
COMMON = 100_000  # queries that several people may type


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLog:
    """One record of each of many people, as codes; private in earnest, here invented.

    `queries` and `urls` are codes; a query from `COMMON` on was typed by nobody else.
    """

    queries: Integers
    urls: Integers

    def __len__(self) -> int:
        return len(self.queries)

    def record(self, person: int) -> tuple[str, str]:
        """The record of one person, as texts."""
        return query_text(int(self.queries[person])), url_text(int(self.queries[person]), int(self.urls[person]))

    def records(self, people: Any = None) -> list[tuple[str, str]]:
        """The records of some people, or of all."""
        chosen = range(len(self)) if people is None else people
        return [self.record(int(person)) for person in chosen]

    def true_shares(self, most: int) -> dict[str, dict[str, float]]:
        """The shares of the URLs of the most common queries, among these people."""
        width = len(URL_SHARES)
        common = self.queries < COMMON
        cells = np.bincount(self.queries[common] * width + self.urls[common], minlength=COMMON * width)
        table = cells.reshape(-1, width) / len(self)
        order = np.argsort(-table.sum(axis=1), kind="stable")[:most]
        return {query_text(int(q)): {url_text(int(q), u): float(table[q, u]) for u in range(width)} for q in order}


def query_shares() -> Floats:
    """The probabilities of the common queries; the rest of the people type what nobody else does."""
    tail = TOP[-1][1] * (len(TOP) / np.arange(len(TOP) + 1, COMMON + 1)) ** POWER
    return np.concatenate([[share for _, share in TOP], tail])


def search_log(people: int = AOL_PEOPLE, *, seed: int) -> SearchLog:
    """An invented log; the same for the same seed.

    >>> log = search_log(1000, seed=1)
    >>> len(log), log.record(0) == search_log(1000, seed=1).record(0)
    (1000, True)
    """
    if people < 1:
        raise DataError(f"people={people!r}: expected an integer >= 1")
    generator = generator_of(seed)
    shares = query_shares()
    bounds = np.cumsum(shares)
    queries = np.searchsorted(bounds, generator.random(people), side="right")
    alone = queries >= COMMON
    queries[alone] = COMMON + np.flatnonzero(alone)
    urls = generator.choice(len(URL_SHARES), size=people, p=URL_SHARES)
    return SearchLog(queries=queries.astype(np.int64), urls=urls.astype(np.int64))


def query_text(code: int) -> str:
    """The text of a query."""
    if code < len(TOP):
        return TOP[code][0]
    return f"query {code + 1}" if code < COMMON else f"typed once {code}"


def url_text(query: int, url: int) -> str:
    """The text of a URL of a query."""
    return f"{chr(ord('a') + url)}.{query_text(query).replace(' ', '-').removesuffix('.com')}.com"


def read_search_log(path: str | Path) -> dict[str, list[tuple[str, str]]]:
    """Records of each person from a tab-separated file in the form of the AOL log, or one with named columns.

    The header names a column of people (AnonID, user or person), of queries (Query) and of URLs (ClickURL or URL), in
    any case. Queries and URLs are trimmed; a cell beyond 2000 characters is refused. Rows without a click are left out,
    but a person who has no others is still a person without records: the number of people is published, so it must not
    depend on what somebody clicked.
    """
    names = {"person": ("anonid", "user", "person"), "query": ("query",), "url": ("clickurl", "url")}
    people: dict[str, list[tuple[str, str]]] = {}
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            header = [cell.strip().lower() for cell in next(rows, [])]
            places = []
            for what, known in names.items():
                place = next((header.index(name) for name in known if name in header), None)
                if place is None:
                    raise DataError(f"{path}: no column for the {what}; name it {known[0]!r}")
                places.append(place)
            for number, row in enumerate(rows, 2):
                if len(row) <= max(places):
                    row = row + [""] * (max(places) + 1 - len(row))
                person, query, url = (row[place].strip() for place in places)
                if max(map(len, (person, query, url))) > 2000:
                    raise DataError(f"{path}, line {number}: a cell of over 2000 characters; this is no search log")
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
