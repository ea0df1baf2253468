"""Head lists: the records that many opt-in people hold, found and counted by the curator under the gate.

Some of the opt-in people find the list, the others count it. No person is in both parts, so each part may spend the
whole promise.

Reference: [Avent 2023, Alg. 2.2 and 2.3]. Differs from it: keys are released by the optimal table of
`privacy.discovery`, which also covers several records of a person, and noise is integer noise.
"""

from __future__ import annotations

import math
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


def document_threshold(epsilon: float, delta: float, max_records: int = 1) -> float:
    """The threshold of [Avent 2023, Alg. 2.2]: max(b (ln(e^(eps/2) + m - 1) - ln delta), 1) with b = 2 m/eps.

    With Laplace noise of scale b, a record of one person passes it with probability e^(-(tau - 1)/b)/2 = delta/2 at
    m = 1. For comparison; `discover` draws by an exact table instead.
    """
    scale = 2 * max_records / epsilon
    return max(scale * (math.log(math.exp(epsilon / 2) + max_records - 1) - math.log(delta)), 1.0)


def discovery_law(promise: Promise, max_records: int = 1) -> KeyDiscovery:
    """The law by which records are found: a person who is exchanged moves 2 m counts, which share the promise."""
    if not promise.delta:
        raise DataError("delta=0: a list that nobody knows beforehand needs a delta, such as 1e-6")
    return KeyDiscovery(promise.epsilon / (2 * max_records), promise.delta / (2 * max_records))


def discover(people: OptInRecords, promise: Promise) -> tuple[Record, ...]:
    """The records that enough of these people hold, sorted; without those that no question can list: "*" and "".

    Privacy: (epsilon, delta)-DP when one person's records are exchanged; a record of one person is released with
    probability delta/(2 m).
    """
    require_opt_in(people, OptInRecords)
    gate = Gate(people, promise.account(DISCOVERY), neighbours=Neighbours.REPLACE)
    found = gate.discover(people, discovery_law(promise, people.max_records), note="head list")
    return tuple(record for record in found if all(part not in ("", WILDCARD) for part in record))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptInEstimates:
    """Shares of the records of a head list among opt-in people: unbiased, before any is moved to the simplex.

    `noise` is the variance of the noise on a count. A query that is listed has a wildcard URL for all its URLs that are
    not. What is not listed at all counts for the wildcard record, which comes last and is in no query of the list.
    """

    records: tuple[Record, ...]
    estimate: Floats
    noise: float
    rows: int

    def variance(self, shares: Floats | None = None, parts: Floats | int = 1) -> Floats:
        """The variance of a share that is the sum of `parts` of them.

            p (1 - p)/(N - 1) + parts s/(N (N - 1)), unbiased where p is the estimate itself

        With other `shares`, p (1 - p)/N + parts s/N^2 at those.
        """
        n = self.rows
        if shares is None:
            p = self.estimate
            return p * (1 - p) / (n - 1) + parts * self.noise / (n * (n - 1))
        return np.asarray(shares * (1 - shares) / n + parts * self.noise / n**2)

    def shortened(self, most_queries: int) -> OptInEstimates:
        """The queries with the largest shares; the records of the others count for the wildcard."""
        totals: dict[str, float] = {}
        for (query, _), share in zip(self.records[:-1], self.estimate[:-1], strict=True):
            totals[query] = totals.get(query, 0.0) + float(share)
        kept = sorted(totals, key=lambda query: (-totals[query], query))[:most_queries]
        inside = np.array([query in kept for query, _ in self.records[:-1]] + [False])
        records = [record for record, keep in zip(self.records, inside, strict=True) if keep]
        records.sort(key=lambda record: kept.index(record[0]))
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
        """The estimates that `to_dict` wrote; refuses what they cannot be."""
        records = tuple((str(query), str(url)) for query, url in body["records"])
        shares = np.array([float(share) for share in body["estimate"]])
        noise, rows = float(body["noise"]), int(body["rows"])
        listed = dict.fromkeys(query for query, _ in records[:-1])
        whole = {(query, WILDCARD) for query in listed} <= set(records) and records[-1] == (WILDCARD, WILDCARD)
        right = len(set(records)) == len(records) == len(shares) and np.isfinite(shares).all() and np.isfinite(noise)
        if not (whole and right and noise >= 0 and rows >= 2):
            raise DataError("estimates of opt-in people contradict themselves; write the head list anew")
        return cls(records=records, estimate=shares, noise=noise, rows=rows)

    @property
    def head_list(self) -> HeadList:
        """The URLs of each query."""
        found: HeadList = {}
        for query, url in self.records[:-1]:
            if url != WILDCARD:
                found.setdefault(query, []).append(url)
        return found


def estimate_opt_in(people: OptInRecords, records: tuple[Record, ...], promise: Promise) -> OptInEstimates:
    """The shares of listed records among opt-in people, and of the other URLs of each listed query.

    Privacy: epsilon-DP when one person's records are exchanged.
    Differs from [Avent 2023, Alg. 2.3]: other URLs of a listed query count for that query, as they do for clients; as
    printed, opt-in people would underestimate it.
    """
    require_opt_in(people, OptInRecords)
    if len(people) < 2:
        raise DataError("one person counts the head list: at least two opt-in people are needed for a variance")
    records = (*records, *((query, WILDCARD) for query in dict.fromkeys(query for query, _ in records)))
    counts, noise = noisy_counts(people.with_list(records), promise.epsilon, promise.account(ESTIMATION))
    return OptInEstimates(
        records=(*records, (WILDCARD, WILDCARD)), estimate=counts / len(people), noise=noise, rows=len(people)
    )
