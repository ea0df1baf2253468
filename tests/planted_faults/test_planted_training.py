"""Planted faults of private training and stand-ins: mistakes made one at a time; the suite must catch each."""

import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hush.cli import stand_in_table
from hush.pareto import OutputPerturbedRegression, PrivateLogisticRegression, PrivateMLP
from hush.training import private_estimators, private_training
from hush.training.private_training import Network
from planting import Bug, Patch

TRAINING, ESTIMATORS = "training/test_private_training.py::", "training/test_private_estimators.py::"


def rewrite(patch: Patch, owner: Any, name: str, right: str, wrong: str) -> None:
    """Put a function in place whose source has one text instead of another; kernels are run by Python itself."""
    function = inspect.unwrap(getattr(owner, name))
    source = textwrap.dedent(inspect.getsource(function))
    source = source[source.index("def ") :]
    assert source.count(right) == 1, f"{right!r} occurs {source.count(right)} times in {name}"
    made: dict[str, Any] = {}
    exec(source.replace(right, wrong), function.__globals__, made)
    patch.setattr(owner, name, made[name])


def overflow_in_linear_models(patch: Patch) -> None:
    """A gradient that is not a number is added as it is."""
    rewrite(patch, private_training, "private_steps", "elif not norm <= clip:", "elif False:")


def overflow_in_networks(patch: Patch) -> None:
    """Rows whose layers overflow are multiplied by a factor of 0."""
    rewrite(patch, Network, "clipped_sums", "(inside := largest <= LARGEST_LAYER_VALUE).all()", "True")


def small_errors_of_large_layers(patch: Patch) -> None:
    """Layers as large as floats may be: squares of small errors underflow, and the product is not seen to be long."""
    rewrite(patch, Network, "clipped_sums", "largest <= LARGEST_LAYER_VALUE", "largest < np.inf")


def clipped_by_the_largest_number(patch: Patch) -> None:
    """Gradients of networks shortened by their largest number, not by their length."""
    right = "(d**2).sum(axis=1) * ((a**2).sum(axis=1) + 1)"
    rewrite(patch, Network, "clipped_sums", right, "(d**2).max(axis=1) * np.maximum((a**2).max(axis=1), 1)")


def shortened_by_the_largest_number(patch: Patch) -> None:
    """Rows shortened by their largest number, not by their length."""
    rewrite(patch, private_training, "shortened", "np.linalg.norm(features, axis=1)", "np.abs(features).max(axis=1)")


def charged_afterwards(patch: Patch) -> None:
    """The ledger hears of a training when it is over."""
    charge_first = private_estimators.charge_first
    for kind in (private_estimators.PrivateLinear, PrivateMLP, OutputPerturbedRegression):

        def wrong(self: Any, features: Any, labels: Any, fit: Any = kind.fit) -> Any:
            late: list[Any] = []
            with patch.context() as within:
                within.setattr(private_estimators, "charge_first", lambda *charge: late.append(charge))
                fit(self, features, labels)
            for charge in late:
                charge_first(*charge)
            return self

        patch.setattr(kind, "fit", wrong)


def links_not_followed(patch: Patch) -> None:
    """A ledger is looked for beside the name that was given alone."""
    patch.setattr(stand_in_table, "_names", lambda path: [path])


MODELS = (PrivateLogisticRegression(lot=50), PrivateMLP(hidden=(3,), lot=50), OutputPerturbedRegression())
FAULTS = {
    "overflow in linear models": Bug(
        overflow_in_linear_models,
        TRAINING + "test_no_row_adds_more_than_the_clip_to_a_linear_sum",
        {"hinge": False, "weights": "trained"},
    ),
    "overflow in linear models, seen from outside": Bug(
        overflow_in_linear_models,
        ESTIMATORS + "test_rows_of_any_finite_numbers_leave_models_finite_without_a_word",
        {"model": PrivateLogisticRegression(optimizer="adam", seed=1)},
    ),
    "overflow in networks": Bug(
        overflow_in_networks,
        TRAINING + "test_no_row_adds_more_than_the_clip_to_the_sum_of_a_network",
        {"hidden": (6,), "weights": "trained"},
    ),
    "overflow in networks, seen from outside": Bug(
        overflow_in_networks,
        ESTIMATORS + "test_rows_of_any_finite_numbers_leave_models_finite_without_a_word",
        {"model": PrivateMLP(hidden=(8,), seed=1)},
    ),
    "small errors of large layers": Bug(
        small_errors_of_large_layers,
        TRAINING + "test_small_errors_of_large_layers_are_clipped",
    ),
    "gradients clipped by their largest number": Bug(
        clipped_by_the_largest_number,
        TRAINING + "test_no_row_adds_more_than_the_clip_to_the_sum_of_a_network",
        {"hidden": (6,), "weights": "trained"},
    ),
    "rows shortened by their largest number": Bug(
        shortened_by_the_largest_number,
        ESTIMATORS + "test_a_long_row_of_many_small_numbers_moves_the_weights_by_less_than_the_sensitivity",
    ),
    "links not followed": Bug(
        links_not_followed, "cli/test_stand_in_table.py::test_no_name_of_a_file_hides_its_ledger"
    ),
    **{
        f"{type(model).__name__} charged afterwards": Bug(
            charged_afterwards, ESTIMATORS + "test_a_fit_is_charged_before_it_trains", {"model": model}
        )
        for model in MODELS
    },
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    FAULTS[name].check(monkeypatch, tmp_path)
