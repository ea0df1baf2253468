"""Private estimators: logistic regression, linear SVM and small networks with the interface of scikit-learn.

`fit(features, labels)` trains with noise, `predict` answers, and `epsilon_` is the cost of training at `delta`.
`get_params`, `set_params` and `sklearn.base.clone` work as usual; scikit-learn itself is not needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import BudgetError, DataError, SearchError, shown
from hush.core.memory import require_memory
from hush.core.unit import ROW
from hush.core.validation import check_choice, check_number, check_whole, is_whole
from hush.privacy.events import Event, GaussianEvent
from hush.privacy.ledger import Ledger, terms_of
from hush.privacy.sensitivity import Neighbours
from hush.training.private_training import (
    LEAST_CLIP,
    MOST_CLIP,
    SPARSE_BYTES,
    SparseRows,
    TrainingRule,
    checked_rows,
    network_bytes,
    softmax,
    train_linear,
    train_network,
    train_projected,
)
from hush.training.training_privacy import Sampling, output_epsilon, training_epsilon, training_events


class PrivateEstimator:
    """The base of all private estimators: parameters, labels, charges and scores.

    Privacy: (epsilon_, delta)-DP for rows under the relation of `sampling`, apart from floating-point noise; see
    `private_training`. Public are the numbers of rows and columns, the set of labels, and that no number is missing or
    infinite; `fit` checks this before the charge. With a `ledger`, `fit` then charges before it trains: (epsilon_,
    delta) if the ledger has room for that delta, else rho = steps / (2 z^2), where sampling saves nothing. After the
    charge nothing fails because of the content of rows.
    """

    epsilon_: float
    classes_: Any
    n_features_in_: int
    _estimator_type: ClassVar[str] = "classifier"  # for scikit-learn before 1.6

    def __sklearn_tags__(self) -> Any:
        """The tags that pipelines and searches of scikit-learn 1.6 or newer ask for."""
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier", target_tags=TargetTags(required=True), classifier_tags=ClassifierTags()
        )

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; unknown names are refused."""
        for name, value in params.items():
            if name not in self._names():
                raise SearchError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def decision_function(self, features: Any) -> Floats:
        """Scores; positive for the second of two classes."""
        raise NotImplementedError

    def predict(self, features: Any) -> Any:
        """The likeliest class of each row."""
        return self.classes_at(self.decision_function(features))

    def classes_at(self, scores: Floats) -> Any:
        """The class that each row's scores, as of `decision_function`, stand for."""
        return self.classes_[(scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, features: Any, labels: Any) -> float:
        """The share of rows that are classified correctly."""
        return float(np.mean(self.predict(features) == np.asarray(labels)))

    def _fitted(self, features: Any) -> Floats:
        """The rows to classify, if the model is trained."""
        if not hasattr(self, "epsilon_"):
            raise DataError(f"{type(self).__name__} is not trained yet; call fit first")
        return checked_rows(features, self.n_features_in_)

    def _read(self, features: Any, labels: Any) -> tuple[Any, Integers]:
        """The rows and the index of each row's class; stores the classes."""
        matrix = features if isinstance(features, SparseRows) else checked_rows(features)
        given = np.asarray(labels)
        if given.shape != (matrix.shape[0],):
            raise DataError(f"labels of shape {given.shape}: expected a label for each of the {matrix.shape[0]} rows")
        if given.dtype.kind == "f" and not np.isfinite(given).all():
            raise DataError("labels: expected a class for each row; fill in missing labels or leave out their rows")
        try:
            self.classes_, classes = np.unique(given, return_inverse=True)
        except TypeError:
            raise DataError("labels: expected all numbers or all texts, none missing") from None
        if len(self.classes_) < 2:
            raise DataError("labels: expected at least two classes")
        self.n_features_in_ = matrix.shape[1]
        return matrix, classes.astype(np.int64)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSGD(PrivateEstimator):
    """The base of estimators trained by noisy steps."""

    epochs: int = 10
    lot: int = 128
    learning_rate: float = 0.05
    noise: float = 1.0
    clip: float = 1.0
    optimizer: str = "sgd"
    sampling: Sampling = "fixed"
    delta: float = 1e-5
    seed: int | None = None
    ledger: Ledger | str | Path | None = None

    def _rule(self) -> TrainingRule:
        return TrainingRule(
            epochs=self.epochs,
            lot=self.lot,
            learning_rate=check_number(SearchError, "learning_rate", self.learning_rate, above=0),
            noise=self.noise,
            clip=check_number(SearchError, "clip", self.clip, least=LEAST_CLIP, most=MOST_CLIP),
            adam=check_choice(SearchError, "optimizer", self.optimizer, ("sgd", "adam")) == "adam",
            poisson=self.sampling == "poisson",
        )

    def _priced(self, rows: int) -> dict[str, Any]:
        """The parameters that decide the cost of a training."""
        names = ("lot", "epochs", "noise", "delta", "sampling")
        return {"rows": rows} | {name: getattr(self, name) for name in names}

    def _charged(self, rows: int) -> np.random.Generator:
        """Charge the ledger, if there is one; returns the source of the noise."""
        generator = seeded(self.seed)
        if self.ledger is not None:
            relation = Neighbours.ADD_REMOVE if self.sampling == "poisson" else Neighbours.REPLACE
            charge_first(self.ledger, training_events(**self._priced(rows)), relation)
        return generator


class PrivateLinear(PrivateSGD):
    """A linear model of two classes, trained with noisy steps."""

    hinge: ClassVar[bool]
    coef_: Floats
    intercept_: Floats

    def fit(self, features: Any, labels: Any) -> Self:
        """Train on rows and their classes, of which there must be two."""
        rule, epsilon = self._rule(), training_epsilon(**self._priced(_rows(features)))
        rows, classes = self._read(features, labels)
        if len(self.classes_) != 2:
            raise DataError(f"{type(self).__name__} separates two classes; use PrivateMLP for more")
        require_sparse(rows)
        generator, signs = self._charged(len(classes)), np.where(classes == 1, 1.0, -1.0)
        weights = train_linear(SparseRows.of(rows), signs, rule, generator, hinge=self.hinge)
        self.coef_, self.intercept_, self.epsilon_ = weights[None, :-1], weights[-1:], epsilon
        return self

    def decision_function(self, features: Any) -> Floats:
        return np.asarray(self._fitted(features) @ self.coef_[0] + self.intercept_[0])


class PrivateLogisticRegression(PrivateLinear):
    """Logistic regression trained by DP-SGD or DP-Adam; `noise` is the noise multiplier.

    >>> features = np.random.Generator(np.random.PCG64(1)).standard_normal((500, 3))
    >>> model = PrivateLogisticRegression(epochs=20, lot=50, noise=1.0, seed=1).fit(features, features[:, 0] > 0)
    >>> model.score(features, features[:, 0] > 0) > 0.8, round(model.epsilon_, 1)
    (True, 20.7)
    """

    hinge: ClassVar[bool] = False

    def predict_proba(self, features: Any) -> Floats:
        """The probability of each of the two classes."""
        scores = self.decision_function(features)
        return softmax(np.column_stack([np.zeros(len(scores)), scores]))


class PrivateLinearSVM(PrivateLinear):
    """A linear support vector machine (hinge loss) trained by DP-SGD or DP-Adam."""

    hinge: ClassVar[bool] = True


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateMLP(PrivateSGD):
    """A network of ReLU layers of the sizes `hidden`, for two or more classes, trained by DP-SGD or DP-Adam."""

    hidden: tuple[int, ...] = (128, 64)

    def fit(self, features: Any, labels: Any) -> Self:
        """Train on rows and their classes."""
        layers = self.hidden if isinstance(self.hidden, tuple | list) else (0,)
        if not all(is_whole(size) and size >= 1 for size in layers):
            raise SearchError(f"hidden={shown(self.hidden)}: expected sizes of layers, such as (128, 64)")
        rule, epsilon = self._rule(), training_epsilon(**self._priced(_rows(features)))
        matrix, classes = self._read(features, labels)
        sizes = (matrix.shape[1], *self.hidden, len(self.classes_))
        require_memory(network_bytes(sizes, self.lot), f"a network of layers {shown(sizes)}", "use smaller layers")
        self.network_ = train_network(matrix, classes, sizes, rule, self._charged(len(classes)))
        self.epsilon_ = epsilon
        return self

    def decision_function(self, features: Any) -> Floats:
        scores = self._scores(features)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _scores(self, features: Any) -> Floats:
        return self.network_.outputs(self._fitted(features))[-1]

    def predict_proba(self, features: Any) -> Floats:
        """The probability of each class."""
        return softmax(self._scores(features))


@dataclass(kw_only=True, eq=False, repr=False)
class OutputPerturbedRegression(PrivateEstimator):
    """Logistic regression by projected SGD, with Gaussian noise on the weights at the end.

    Rows longer than 1 are scaled to length 1, there is no intercept, and training passes ten times over the rows in
    random order. The weights have sensitivity 4 / (gamma n) under replace-one; epsilon is on the exact Gaussian curve.

    Reference: [DPareto, sec. 3.3.2]; [Wu et al. 2017, Alg. 2].
    """

    regularization: float = 1e-3
    noise: float = 1.0
    delta: float = 1e-6
    seed: int | None = None
    ledger: Ledger | str | Path | None = None

    def fit(self, features: Any, labels: Any) -> Self:
        """Train on rows and their two classes."""
        rows, gamma = _rows(features), self.regularization
        epsilon = output_epsilon(rows=rows, regularization=gamma, noise=self.noise, delta=self.delta)
        matrix, classes = self._read(features, labels)
        if len(self.classes_) != 2:
            raise DataError("OutputPerturbedRegression separates two classes; use PrivateMLP for more")
        require_sparse(matrix)
        generator = seeded(self.seed)
        if self.ledger is not None:
            sensitivity = 4 / (Fraction(float(gamma)) * rows)
            event = GaussianEvent(Fraction(float(self.noise)) ** 2, sensitivity**2)
            charge_first(self.ledger, [event], Neighbours.REPLACE)
        weights = train_projected(matrix, np.where(classes == 1, 1.0, -1.0), gamma, generator)
        self.coef_: Floats = (weights + self.noise * generator.standard_normal(len(weights)))[None]
        self.epsilon_ = epsilon
        return self

    def decision_function(self, features: Any) -> Floats:
        return np.asarray(self._fitted(features) @ self.coef_[0])


def require_sparse(features: Floats | SparseRows) -> None:
    """Refuse a matrix too large to be made sparse, by its shape alone: which entries are nonzero is private."""
    if isinstance(features, SparseRows):
        return
    rows, columns = features.shape
    what = f"features of {rows:,} rows and {columns:,} columns"
    if features.size >= 1 << 32:
        raise DataError(f"{what}: expected fewer than 2^32 numbers; take fewer rows or columns")
    require_memory(SPARSE_BYTES * features.size, what, "take fewer rows or columns")


def seeded(seed: int | None) -> np.random.Generator:
    """The source of noise, seeded by the operating system unless a seed is given."""
    if seed is not None:
        check_whole(SearchError, "seed", seed, least=0, hint=", or None")
    return np.random.Generator(np.random.PCG64(seed))


def charge_first(ledger: Ledger | str | Path, events: Sequence[Event], relation: Neighbours) -> None:
    """Charge the first event that fits into the ledger; each is a bound for the same training."""
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    refusals = []
    for event in events:
        try:
            return book.charge(event, note="private training; floating-point noise", terms=terms_of(relation, ROW))
        except BudgetError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _rows(features: Any) -> int:
    shape = np.shape(features)
    return int(shape[0]) if shape else 0
