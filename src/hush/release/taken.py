"""Taken: one noisy table as it left the gate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hush.domain import Clique
from hush.graphical.measurement import Measurement
from hush.merging import Merging
from hush.privacy.envelope import Integers
from hush.privacy.noise import DiscreteGaussian

LEAST_STDDEV = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A table of whole numbers with discrete Gaussian noise of this variance parameter; public.

    With `merging`, rare levels were counted together, and the table is as much smaller.
    """

    clique: Clique
    variance: Fraction
    values: Integers
    merging: Merging | None = None

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise of every number."""
        return DiscreteGaussian(self.variance).stddev

    def measurement(self) -> Measurement:
        """The table as evidence for a model; its noise counts as no less than a tenth of a row.

        Noise in whole steps vanishes fast where it is small, and weights that differ by its square cannot be fitted.
        """
        stddev = max(self.stddev, LEAST_STDDEV)
        if self.merging is None:
            return Measurement(self.clique, self.values, stddev)
        blocks = self.merging.blocks(self.clique, self.values.shape)
        return Measurement(self.clique, self.values.ravel(), stddev, query=blocks)
