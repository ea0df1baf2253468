"""How good a release is in one number: the share of the rows whose random sample would be about as accurate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.arrays import Floats
from hush.domain import Clique, clique_batches
from hush.evaluation.resampling import Resampling
from hush.inference.nonnegative_tables import nonnegative_tables
from hush.release.error_bounds import NO_INFORMATION
from hush.report.level_groups import LEVEL, cell_errors
from hush.report.precision import LARGEST_TABLE, LOOKED_AT, spread
from hush.text_table import counted

if TYPE_CHECKING:
    from hush.release.release import Release

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
MOST_BOUNDED = 2000
BATCH_CELLS = 2**20  # of tables computed at once
DIGITS = 2.0**11  # of counts; the time depends on the number of distinct ones
LEAST_SHARE = 1e-4  # smaller ones are not shown
TELLING = 0.02  # a smaller bound on the share says more about the bounds than about the release
CLEAR = 2.0  # standard errors between the total and zero, for shares of it to mean anything
BOUNDED = (
    "How good is it? Averaged over its tables, the model of this release is at least as accurate as a random sample of "
    "{size} would be. That is a bound and holds with {level:.0f} %; the model is likely to be better. "
)
EXPECTED = (
    "How good is it? Averaged over its tables, the numbers of this release are about as accurate as those from a "
    "random sample of {size} would be. "
)
WHOLE = (
    "How good is it? Averaged over its tables, {what} more accurate than a random sample with as many rows as the "
    "table itself, drawn with replacement, would be. "
)
WHOLE_BOUND = "That is a bound and holds with {level:.0f} %. "
STANDS_IN_MODEL = "How far off samples would be is estimated from the release's model, not from the true tables."
STANDS_IN_TABLES = "How far off samples would be is estimated from the release's numbers, not from the true ones."
ROWS = " Rows drawn from the model add their own error."
UNBOUNDED = " ({tables} without a bound below 200 % count as if the model said nothing of them.)"
NOTHING = (
    "How good is it? The release alone cannot tell: the proven bounds are too wide. They allow it to be {least}, and "
    "it may be far better. Whoever has the rows can measure it with `hush evaluate`, for internal use."
)
LEAST = "as little accurate as a random sample of {size}"
LEAST_OF_ALL = "less accurate than even a small sample of the rows"
NOTHING_EXPECTED = "How good is it? The noise is so large that even a small sample of the rows would say more."
SOME = " (To keep the page quick, {looked_at} of {tables} were looked at, spread evenly, and none above {cells} cells.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The share of the rows whose sample has the error of the release; a lower bound if `bounded`."""

    fraction: float
    bounded: bool
    looked_at: int
    tables: int
    unbounded: int = 0

    @property
    def text(self) -> str:
        """The share for a headline, rounded down if it is a bound.

        >>> Quality(fraction=0.1279, bounded=True, looked_at=3, tables=3).text
        '≥ 12 %'
        """
        if not self.known:
            return "not known" if self.bounded else "≈ 0 %"
        if self.fraction >= 1:
            return "≥ 100 %"
        return f"{'≥' if self.bounded else '≈'} {_percent(self.fraction, down=self.bounded)} %"

    @property
    def known(self) -> bool:
        """Whether the share is large enough to state."""
        return self.fraction >= (TELLING if self.bounded else LEAST_SHARE)

    @property
    def sentence(self) -> str:
        """What it means, in words without statistics."""
        cells, tables = f"{LARGEST_TABLE:,}", counted(self.tables, "table")
        some = SOME.format(looked_at=f"{self.looked_at:,}", tables=tables, cells=cells)
        tail = some if self.looked_at < self.tables else ""
        if self.unbounded:
            tail += UNBOUNDED.format(tables=counted(self.unbounded, "table"))
        sizeable = self.fraction >= LEAST_SHARE
        size = f"{_percent(self.fraction, down=self.bounded)} % of the rows" if sizeable else ""
        if not self.known:
            least = LEAST.format(size=size) if sizeable else LEAST_OF_ALL
            return (NOTHING.format(least=least) if self.bounded else NOTHING_EXPECTED) + tail
        return self._claim(size) + (STANDS_IN_MODEL + ROWS if self.bounded else STANDS_IN_TABLES) + tail

    def _claim(self, size: str) -> str:
        if self.fraction < 1:
            return (BOUNDED if self.bounded else EXPECTED).format(size=size, level=100 * LEVEL)
        if not self.bounded:
            return WHOLE.format(what="the numbers of this release are")
        return WHOLE.format(what="the model of this release is") + WHOLE_BOUND.format(level=100 * LEVEL)


