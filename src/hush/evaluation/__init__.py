"""How close synthetic data is to the real data, and answers to future questions; every figure is private.

>>> import hush
>>> schema = hush.datasets.people_schema()
>>> real, other = (hush.read(hush.datasets.people(500, seed=seed), schema) for seed in (1, 2))
>>> hush.evaluation.compare(real, other).error < 0.5
True
"""

from hush.evaluation.column_chances import ColumnChances
from hush.evaluation.comparison import STAMP, Comparison, NumberComparison, Pair, compare, compare_numbers
from hush.evaluation.future_error import FutureError, FutureStudy, drawn_thresholds, future_error, future_study, padded
from hush.evaluation.resampling import equivalent_fraction, expected_error
from hush.evaluation.workload_error import TermErrors, largest_error, term_errors, workload_error

__all__ = [
    "STAMP",
    "ColumnChances",
    "Comparison",
    "FutureError",
    "FutureStudy",
    "NumberComparison",
    "Pair",
    "TermErrors",
    "compare",
    "compare_numbers",
    "drawn_thresholds",
    "equivalent_fraction",
    "expected_error",
    "future_error",
    "future_study",
    "largest_error",
    "padded",
    "term_errors",
    "workload_error",
]
