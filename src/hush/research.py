"""For people who design strategies: lower bounds, designs, exact errors and the algebra of workloads, as matrices.

The losses that a model can be fitted by are here as well. Nothing reads data or adds noise. A workload is its Gram
matrix W^T W (`workload_gram`) or an operator of `hush.linops`; a strategy is an operator. Errors are per unit of P, the
variance of the noise at sensitivity one.

>>> import hush
>>> from hush.linops import Haar
>>> gram = workload_gram(hush.Workload.product(hush.Domain({"x": 64}), {"x": hush.queries.ranges}))
>>> design = eigen_design(gram).checked()
>>> round(svd_bound(gram)), round(total_error(gram, design)), round(total_error(gram, Haar(64)))
(10787, 11224, 15191)
"""

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
