"""Estimators: they learn, state epsilon, behave as scikit-learn's do, charge a ledger, and refuse bad input unpaid."""

import math
import sys
import types
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import hush
from hush.core.errors import BudgetError, DataError, SearchError, SizeError
from hush.privacy.conversions import gaussian_epsilon
from hush.privacy.ledger.ledger_view import ledger_tables
from hush.training import (
    OutputPerturbedRegression,
    PrivateLinearSVM,
    PrivateLogisticRegression,
    PrivateMLP,
    output_epsilon,
    private_estimators,
    training_epsilon,
)


def people(count: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    features = random.normal(size=(count, 4))
    labels = np.where(features[:, 0] - features[:, 1] + 0.3 * random.normal(size=count) > 0, "yes", "no")
    return features, labels


KINDS = [
    PrivateLogisticRegression(learning_rate=0.5, seed=1),
    PrivateLogisticRegression(learning_rate=0.05, optimizer="adam", sampling="poisson", seed=1),
    PrivateLinearSVM(learning_rate=0.5, seed=1),
    PrivateMLP(hidden=(8,), learning_rate=0.5, epochs=20, seed=1),
    OutputPerturbedRegression(regularization=1e-2, noise=0.05, seed=1),
]


@pytest.mark.parametrize("model", KINDS, ids=lambda model: type(model).__name__)
def test_models_learn_and_a_seed_repeats_them(model) -> None:
    features, labels = people()
    twin = type(model)(**model.get_params())
    assert model.fit(features, labels) is model
    assert model.score(features, labels) > 0.85
    assert set(model.predict(features)) == {"yes", "no"}
    assert (twin.fit(features, labels).predict(features) == model.predict(features)).all()
    other = type(model)(**model.get_params() | {"seed": None}).fit(features, labels)
    assert (other.decision_function(features) != model.decision_function(features)).any()


def numbers_of(model) -> np.ndarray:
    """Every number of a trained model."""
    parts = model.network_.layers if isinstance(model, PrivateMLP) else [model.coef_, getattr(model, "intercept_", 0.0)]
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.mark.parametrize("model", KINDS, ids=lambda model: type(model).__name__)
def test_rows_of_any_finite_numbers_leave_models_finite_without_a_word(model) -> None:
    """Ten rows of 60 are hostile, so every lot has some; large steps make the weights large enough to overflow."""
    features, labels = people(60)
    twin = type(model)(**model.get_params())
    if not isinstance(model, OutputPerturbedRegression):
        twin.set_params(epochs=3, lot=20, learning_rate=2.0)
    signs = np.where(np.random.default_rng(3).random((10, 4)) < 0.5, -1.0, 1.0)
    with np.errstate(all="raise"):
        for size in (np.finfo(float).max, 1.7e308, 1e155, 1e100, 1e-308, 5e-324, -0.0):
            changed = np.vstack([size * signs, features[10:]])
            assert np.isfinite(numbers_of(twin.fit(changed, labels))).all()


def test_epsilon_is_that_of_the_accountant_and_of_nothing_else() -> None:
    features, labels = people(200)
    stated = training_epsilon(rows=200, lot=20, epochs=3, noise=1.2)
    for change in ({}, {"clip": 3.0}, {"learning_rate": 0.9}, {"optimizer": "adam"}, {"seed": 5}):
        model = PrivateLogisticRegression(**{"epochs": 3, "lot": 20, "noise": 1.2} | change).fit(features, labels)
        assert model.epsilon_ == stated
    assert PrivateMLP(hidden=(3,), epochs=3, lot=20, noise=1.2).fit(features, labels).epsilon_ == stated
    output = OutputPerturbedRegression(regularization=0.1, noise=2.0).fit(features, labels)
    assert output.epsilon_ == output_epsilon(rows=200, regularization=0.1, noise=2.0)


def test_more_noise_forgets_what_less_noise_learns() -> None:
    features, labels = people()
    score = [
        np.mean(
            [
                PrivateLogisticRegression(noise=z, learning_rate=0.5, seed=s)
                .fit(features, labels)
                .score(features, labels)
                for s in range(5)
            ]
        )
        for z in (0.5, 60.0)
    ]
    assert score[0] > score[1] + 0.1


def test_output_perturbation_adds_its_noise_to_the_weights() -> None:
    """4,000 columns that are all zero have weights of noise alone; their deviation is known to 1.1 %."""
    features = np.zeros((20, 4000))
    found = OutputPerturbedRegression(noise=0.7, seed=2).fit(features, np.arange(20) % 2).coef_[0]
    assert found.std() == pytest.approx(0.7, rel=0.06)
    assert found.std() != pytest.approx(0.7 / 2, rel=0.06)


def test_output_perturbation_reads_rows_of_ones() -> None:
    labels = np.arange(400) % 2
    features = np.eye(2)[labels]  # rows of norm 1, which nothing shortens
    model = OutputPerturbedRegression(regularization=0.1, noise=1e-6, seed=1).fit(features, labels)
    assert model.score(features, labels) == 1.0


def test_a_long_row_of_many_small_numbers_moves_the_weights_by_less_than_the_sensitivity() -> None:
    """400 ones are a row of length 20: shortened by its largest number, it would move the weights by 2.5 times that."""
    others = np.zeros((49, 400))
    found = [
        OutputPerturbedRegression(regularization=1.0, noise=1e-12, seed=4)
        .fit(np.vstack([sign * np.ones((1, 400)), others]), np.arange(50) % 2)
        .coef_[0]
        for sign in (-1.0, 1.0)
    ]
    assert 0.1 * 4 / 50 < np.linalg.norm(found[0] - found[1]) <= 4 / 50


@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_one_row_moves_the_weights_by_less_than_the_sensitivity(gamma: float) -> None:
    features, labels = people(100)
    changed = features.copy()
    changed[3] = -9 * features[3]
    first, second = (
        OutputPerturbedRegression(regularization=gamma, noise=1e-12, seed=4).fit(x, y).coef_[0]
        for x, y in ((features, labels), (changed, labels))
    )
    assert 0 < np.linalg.norm(first - second) <= 4 / (gamma * 100)
    assert np.linalg.norm(first - second) > 0.05 * 4 / (gamma * 100)  # of the bound: a hundredth of it would be noticed


def test_parameters_are_read_and_set_as_scikit_learn_does() -> None:
    model = PrivateMLP(hidden=(3, 2), noise=2.0)
    assert model.get_params()["hidden"] == (3, 2)
    assert model.set_params(noise=3.0).noise == 3.0
    assert "noise=3.0" in repr(model)
    with pytest.raises(SearchError, match="PrivateMLP has no parameter 'pace'"):
        model.set_params(pace=1)


def test_scikit_learn_is_told_that_they_are_classifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = types.SimpleNamespace(**dict.fromkeys(("Tags", "TargetTags", "ClassifierTags"), dict))
    monkeypatch.setitem(sys.modules, "sklearn", types.SimpleNamespace(utils=stub))
    monkeypatch.setitem(sys.modules, "sklearn.utils", stub)
    for model in (PrivateLinearSVM(), PrivateMLP(), OutputPerturbedRegression()):
        tags = {"estimator_type": "classifier", "target_tags": {"required": True}, "classifier_tags": {}}
        assert model.__sklearn_tags__() == tags
        assert model._estimator_type == "classifier"


def test_scores_of_two_classes_are_one_number_of_which_the_sign_decides() -> None:
    features, labels = people(300)
    for model in (PrivateLinearSVM(seed=1), PrivateMLP(hidden=(4,), seed=1), OutputPerturbedRegression(seed=1)):
        scores = model.fit(features, labels).decision_function(features)
        assert scores.shape == (300,)
        assert (model.classes_[(scores > 0).astype(int)] == model.predict(features)).all()


def test_probabilities_add_up_to_one_and_agree_with_predictions() -> None:
    features, labels = people(300)
    for model in (PrivateLogisticRegression(seed=1), PrivateMLP(hidden=(4,), seed=1)):
        chances = model.fit(features, labels).predict_proba(features)
        assert chances.sum(axis=1) == pytest.approx(1)
        assert (model.classes_[chances.argmax(axis=1)] == model.predict(features)).all()


def test_networks_tell_several_classes_apart() -> None:
    random = np.random.default_rng(3)
    labels = random.integers(0, 3, 900)
    features = np.eye(3)[labels] + 0.2 * random.normal(size=(900, 3))
    model = PrivateMLP(hidden=(), epochs=20, learning_rate=1.0, lot=90, noise=0.5, seed=1).fit(features, labels)
    assert model.score(features, labels) > 0.9


def test_a_ledger_without_delta_is_charged_for_every_step_without_amplification(tmp_path: Path) -> None:
    features, labels = people(200)
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=20.0))
    model = PrivateLogisticRegression(epochs=2, lot=50, noise=1.0, ledger=ledger).fit(features, labels)
    assert ledger.total.rho == Fraction(8, 2)
    assert model.epsilon_ <= gaussian_epsilon(math.sqrt(8), 1e-5) * 1.01
    assert "floating-point noise" in ledger.entries()[-1].note
    assert "replace one unit" in str(ledger.entries()[-1])
    OutputPerturbedRegression(regularization=1.0, noise=1.0, ledger=ledger).fit(features, labels)
    assert ledger.total.rho == 4 + Fraction(4, 200) ** 2 / 2


