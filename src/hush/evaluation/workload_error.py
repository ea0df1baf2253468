"""Workload error: how far estimated tables are from the exact ones, over a whole workload; on average, or at most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain, clique_batches
from hush.core.errors import DataError, SizeError, WorkloadError
from hush.core.memory import require_memory
from hush.workloads import Term, Workload

Tables: TypeAlias = Mapping[Clique, Any] | Callable[[Sequence[Clique]], Mapping[Clique, Any]]
Progress: TypeAlias = Callable[[float], None]
BATCH_CELLS = 2**22  # of the tables held at a time, unless a single table has more
MOST_ANSWERS = 2**28  # of one term
BYTES_COMPARED = 32  # of each cell and answer: counts, both tables as floats, what is between them


@dataclass(frozen=True, slots=True)
class TermErrors:
    """The errors of each term of a workload, and their summaries.

    `absolute` is ||W mu - W mu^||_1 in counts. `distances` is 1/2 ||W p - W p^||_1 with p = mu / sum(mu), which for
    marginals is the total variation distance: 0 for equal shares, 1 for no value in common.
    """

    total: float  # |D|
    weights: Floats  # (k,) c_i
    absolute: Floats  # (k,)
    distances: Floats  # (k,)

    @property
    def error(self) -> float:
        """Error(D, D^) = 1/(k |D|) sum_i c_i ||M_i(D) - M_i(D^)||_1; from 0 to 2 for marginals of equally many rows."""
        return float(self.weights @ self.absolute) / (len(self.weights) * self.total)

    @property
    def share_error(self) -> float:
        """(1/k) sum_i c_i ||M_i(D)/|D| - M_i(D^)/|D^|||_1: `error` with both tables in shares."""
        return 2 * float(self.weights @ self.distances) / len(self.weights)

    @property
    def mean_distance(self) -> float:
        """The average of 1/2 ||p - p^||_1 over the terms, without weights, which other tools report as the error."""
        return float(np.mean(self.distances))


def workload_error(workload: Workload, exact: Tables, estimated: Tables) -> float:
    """Error(D, D^) = 1/(k |D|) sum_i c_i ||M_i(D) - M_i(D^)||_1 over the k terms of a workload, in counts.

    For a product of query blocks M_i is W_i mu over its clique; c_i is the weight of the term. Tables are a mapping by
    clique, or a function of a list of cliques such as `table.counts` and `model.tables`, called for a few at a time.

    Privacy: reads exact tables without any noise; the result is private.

    Reference: [AIM, Def. 2].

    >>> from hush import Domain
    >>> workload = Workload.kway(Domain({"sex": 2, "smokes": 2}), 1)
    >>> exact, estimated = {("sex",): [6, 4], ("smokes",): [5, 5]}, {("sex",): [5, 5], ("smokes",): [2, 8]}
    >>> workload_error(workload, exact, estimated)
    0.4
    """
    return term_errors(workload, exact, estimated).error


def term_errors(
    workload: Workload,
    exact: Tables,
    estimated: Tables,
    *,
    zeros: bool = False,
    seen: Callable[[Term, Floats], None] | None = None,
    progress: Progress | None = None,
) -> TermErrors:
    """The errors of every term; see `workload_error`.

    Estimates without any row are refused, unless `zeros` says that an answer of 0 is meant; its shares are 0 then.
    `seen` is called once with the exact answers of each term, in any order.

    Privacy: as `workload_error`.
    """
    check_compared(workload)
    indices = _by_clique(workload)
    total, absolute, distances = math.nan, np.zeros(len(workload)), np.zeros(len(workload))
    tables = paired(workload.domain, list(indices), exact, estimated)
    for number, (clique, truth, estimate) in enumerate(tables, start=1):
        total = _total(truth, "exact")
        estimated_total = 1.0 if zeros and not estimate.any() else _total(estimate, "estimated")
        for index in indices[clique]:
            term = workload.terms[index]
            exact_answers, answered = term.exact_answers(truth), term.exact_answers(estimate)
            absolute[index] = np.abs(exact_answers - answered).sum()
            distances[index] = 0.5 * np.abs(exact_answers / total - answered / estimated_total).sum()
            if seen is not None:
                seen(term, exact_answers)
        if progress is not None:
            progress(number / len(indices))
    return TermErrors(total, np.array(workload.weights), absolute, distances)


def largest_error(workload: Workload, exact: Tables, estimated: Tables) -> float:
    """max_i ||M_i(D) - M_i(D^)||_inf / |D|: the largest error of any answer of a workload, as a share of the rows.

    All answers count equally, of marginals, thresholds, formulas and other terms; weights play no part. The arguments
    are those of `workload_error`.

    Privacy: reads exact tables without any noise; the result is private.

    Reference: [Avent 2023, sec. 4.2.3].

    >>> from hush import Domain
    >>> workload = Workload.kway(Domain({"sex": 2, "smokes": 2}), 1)
    >>> exact, estimated = {("sex",): [6, 4], ("smokes",): [5, 5]}, {("sex",): [5, 5], ("smokes",): [2, 8]}
    >>> largest_error(workload, exact, estimated)
    0.3
    """
    return float(largest_errors(workload, exact, estimated).max())


def largest_errors(workload: Workload, exact: Tables, estimated: Tables) -> Floats:
    """For each term, the largest error of an answer as a share of the rows: (terms,).

    Privacy: as `largest_error`.
    """
    check_compared(workload)
    indices = _by_clique(workload)
    errors = np.zeros(len(workload))
    for clique, truth, estimate in paired(workload.domain, list(indices), exact, estimated):
        total, apart = _total(truth, "exact"), truth - estimate
        for index in indices[clique]:
            answers = workload.terms[index].exact_answers(apart)  # queries are linear
            errors[index] = max(answers.max(), -answers.min()) / total
    return errors


def check_compared(workload: Workload) -> None:
    """Refuse a workload whose answers cannot be compared one by one, or do not fit into memory."""
    for term in workload:
        if not term.listed:
            raise WorkloadError(
                f"the queries over {term.clique!r} are known through their Gram matrix alone, so their errors cannot "
                "be added up; give the queries themselves"
            )
        if term.queries > MOST_ANSWERS:
            raise SizeError(
                f"the term over {term.clique!r} asks for {term.queries:,} numbers; at most {MOST_ANSWERS:,}"
            )
    needed, largest = max((workload.domain.size(t.clique) + t.queries, i) for i, t in enumerate(workload))
    what = f"the errors of {workload.terms[largest].text}"
    require_memory(BYTES_COMPARED * needed, what, "ask for fewer attributes at once")


def _by_clique(workload: Workload) -> dict[Clique, list[int]]:
    """The places of the terms over each clique."""
    indices: dict[Clique, list[int]] = {}
    for index, clique in enumerate(workload.cliques):
        indices.setdefault(clique, []).append(index)
    return indices


def paired(
    domain: Domain, cliques: Sequence[Clique], exact: Tables, estimated: Tables
) -> Iterator[tuple[Clique, Floats, Floats]]:
    """Each clique with its exact and estimated table as floats; `BATCH_CELLS` cells are asked for at a time.

    Privacy: as `workload_error`.
    """
    for batch in clique_batches(domain, cliques, BATCH_CELLS):
        tables = [source if isinstance(source, Mapping) else source(batch) for source in (exact, estimated)]
        for clique in batch:
            if any(clique not in source for source in tables):
                raise WorkloadError(f"there is no table over {clique!r}; give one for every clique of the workload")
            shape = domain.sizes(clique)
            truth, estimate = (np.asarray(source[clique], dtype=np.float64) for source in tables)
            if not truth.shape == estimate.shape == shape:
                raise DataError(
                    f"tables over {clique!r} of shapes {truth.shape} and {estimate.shape}: expected {shape}"
                )
            yield clique, truth, estimate


def _total(table: Floats, kind: str) -> float:
    total = float(table.sum())
    if not (math.isfinite(total) and total > 0):
        raise DataError(f"the {kind} table has no rows, so nothing can be compared with it; give a table with rows")
    return total