def quality(release: Release, progress: Callable[[float], None] | None = None) -> Quality | None:
    """The equivalent sample of a release; None if its errors are unknown. `progress` is called with the fraction done.

    For an adaptive release: the K/N at which the expected error of samples is the mean of the bounds, which hold
    together; a table without a bound counts as having no cell in common with the truth. For any other: the K/N at which
    it is the expected error of the release, sqrt(2/pi) sum of standard errors. The tables of the model, or the nearest
    non-negative ones, stand in for the true tables.

    Reference: [AIM, App. C].
    Privacy: post-processing of released values.
    """
    different = list(dict.fromkeys(term.clique for term in release.workload if term.plain and term.clique))
    fit = [clique for clique in different if release.domain.size(clique) <= LARGEST_TABLE]
    if release.bounded:
        return _bounded(release, fit, len(different), progress or (lambda _: None))
    return _expected(release, fit, len(different))


def _bounded(release: Release, cliques: list[Clique], tables: int, progress: Callable[[float], None]) -> Quality | None:
    chosen = [cliques[i] for i in spread(len(cliques), MOST_BOUNDED)]
    if not chosen:
        return None
    bounds = release.bounds.all(chosen, level=LEVEL, simultaneous=True)
    model = release.model()
    sampled = Resampling(model.total)
    for batch in clique_batches(release.domain, chosen, BATCH_CELLS):
        for counts in model.tables(batch).values():
            sampled.add(np.clip(_short(counts), 0.0, model.total))
        progress(sampled.tables / len(chosen))
    shares = [bound.share if math.isfinite(bound.share) else NO_INFORMATION for bound in bounds]
    return Quality(
        fraction=sampled.fraction(float(np.mean(shares))),
        bounded=True,
        looked_at=len(bounds),
        tables=tables,
        unbounded=sum(not math.isfinite(bound.share) for bound in bounds),
    )


def _expected(release: Release, cliques: list[Clique], tables: int) -> Quality | None:
    estimates = release.estimates
    if not estimates.covers(()):
        return None
    total, error = float(estimates.counts(())), float(cell_errors(estimates, ()))
    if not total > CLEAR * error:
        return None
    sampled, errors = Resampling(total), []
    covered = [clique for clique in cliques if estimates.covers(clique)]
    for clique in (covered[i] for i in spread(len(covered), LOOKED_AT)):
        error_sum = float(cell_errors(estimates, clique).sum())
        if math.isfinite(error_sum):
            counts = estimates.counts(clique)
            near = nonnegative_tables(estimates.domain, {clique: counts}, total=total).value
            sampled.add(np.clip(next(iter(near.values())), 0.0, total))
            errors.append(MEAN_ABSOLUTE * error_sum / total)
    if not errors:
        return None
    fraction = sampled.fraction(float(np.mean(errors)))
    return Quality(fraction=fraction, bounded=False, looked_at=len(errors), tables=tables)


def _short(counts: Floats) -> Floats:
    """Counts rounded to eleven binary digits, so that few are distinct; changes the error of a sample by 2^-12."""
    mantissas, powers = np.frexp(counts)
    return np.ldexp(np.rint(mantissas * DIGITS) / DIGITS, powers)


def _percent(share: float, *, down: bool) -> str:
    """A share as a percentage of two digits."""
    percent = 100 * share
    digits = max(1 - math.floor(math.log10(percent)), 0)
    step = 10.0**-digits
    return f"{math.floor(percent / step + 1e-9) * step:.{digits}f}" if down else f"{percent:.{digits}f}"
