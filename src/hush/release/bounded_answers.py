"""Answers from noisy tables where these suffice and from the fitted model elsewhere, with exact errors or bounds.

With a bound B on the L1 error of a table and D on that of the number of records, no cell of the model is off by more
than (B + D) / 2, which gives its interval. Without a bound it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import QueryError, WorkloadError
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.inference.error_law import ErrorLaw
from hush.inference.error_margins import largest_coefficients, sum_margins
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.linops import LinearOperator
from hush.models.distribution import Distribution
from hush.privacy.measurement import Measurement
from hush.release.answer_columns import ErrorKind, Quantity
from hush.release.answers import Answers, check_level, spare
from hush.release.error_bounds import ErrorBounds, bound_note
from hush.release.intervals import FixedIntervals, ModelIntervals, Signs
from hush.release.model_estimates import Misfit, ModelEstimates
from hush.release.term_answers import query_signs, term_answers, term_groups
from hush.schema import Schema
from hush.workloads import Term

# The mean squared distance of a model from noisy tables, in variances of the noise, is 1 for a perfect model, 2 for a
# model that is as far from the truth as the noise is; and less for either if the model follows the noise.
CLOSER_WITHIN = 1.5


class MeasuredEstimates:
    """Tables of any clique; implements `BoundedEstimates`.

    Inside measured tables: the best linear unbiased estimates, with exact covariances. Elsewhere: the model's counts,
    with NaN for covariances, and a bound on the L1 error of the whole table where one is known.
    """

    def __init__(
        self,
        distribution: Distribution,
        unbiased: UnbiasedEstimates | None,
        bounds: ErrorBounds,
        measurements: Sequence[Measurement] = (),
    ) -> None:
        """`measurements` are what the distribution was fitted to."""
        self._distribution = distribution
        self._measurements = measurements
        self._model = ModelEstimates(distribution)
        self._unbiased = unbiased
        self.bounds = bounds

    def closer_model(self, clique: Clique) -> ModelEstimates | None:
        """The model, for a measured table to which it is probably closer than the noisy tables are; None otherwise.

        The model draws on all tables, so it is closer unless it cannot represent a table as well as the noise shows
        it, as few relaxed rows under a large budget cannot. The measured tables that hold the clique tell.
        """
        if not self.has_covariance(clique):
            return None
        distance = self._misfit.where(lambda table: set(self.domain.varying(clique)) <= set(table))
        return self._model if distance**2 <= CLOSER_WITHIN else None

    @cached_property
    def _misfit(self) -> Misfit:
        return Misfit(self._distribution, self._measurements)

    @property
    def domain(self) -> Domain:
        return self._model.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest tables with exact errors; all attributes where no table has them."""
        return self._model.cliques if self._unbiased is None else self._unbiased.cliques

    def covers(self, clique: Clique) -> bool:
        """True: every table can be estimated; `has_covariance` and `l1_bound` say how well."""
        return self._model.covers(clique)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None: every table is known cell by cell."""

    def counts(self, clique: Clique) -> Floats:
        return self._source(clique).counts(clique)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return self._source(clique).covariance(clique, first, second, groups)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        return self._source(clique).product(clique, blocks)

    def has_covariance(self, clique: Clique) -> bool:
        """Whether the table lies inside a measured one."""
        self.domain.check(clique)
        return self._unbiased is not None and self._unbiased.covers(clique)

    @property
    def laplace(self) -> bool:
        return self._unbiased is not None and self._unbiased.laplace

    def alike(self, name: str) -> bool:
        return self._unbiased is not None and self._unbiased.alike(name)

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        return self._source(clique).error_law(clique, coefficients, blocks)

    def l1_bound(self, clique: Clique, level: float) -> float:
        """A bound on sum_x |model count - true count| that holds with probability `level`; NaN if there is none."""
        return self.bounds.of(clique, level).bound

    def margin(self, clique: Clique, lowest: Floats, highest: Floats, level: float) -> Floats:
        """A bound on the error of sums of model counts with coefficients in [lowest, highest]; NaN if unknown."""
        return self.bounds.margin(clique, lowest, highest, level)

    def _source(self, clique: Clique) -> UnbiasedEstimates | ModelEstimates:
        if self._unbiased is not None and self._unbiased.covers(self.domain.check(clique)):
            return self._unbiased
        return self._model


def covered(estimates: Estimates, clique: Iterable[str], *, unbiased: bool = False) -> Clique:
    """The names of a clique; refused unless it can be estimated, and without bias if that is asked for."""
    names = estimates.domain.check(clique)
    if unbiased and isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(names):
        raise QueryError(
            f"no noisy table of the release holds {names!r}, so there is no unbiased estimate of it; leave "
            "unbiased=True out for the estimate of the fitted model"
        )
    if not estimates.covers(names):
        raise WorkloadError(
            f"the release has no table over {names!r}; a workload with that marginal would have covered it; "
            "release.model() estimates it, without an error bar"
        )
    return names


def closer_model(estimates: Estimates, clique: Clique, *, unbiased: bool) -> ModelEstimates | None:
    """The model of an adaptive mechanism, where its counts are probably closer than unbiased ones."""
    if unbiased or not isinstance(estimates, MeasuredEstimates):
        return None
    return estimates.closer_model(clique)


def mean_variance(estimates: Estimates, clique: Clique) -> float:
    """The mean variance of the cells of a table."""
    ones = np.ones(estimates.domain.sizes(clique))
    return float(np.mean(estimates.covariance(clique, ones, ones, len(clique))))


MODEL_NOTE = (
    "estimates are those of the fitted model, which draws on all tables; intervals are those of the noisy tables, and "
    "unbiased=True gives the estimates of those."
)


def with_model_estimates(answers: Answers, values: Floats, signs: Signs | None = None) -> Answers:
    """Unbiased answers with their estimates replaced by those of a model, which are biased, and usually closer.

    `signs` are those of the answers, 1 by default. Standard errors stay those of the noisy tables, as do the intervals,
    so that these hold whatever the model is.
    """
    (unbiased,) = answers.quantities
    estimate = np.asarray(values, dtype=np.float64).ravel()
    signs = np.ones(estimate.shape, dtype=np.int8) if signs is None else signs
    intervals = ModelIntervals(unbiased.intervals, estimate, signs)
    quantity = Quantity(unbiased.name, estimate, unbiased.std_error, ErrorKind.MODEL, intervals)
    return replace(answers, quantities=(quantity,), notes=(*answers.notes, MODEL_NOTE))


def table_answers(
    schema: Schema, clique: Clique, estimates: Estimates, *, level: float = 0.95, notes: Iterable[str] = ()
) -> Answers:
    """Every cell of a table: unbiased counts with exact errors, or counts of a model with the bound on their table."""
    check_level(level)
    counts = estimates.counts(clique)
    if not (isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(clique)):
        ones = np.ones(counts.shape)
        variances = estimates.covariance(clique, ones, ones, len(clique))
        margins = sum_margins(estimates, clique, ones, len(clique), np.sqrt(np.maximum(variances, 0.0)))
        return Answers.of_marginal(schema, clique, counts, variances, level, notes=notes, margins=margins)
    margin = float(estimates.margin(clique, np.zeros(()), np.ones(()), level))
    error_kind = ErrorKind.NONE if np.isnan(margin) else ErrorKind.BOUND
    notes = (bound_note(clique, estimates.l1_bound(clique, level), level), *notes)
    return Answers.of_marginal(schema, clique, counts, None, level, error_kind=error_kind, notes=notes, margin=margin)


def bounded_term_answers(
    schema: Schema, term: Term, estimates: Estimates, *, level: float = 0.95, notes: Iterable[str] = ()
) -> Answers:
    """Every query of a term, with exact standard errors or with the bound on its table, as in `table_answers`."""
    if not (isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(term.clique)):
        return term_answers(schema, term, estimates, level=level, notes=notes)
    sizes = estimates.domain.sizes(term.clique)
    if (product := term.product) is None:
        values = term.exact_answers(estimates.counts(term.clique))
        lowest, highest = term.extremes(sizes)
    else:
        values, _ = estimates.product(product.clique, product.blocks)
        largest: Floats = np.ones(())
        for block in product.blocks:
            largest = np.multiply.outer(largest, largest_coefficients(block))
        largest, signs = largest.ravel(), query_signs(term, sizes)
        lowest, highest = np.where(signs > 0, 0.0, -largest), np.where(signs < 0, 0.0, largest)
    margin = estimates.margin(term.clique, lowest, highest, check_level(level))
    note = bound_note(term.clique, estimates.l1_bound(term.clique, level), level)
    return model_answers(schema, term, values, level, (note, *notes), margin)


def model_answers(
    schema: Schema, term: Term, values: Floats, level: float, notes: Iterable[str], margin: Floats | float = np.nan
) -> Answers:
    """The answers of a term from a model, each off by at most a margin where there is one."""
    groups, said = term_groups(schema, term)
    values = np.ravel(values)
    kind = ErrorKind.NONE if np.isnan(margin).all() else ErrorKind.BOUND
    intervals = FixedIntervals(values - margin, values + margin, level)
    count = spare("count", [group.name for group in groups])
    value = Quantity(count, values, np.full(values.shape, np.nan), kind, intervals)
    return Answers(groups=groups, quantities=(value,), level=level, notes=(*said, *notes))
