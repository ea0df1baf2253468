"""Head lists: the records that many opt-in people hold, found and counted by the curator through the gate.

Some opt-in people find the list, the others count it. No person is in both parts, so each part may spend the whole
promise.

Reference: [Avent 2023, Alg. 2.2 and 2.3]. Differs from it: keys are released with the optimal probabilities of
`privacy.discovery`, which also covers several records per person, and noise is integer noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import DataError
from hush.hybrid.client.question import WILDCARD
from hush.hybrid.opt_in import OptInRecords, noisy_counts, require_opt_in
from hush.hybrid.promises import DISCOVERY, ESTIMATION, Promise
from hush.privacy.discovery import KeyDiscovery
from hush.privacy.gate import Gate
from hush.privacy.sensitivity import Neighbours

Record = tuple[str, str]
HeadList = dict[str, list[str]]


def discovery_law(promise: Promise, max_records: int = 1) -> KeyDiscovery:
    """The law that releases records: replacing a person moves 2 m counts, which share the promise."""
    if not promise.delta:
        raise DataError("delta=0: finding an unknown list needs a delta, such as 1e-6")
    return KeyDiscovery(promise.epsilon / (2 * max_records), promise.delta / (2 * max_records))


def discover(people: OptInRecords, promise: Promise) -> tuple[Record, ...]:
    """The records that enough of these people hold, sorted; without "*" and "", which no question can list.

    Privacy: (epsilon, delta)-DP for replacing one person's records; a record of one person is released with probability
    delta/(2 m).
    """
    require_opt_in(people, OptInRecords)
    gate = Gate(people, promise.account(DISCOVERY), neighbours=Neighbours.REPLACE)
    found = gate.discover(people, discovery_law(promise, people.max_records), note="head list")
    return tuple(record for record in found if all(part not in ("", WILDCARD) for part in record))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptInEstimates:
    """Unbiased shares of the records of a head list among opt-in people, before projection to the simplex.

    `noise` is the variance of the noise on a count. A listed query has a wildcard URL for its unlisted URLs. All other
    records count for the wildcard record, which comes last.
    """

    records: tuple[Record, ...]
    estimate: Floats
    noise: float
    rows: int

    def variance(self, shares: Floats | None = None, parts: Floats | int = 1) -> Floats:
        """The variance of a share that is the sum of `parts` shares.

            p (1 - p)/(N - 1) + parts s/(N (N - 1)), unbiased if p is the estimate itself

        With other `shares`, p (1 - p)/N + parts s/N^2 at these shares.
        """
        n = self.rows
        if shares is None:
            p = self.estimate
            return p * (1 - p) / (n - 1) + parts * self.noise / (n * (n - 1))
        return np.asarray(shares * (1 - shares) / n + parts * self.noise / n**2)

    def shortened(self, most_queries: int) -> OptInEstimates:
        """The queries with the largest shares; the records of the others count for the wildcard record."""
        totals: dict[str, float] = {}
        for (query, _), share in zip(self.records[:-1], self.estimate[:-1], strict=True):
            totals[query] = totals.get(query, 0.0) + float(share)
        largest = sorted(totals, key=lambda query: (-totals[query], query))[:most_queries]
        inside = np.array([query in largest for query, _ in self.records[:-1]] + [False])
        records = [record for record, keep in zip(self.records, inside, strict=True) if keep]
        records.sort(key=lambda record: largest.index(record[0]))
        shares = dict(zip(self.records, self.estimate, strict=True))
        estimate = [shares[record] for record in records]
        return OptInEstimates(
            records=(*records, self.records[-1]),
            estimate=np.array([*estimate, float(self.estimate[~inside].sum())]),
            noise=self.noise,
            rows=self.rows,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; public."""
        records = [list(record) for record in self.records]
        return {"records": records, "estimate": self.estimate.tolist(), "noise": self.noise, "rows": self.rows}

    @classmethod
    def from_dict(cls, body: Any) -> OptInEstimates:
        """The estimates that `to_dict` wrote; inconsistent ones are refused."""
        records = tuple((str(query), str(url)) for query, url in body["records"])
        shares = np.array([float(share) for share in body["estimate"]])
        noise, rows = float(body["noise"]), int(body["rows"])
        listed = dict.fromkeys(query for query, _ in records[:-1])
        whole = {(query, WILDCARD) for query in listed} <= set(records) and records[-1] == (WILDCARD, WILDCARD)
        right = len(set(records)) == len(records) == len(shares) and np.isfinite(shares).all() and np.isfinite(noise)
        if not (whole and right and noise >= 0 and rows >= 2):
            raise DataError("the estimates of opt-in people are inconsistent; write the head list again")
        return cls(records=records, estimate=shares, noise=noise, rows=rows)

    @property
    def head_list(self) -> HeadList:
        """The URLs of each query."""
        urls: HeadList = {}
        for query, url in self.records[:-1]:
            if url != WILDCARD:
                urls.setdefault(query, []).append(url)
        return urls


def estimate_opt_in(people: OptInRecords, records: tuple[Record, ...], promise: Promise) -> OptInEstimates:
    """The shares of listed records among opt-in people, and of the other URLs of each listed query.

    Each person has `max_records` places, and shares are of places; an empty place counts for the wildcard record.

    Privacy: epsilon-DP for replacing one person's records.
    Differs from [Avent 2023, Alg. 2.3]: other URLs of a listed query count for that query, as they do for clients;
    otherwise opt-in people would underestimate the query.
    """
    require_opt_in(people, OptInRecords)
    if len(people) < 2:
        raise DataError("only one person counts the head list: a variance needs at least two opt-in people")
    records = (*records, *((query, WILDCARD) for query in dict.fromkeys(query for query, _ in records)))
    counts, noise = noisy_counts(people.with_list(records), promise.epsilon, promise.account(ESTIMATION))
    places = len(people) * people.max_records
    if people.max_records > 1:  # the places that people leave empty count too
        counts[-1] = places - counts[:-1].sum()
    return OptInEstimates(records=(*records, (WILDCARD, WILDCARD)), estimate=counts / places, noise=noise, rows=places)
