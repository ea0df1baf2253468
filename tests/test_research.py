"""The public door for designers of strategies: what its functions take, and what they refuse."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import hush
from hush import research
from hush.core.errors import WorkloadError
from hush.linops import Haar, Prefix

RANGES = hush.Workload.product(hush.Domain({"x": 8}), {"x": hush.queries.ranges})
GRAM = research.workload_gram(RANGES)


def test_arrays_lists_operators_and_workloads_mean_the_same() -> None:
    known = research.total_error(GRAM, Haar(8))
    assert research.total_error(GRAM, Haar(8).dense()) == pytest.approx(known)
    assert research.total_error(RANGES, Haar(8).dense().tolist(), "gaussian") == pytest.approx(known)
    assert research.svd_bound(Prefix(8)) == pytest.approx(research.svd_bound(Prefix(8).gram_dense()))
    assert research.svd_bound_of_rows(Prefix(8)) == pytest.approx(research.svd_bound(Prefix(8)))
    assert research.supports(np.tri(4), np.eye(4))
    assert research.same_profile(np.eye(3), 2 * np.eye(3))
    assert research.contains(RANGES, GRAM)
    designed = research.weighted_design(RANGES, Haar(8), noise="laplace").value
    assert research.total_error(RANGES, designed, "laplace") <= research.total_error(RANGES, Haar(8), "laplace")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: research.eigen_design("ranges"), "gram='ranges': expected a Gram matrix"),
        (lambda: research.svd_bound([[1, 2], [3]]), "gram=.*: expected a Gram matrix"),
        (lambda: research.total_error(GRAM, "haar"), "strategy='haar': expected an array"),
        (lambda: research.query_errors(np.eye(8), Haar(8), "laplac"), "noise='laplac'.*did you mean 'laplace'"),
        (lambda: research.same_errors(Haar(8), Haar(8), noise="normal"), "one of 'gaussian', 'laplace'"),
        (lambda: research.workload_gram("<=2-way"), "workload='<=2-way': expected a workload"),
        (lambda: research.data_cubes(GRAM), "expected a workload"),
        (lambda: research.optimal_weighting(np.eye(2), "ones"), "costs='ones': expected an array"),
        (lambda: research.fourier_basis(-3), "expected the number of levels"),
        (lambda: research.fourier(GRAM, 3, 3), "on 8 cells: expected as many"),
    ],
)
def test_wrong_arguments_are_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        call()


def test_names_and_signatures_stay_those_of_the_functions() -> None:
    assert research.total_error.__name__ == "total_error"
    assert list(inspect.signature(research.total_error).parameters) == ["gram", "strategy", "noise"]
    assert "summed variance" in (research.total_error.__doc__ or "")
