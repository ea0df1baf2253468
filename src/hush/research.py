"""For people who design strategies: lower bounds, designs, exact errors and the algebra of workloads, as matrices.

The losses that a model can be fitted by are here as well. Nothing reads data or adds noise. A workload is its Gram
matrix W^T W (`workload_gram`) or an operator of `hush.linops`; a strategy is an operator. Arrays and lists of rows are
taken for operators, and operators and workloads for their Gram matrices. Errors are per unit of P, the variance of the
noise at sensitivity one.

>>> import hush
>>> from hush.linops import Haar
>>> gram = workload_gram(hush.Workload.product(hush.Domain({"x": 64}), {"x": hush.queries.ranges}))
>>> design = eigen_design(gram).checked()
>>> round(svd_bound(gram)), round(total_error(gram, design)), round(total_error(gram, Haar(64)))
(10787, 11224, 15191)
"""

from collections.abc import Callable
from functools import wraps
from inspect import isfunction, signature
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError, shown
from hush.core.validation import check_choice
from hush.linops import Dense, LinearOperator
from hush.models.graphical.marginal_loss import CustomLoss, MarginalLoss
from hush.optimizers.data_cubes import DataCubes, data_cubes
from hush.optimizers.eigen_design import (
    Weighting,
    augmented,
    completed,
    design_costs,
    eigen_design,
    fourier,
    fourier_basis,
    l2_approximation,
    optimal_weighting,
    principal,
    relative_gram,
    separation,
    singular_value_approximation,
    weighted_design,
)
from hush.optimizers.explicit_strategy import (
    covariance,
    hb,
    largest_error,
    query_errors,
    short_wavelet,
    supports,
    total_error,
)
from hush.optimizers.max_error import least_max_error
from hush.optimizers.svd_bound import (
    looseness,
    projected_svd_bound,
    simplified_svd_bound,
    svd_bound,
    svd_bound_of_rows,
    variable_agnostic_bound,
)
from hush.optimizers.workload_algebra import (
    MinimalWorkload,
    contains,
    minimised,
    same_errors,
    same_profile,
    workload_gram,
)
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind
from hush.workloads import Workload

__all__ = [
    "CustomLoss",
    "DataCubes",
    "MarginalLoss",
    "MinimalWorkload",
    "NoiseKind",
    "Weighting",
    "augmented",
    "completed",
    "contains",
    "covariance",
    "data_cubes",
    "design_costs",
    "eigen_design",
    "fourier",
    "fourier_basis",
    "gram_factor",
    "hb",
    "l2_approximation",
    "largest_error",
    "least_max_error",
    "looseness",
    "minimised",
    "optimal_gram",
    "optimal_weighting",
    "principal",
    "projected_svd_bound",
    "query_errors",
    "relative_gram",
    "same_errors",
    "same_profile",
    "separation",
    "short_wavelet",
    "simplified_svd_bound",
    "singular_value_approximation",
    "supports",
    "svd_bound",
    "svd_bound_of_rows",
    "total_error",
    "variable_agnostic_bound",
    "weighted_design",
    "workload_gram",
]
GRAM_MATRICES = ("gram", "other")  # the names of arguments that are W^T W, not W


def _lenient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for arrays, lists, operators and workloads alike; it refuses anything else by name."""
    parameters = signature(function)
    readers = {name: _READERS.get(str(each.annotation)) for name, each in parameters.parameters.items()}

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = parameters.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if (read := readers[name]) is not None:
                bound.arguments[name] = read(name, value)
        return function(*bound.args, **bound.kwargs)

    return called


def _numbers(name: str, value: Any) -> Floats | None:
    if value is None:
        return None
    gram = name in GRAM_MATRICES
    if gram and isinstance(value, Workload):
        value = workload_gram(value)
    if isinstance(value, LinearOperator):
        value = value.gram_dense() if gram else value.dense()
    try:
        numbers = np.asarray(value)
    except ValueError:  # rows of several lengths
        numbers = np.zeros(())
    if numbers.ndim == 0 or numbers.dtype.kind not in "biuf":
        what = "a Gram matrix W^T W, a workload" if gram else "an array of numbers"
        raise WorkloadError(f"{name}={shown(value)}: expected {what} or an operator of hush.linops")
    return np.asarray(numbers, dtype=np.float64)


def _operator(name: str, value: Any) -> LinearOperator:
    return value if isinstance(value, LinearOperator) else Dense(_numbers(name, value))


def _noise(name: str, value: Any) -> NoiseKind:
    return NoiseKind(check_choice(WorkloadError, name, value, map(str, NoiseKind)))


def _workload(name: str, value: Any) -> Workload:
    if not isinstance(value, Workload):
        raise WorkloadError(f"{name}={shown(value)}: expected a workload, such as hush.Workload.kway(domain, 2)")
    return value


_READERS: dict[str, Callable[[str, Any], Any]] = {  # by the annotation of an argument
    "Floats": _numbers,
    "Floats | None": _numbers,
    "LinearOperator": _operator,
    "NoiseKind": _noise,
    "NoiseKind | str": _noise,
    "str | NoiseKind": _noise,
    "Workload": _workload,
}
for _name in __all__:
    if isfunction(globals()[_name]):
        globals()[_name] = _lenient(globals()[_name])
