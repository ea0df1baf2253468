"""Private training of classifiers: DP-SGD, output perturbation, and what they cost.

>>> import numpy as np
>>> from hush.training import PrivateLogisticRegression
>>> features = np.random.default_rng(1).standard_normal((500, 3))
>>> model = PrivateLogisticRegression(epochs=20, lot=50, noise=1.0, seed=1).fit(features, features[:, 0] > 0)
>>> model.score(features, features[:, 0] > 0) > 0.8, round(model.epsilon_, 1)
(True, 20.7)
"""

from hush.training.private_estimators import (
    OutputPerturbedRegression,
    PrivateEstimator,
    PrivateLinearSVM,
    PrivateLogisticRegression,
    PrivateMLP,
)
from hush.training.training_privacy import TrainingEpsilon, output_epsilon, training_epsilon

__all__ = [
    "OutputPerturbedRegression",
    "PrivateEstimator",
    "PrivateLinearSVM",
    "PrivateLogisticRegression",
    "PrivateMLP",
    "TrainingEpsilon",
    "output_epsilon",
    "training_epsilon",
]
