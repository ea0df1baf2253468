"""How much privacy buys how much accuracy: fronts of epsilon and error, found in a few dozen tries.

>>> import hush
>>> from hush.pareto import search, sparse_vector_epsilon, sparse_vector_error, sparse_vector_space
>>> front = search(
...     sparse_vector_space(), sparse_vector_epsilon, sparse_vector_error, reference=(100, 1), evaluations=12, runs=5
... )
>>> front.best_at(80).epsilon <= 80
True
"""

from hush.pareto.diagonal_search import DiagonalSearch, search_diagonal
from hush.pareto.evaluation import Evaluation
from hush.pareto.front import Front
from hush.pareto.hypervolume import attained_by, dominates, front_indices, hypervolume, step_values
from hush.pareto.model_fronts import ModelFronts
from hush.pareto.plan_curves import Crossing, PlanCurves, of_plan
from hush.pareto.search import grid_search, random_search, search
from hush.pareto.search_problems import (
    ADULT_LAWS,
    MNIST_LAWS,
    SparseVector,
    TrainingError,
    adult_space,
    mnist_space,
    sparse_vector_epsilon,
    sparse_vector_error,
    sparse_vector_space,
)
from hush.pareto.space import (
    ChoiceSetting,
    ExponentialLaw,
    IntegerSetting,
    NormalLaw,
    RealSetting,
    Space,
    UniformLaw,
)
from hush.pareto.stand_in import of_stand_in
from hush.training import (
    OutputPerturbedRegression,
    PrivateLinearSVM,
    PrivateLogisticRegression,
    PrivateMLP,
    TrainingEpsilon,
    output_epsilon,
    training_epsilon,
)

__all__ = [
    "ADULT_LAWS",
    "MNIST_LAWS",
    "ChoiceSetting",
    "Crossing",
    "DiagonalSearch",
    "Evaluation",
    "ExponentialLaw",
    "Front",
    "IntegerSetting",
    "ModelFronts",
    "NormalLaw",
    "OutputPerturbedRegression",
    "PlanCurves",
    "PrivateLinearSVM",
    "PrivateLogisticRegression",
    "PrivateMLP",
    "RealSetting",
    "Space",
    "SparseVector",
    "TrainingEpsilon",
    "TrainingError",
    "UniformLaw",
    "adult_space",
    "attained_by",
    "dominates",
    "front_indices",
    "grid_search",
    "hypervolume",
    "mnist_space",
    "of_plan",
    "of_stand_in",
    "output_epsilon",
    "random_search",
    "search",
    "search_diagonal",
    "sparse_vector_epsilon",
    "sparse_vector_error",
    "sparse_vector_space",
    "step_values",
    "training_epsilon",
]
