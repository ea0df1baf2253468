"""Quality: how large a random sample of the rows would be about as accurate as the release, in one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.domain import Clique
from hush.evaluation.resampling import Resampling
from hush.inference.nonnegative import nonnegative_tables
from hush.release.measured import MeasuredRelease
from hush.report.labels import count
from hush.report.precision import LARGEST_TABLE, LOOKED_AT, spread
from hush.report.sums import LEVEL, cell_errors

if TYPE_CHECKING:
    from hush.release.release import Release

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
MOST_BOUNDED = 400
CLEAR = 2.0  # standard errors that the total must be above zero, for shares of it to mean anything
BOUNDED = (
    "How good is it? Averaged over its tables, the model of this release, and rows drawn from it, are at least as "
    "accurate as a random sample of {size} would be. That is a bound and holds with {level:.0f} %; "
    "the model itself is likely to be better."
)
EXPECTED = (
    "How good is it? Averaged over its tables, the numbers of this release are about as accurate as those from a "
    "random sample of {size} would be."
)
WHOLE = (
    "How good is it? Averaged over its tables, this release is more accurate than a random sample with as many rows as "
    "the table itself, drawn with replacement, would be."
)
NO_INFORMATION = 2.0  # the distance of tables that have no cell in common
UNBOUNDED = " ({tables} without a bound count as if the model said nothing of them.)"
NOTHING = (
    "How good is it? The bounds on the error of its tables are too wide to compare the release with even a small "
    "sample of the rows; the model itself may be better than they say."
)
NOTHING_EXPECTED = "How good is it? The noise is so large that even a small sample of the rows would say more."
SOME = " ({looked_at} of {tables} were looked at.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The share of the rows whose sample has the error of the release; a bound from below where `bounded`."""

    fraction: float
    bounded: bool
    looked_at: int
    tables: int
    unbounded: int = 0

    @property
    def text(self) -> str:
        """The share for a headline, rounded down where it is a bound.

        >>> Quality(fraction=0.1279, bounded=True, looked_at=3, tables=3).text
        '≥ 12 %'
        """
        if self.fraction >= 1 or not self.known:
            return "≥ 100 %" if self.known else "≈ 0 %"
        return f"{'≥' if self.bounded else '≈'} {_percent(self.fraction, down=self.bounded)} %"

    @property
    def known(self) -> bool:
        """Whether there is a share to speak of."""
        return self.fraction >= 1e-4

    @property
    def sentence(self) -> str:
        """What it means, for a reader who knows no statistics."""
        some = SOME.format(looked_at=self.looked_at, tables=count(self.tables, "table"))
        tail = some if self.looked_at < self.tables else ""
        if self.unbounded:
            tail += UNBOUNDED.format(tables=count(self.unbounded, "table"))
        if not self.known:
            return (NOTHING if self.bounded else NOTHING_EXPECTED) + tail
        if self.fraction >= 1:
            return WHOLE + tail
        size = f"{_percent(self.fraction, down=self.bounded)} % of the rows"
        return (BOUNDED if self.bounded else EXPECTED).format(size=size, level=100 * LEVEL) + tail


def quality(release: Release) -> Quality | None:
    """The equivalent sample of a release; None where nothing is known of its errors.

    Of an adaptive release: K/N at which the expected error of samples is the mean of the bounds, which hold together;
    a table without a bound counts as if it had no cell in common with the truth.
    Of any other: at which it is the expected error of the release, sqrt(2/pi) sum of standard errors. In the place of
    the true tables stand those of the model, or the nearest non-negative ones.

    Reference: [AIM, App. C].
    Privacy: post-processing of released values.
    """
    asked = [term.clique for term in release.workload if term.plain and term.clique]
    different = list(dict.fromkeys(asked))
    fit = [clique for clique in different if release.domain.size(clique) <= LARGEST_TABLE]
    if isinstance(release, MeasuredRelease):
        return _bounded(release, fit, len(different))
    return _expected(release, fit, len(different))


def _bounded(release: MeasuredRelease, cliques: list[Clique], tables: int) -> Quality | None:
    chosen = [cliques[place] for place in spread(len(cliques), MOST_BOUNDED)]
    if not chosen:
        return None
    found = release.bounds.all(chosen, level=LEVEL, simultaneous=True)
    model = release.model()
    sampled = Resampling(model.total)
    for one in found:
        sampled.add(np.clip(model.counts(one.clique), 0.0, model.total))
    shares = [one.share if math.isfinite(one.share) else NO_INFORMATION for one in found]
    return Quality(
        fraction=sampled.fraction(float(np.mean(shares))),
        bounded=True,
        looked_at=len(found),
        tables=tables,
        unbounded=sum(not math.isfinite(one.share) for one in found),
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
    for clique in (covered[place] for place in spread(len(covered), LOOKED_AT)):
        own = float(cell_errors(estimates, clique).sum())
        if math.isfinite(own):
            counts = estimates.counts(clique)
            near = nonnegative_tables(estimates.domain, {clique: counts}, total=total).value
            sampled.add(np.clip(next(iter(near.values())), 0.0, total))
            errors.append(MEAN_ABSOLUTE * own / total)
    if not errors:
        return None
    fraction = sampled.fraction(float(np.mean(errors)))
    return Quality(fraction=fraction, bounded=False, looked_at=len(errors), tables=tables)


def _percent(share: float, *, down: bool) -> str:
    """A share in two digits of percent."""
    percent = 100 * share
    digits = max(1 - math.floor(math.log10(percent)), 0)
    step = 10.0**-digits
    return f"{math.floor(percent / step) * step:.{digits}f}" if down else f"{percent:.{digits}f}"