def test_a_ledger_with_delta_is_charged_what_the_accountant_says(tmp_path: Path) -> None:
    features, labels = people(600)
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=9.0, delta=1e-4))
    options = {"epochs": 10, "lot": 20, "noise": 2.0, "learning_rate": 0.5, "ledger": ledger}
    model = PrivateLogisticRegression(**options).fit(features, labels)
    event = ledger.entries()[-1].event
    assert model.epsilon_ < event.epsilon < model.epsilon_ * (1 + 1e-6)
    assert event.delta == Fraction(1e-5)
    assert ledger.total.rho < Fraction(300, 8) / 5  # what steps cost without sampling, by far
    assert "private training, epsilon" in ledger_tables(ledger, None, entries=True)[1].text(width=200)
    with pytest.raises(BudgetError, match="left"):
        PrivateMLP(**options | {"noise": 1.0}).fit(features, labels)
    assert len(ledger.entries()) == 2  # the cap and the first training


def test_steps_are_charged_where_lots_are_everybody_or_delta_comes_too_late(tmp_path: Path) -> None:
    features, labels = people(100)
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(epsilon=50.0, delta=1e-4))
    for lot, steps in ((100, 1), (50, 2)):  # without sampling zCDP is closer; after it, no delta may come
        PrivateLogisticRegression(epochs=1, lot=lot, noise=20.0, ledger=ledger).fit(features, labels)
        event = ledger.entries()[-1].event
        assert event.cost.rho == Fraction(steps, 2 * 20**2)


