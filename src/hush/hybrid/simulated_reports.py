"""Simulated reports of millions of devices, drawn all at once from their law with a seeded generator.

For planning and tests: reports from a seeded generator protect nobody. A real device draws its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.core.arrays import Integers
from hush.hybrid.client.choice_laws import UNIT, KaryResponse, RecordResponse, UnaryResponse
from hush.hybrid.client.number_laws import DuchiResponse, GaussianResponse, LaplaceResponse, PiecewiseResponse
from hush.hybrid.client.question import Question
from hush.hybrid.collection import ReportCounts, count_reports


def generator_of(seed: int) -> np.random.Generator:
    """A generator for simulated people and reports."""
    return np.random.Generator(np.random.PCG64(seed))


def simulate_reports(question: Question, values: Any, generator: np.random.Generator) -> ReportCounts:
    """The counts of the reports of devices that hold these values.

    Values are indices of options or centres, rows of a query's and a URL's index, or numbers within the bounds.
    """
    law = question.law
    values = np.asarray(values)
    if isinstance(law, UnaryResponse):
        # bits are independent, so the counts of those of holders and of others are binomial
        holders = np.bincount(values, minlength=law.size)
        bits = generator.binomial(holders, 0.5) + generator.binomial(len(values) - holders, law.rare / UNIT)
        return ReportCounts(question=question, total=len(values), counts=bits.astype(np.int64))
    if isinstance(law, KaryResponse):
        return count_reports(question, kary_reports(law, values, generator))
    if isinstance(law, RecordResponse):
        return count_reports(question, record_reports(law, values, generator))
    return count_reports(question, number_reports(question, values, generator))


def kary_reports(law: KaryResponse, values: Integers, generator: np.random.Generator) -> Integers:
    """Randomised options."""
    if law.size == 1:
        return np.zeros(len(values), dtype=np.int64)
    kept = generator.random(len(values)) < float(law.probability(0, 0))
    others = generator.integers(0, law.size - 1, len(values))
    return np.where(kept, values, others + (others >= values))


def unary_reports(law: UnaryResponse, values: Integers, generator: np.random.Generator) -> Any:
    """Randomised bits, packed as devices pack them."""
    bits = generator.random((len(values), law.size), dtype=np.float32) < law.rare / UNIT
    bits[np.arange(len(values)), values] = generator.random(len(values)) < 0.5
    return np.packbits(bits, axis=1, bitorder="little")


def record_reports(law: RecordResponse, values: Integers, generator: np.random.Generator) -> Integers:
    """Randomised records: a query, then its URL if the true query was reported, else any URL."""
    sizes = np.array(law.sizes)
    queries = kary_reports(law.query, values[:, 0], generator)
    kept_query = queries == values[:, 0]
    keep = np.array([float(urls.probability(0, 0)) for urls in law.urls])
    kept_url = generator.random(len(values)) < keep[values[:, 0]]
    others = generator.integers(0, np.maximum(sizes[values[:, 0]] - 1, 1))
    among = np.where(kept_url, values[:, 1], others + (others >= values[:, 1]))
    anywhere = generator.integers(0, sizes[queries])
    return np.column_stack([queries, np.where(kept_query, among, anywhere)])


def number_reports(question: Question, values: Any, generator: np.random.Generator) -> Integers:
    """Randomised numbers, as the whole numbers that devices report."""
    from fractions import Fraction

    law, body = question.law, question.body
    lower, upper = float(Fraction(body["lower"])), float(Fraction(body["upper"]))
    position = np.clip((np.asarray(values, dtype=np.float64) - lower) / (upper - lower), 0.0, 1.0) * body["steps"]
    steps = np.floor(position).astype(np.int64)
    steps += generator.random(len(steps)) < position - steps
    if isinstance(law, LaplaceResponse):
        stop = 1 - law.decay / UNIT
        noise = generator.geometric(stop, len(steps)) - generator.geometric(stop, len(steps))
        return np.asarray(np.clip(steps + noise, -law.reach, law.steps + law.reach))
    if isinstance(law, GaussianResponse):
        below = np.array([float(start / law.starts[-1]) for start in law.starts[1:]])
        return np.asarray(steps + np.searchsorted(below, generator.random(len(steps)), side="right") - law.reach)
    if isinstance(law, DuchiResponse):
        line = float(law.intercept) + float(law.slope) * steps
        return np.asarray(generator.random(len(steps)) < line, dtype=np.int64)
    if not isinstance(law, PiecewiseResponse):
        raise TypeError(f"{question!r} is not about a number")
    inside = generator.random(len(steps)) < law.width * law.keep / law.total
    near = steps + generator.integers(0, law.width, len(steps))
    far = generator.integers(0, law.steps, len(steps))
    return np.where(inside, near, far + np.where(far >= steps, law.width, 0))
