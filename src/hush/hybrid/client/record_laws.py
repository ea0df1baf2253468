"""The law for records of two parts, such as a query and the address that was clicked: first one part, then the other.

Head lists are written as sizes here: `sizes[q]` is the number of URLs of query q, the wildcard included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from hush.hybrid.client.choice_laws import KaryResponse
from hush.hybrid.client.device_bits import SYSTEM_BYTES, UNIT, RandomBytes, scaled_exp, uniform_below

Record = tuple[int, int]


class RecordResponse:
    """Report a query by k-ary response, and its URL by k-ary response if the query was kept, else any URL at all.

        P(q, u | q, u)   = t t_q                  t   keeps the query, at epsilon_Q = share epsilon
        P(q, u' | q, u)  = t (1 - t_q)/(k_q - 1)  t_q keeps the URL, at epsilon_U
        P(q', u' | q, u) = (1 - t)/(k - 1) / k_q'

    The number of options that decides t is the number of queries k, never that of records.

    By default epsilon_U is as large as the promise allows. Two records of one query differ by a ratio of e^epsilon_U;
    two of different queries by at most e^epsilon_Q k_q X/(X + k_q - 1) with X = e^epsilon_U. Both are at most
    e^epsilon for

        X = min(e^epsilon, R (k_q - 1)/(k_q - R)),  R = e^(epsilon - epsilon_Q),

    or X = e^epsilon if k_q <= R. With `spend_slack` off, X = R, as composition would have it.

    Privacy: e^epsilon for every pair of records, and delta where it is given (which `spend_slack` does not use).
    Differs from [Avent 2023, Alg. 2.4]: its proof adds epsilon_Q and epsilon_U, and leaves a part of epsilon unspent.
    """

    __slots__ = ("query", "sizes", "urls")

    def __init__(
        self,
        sizes: Sequence[int],
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        *,
        share: Fraction,
        spend_slack: bool = True,
    ) -> None:
        self.sizes = tuple(sizes)
        of_query = share * epsilon
        self.query = KaryResponse(len(self.sizes), of_query, share * delta)
        if spend_slack:
            left, most = scaled_exp(epsilon - of_query), scaled_exp(epsilon)
            self.urls = tuple(KaryResponse.of_ratio(size, _url_ratio(size, left, most)) for size in self.sizes)
        else:
            self.urls = tuple(KaryResponse(size, epsilon - of_query, delta - share * delta) for size in self.sizes)

    def draw(self, value: Record, random_bytes: RandomBytes = SYSTEM_BYTES) -> Record:
        """A record, given the true one."""
        query, url = value
        reported = self.query.draw(query, random_bytes)
        if reported != query:
            return reported, uniform_below(self.sizes[reported], random_bytes)
        return query, self.urls[query].draw(url, random_bytes)

    def probability(self, value: Record, report: Record) -> Fraction:
        """How likely a report is, exactly."""
        chance = self.query.probability(value[0], report[0])
        if report[0] == value[0]:
            return chance * self.urls[value[0]].probability(value[1], report[1])
        return chance / self.sizes[report[0]]

    def outputs(self) -> Iterator[Record]:
        """Every possible report."""
        return ((query, url) for query, size in enumerate(self.sizes) for url in range(size))


def _url_ratio(size: int, left: int, most: int) -> int:
    """The largest ratio of a kept URL to another, times 2^64, for `left` = 2^64 R and `most` = 2^64 e^epsilon."""
    if size * UNIT <= left:
        return most
    return min(most, left * (size - 1) * UNIT // (size * UNIT - left))