def test_a_refused_charge_trains_nothing_and_bad_input_charges_nothing(tmp_path: Path) -> None:
    features, labels = people(200)
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=1.0))
    model = PrivateLogisticRegression(lot=50, noise=1.0, epochs=2, ledger=ledger)
    with pytest.raises(BudgetError):
        model.fit(features, labels)
    assert not hasattr(model, "coef_")
    with pytest.raises(DataError, match="not trained"):
        model.predict(features)
    for bad in (
        {"features": features[:, :0]},
        {"labels": labels[:-1]},
        {"labels": ["yes"] * 200},
        {"labels": np.arange(200)},
        {"labels": np.where(labels, 1.0, math.nan)},
        {"labels": [None if label else 1 for label in labels]},
    ):
        with pytest.raises(DataError):
            PrivateLogisticRegression(noise=50.0, epochs=1, lot=100, ledger=ledger).fit(
                **{"features": features, "labels": labels} | bad
            )
    for change in (
        {"clip": 0},
        {"clip": 1e-31},
        {"clip": 1e31},
        {"learning_rate": -1},
        {"optimizer": "sgdm"},
        {"noise": 0.0},
        {"lot": 900},
        {"seed": -1},
        {"seed": "a"},
    ):
        with pytest.raises(SearchError):
            PrivateLogisticRegression(**{"lot": 50, "noise": 50.0, "ledger": ledger} | change).fit(features, labels)
    for hidden, error in (((10**7, 10**7), SizeError), (5, SearchError), ((0,), SearchError)):
        with pytest.raises(error):
            PrivateMLP(hidden=hidden, lot=50, noise=50.0, ledger=ledger).fit(features, labels)
    for change in ({"delta": 0}, {"noise": 0}, {"seed": 1.5}):
        with pytest.raises(SearchError):
            OutputPerturbedRegression(**{"noise": 90.0, "ledger": ledger} | change).fit(features, labels)
    assert ledger.total.rho == 0


class Interrupted:
    """A source of noise that is interrupted as soon as training draws from it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise KeyboardInterrupt


def unlucky(model, ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a fit that is interrupted before its first step."""
    features, labels = people(200)
    monkeypatch.setattr(private_estimators, "seeded", lambda seed: Interrupted())
    type(model)(**model.get_params() | {"ledger": ledger}).fit(features, labels)


@pytest.mark.parametrize("model", KINDS, ids=lambda model: type(model).__name__)
def test_a_fit_is_charged_before_it_trains(model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rich = hush.Ledger.create(tmp_path / "rich.db", hush.Budget(rho=10_000.0))
    with pytest.raises(KeyboardInterrupt):
        unlucky(model, rich, monkeypatch)
    assert rich.total.rho > 0  # what was paid for stays paid
    poor = hush.Ledger.create(tmp_path / "poor.db", hush.Budget(rho=1e-6))
    with pytest.raises(BudgetError):  # and no KeyboardInterrupt: training never began
        unlucky(model, poor, monkeypatch)
    assert poor.total.rho == 0


def test_features_too_large_to_be_made_sparse_are_refused_by_their_shape_unpaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hush.core.memory.available_memory", lambda: 2**26)
    features, labels = np.zeros((2_000, 1_000)), np.arange(2_000) % 2  # 96 MB as entries, none of which it has
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=10_000.0))
    for kind in (PrivateLogisticRegression, PrivateLinearSVM, OutputPerturbedRegression):
        with pytest.raises(SizeError, match="2,000 rows and 1,000 columns"):
            kind(ledger=ledger).fit(features, labels)
    assert ledger.total.rho == 0
