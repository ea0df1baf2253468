"""Fronts of privacy and error: hush's search beside random search, grids and Optuna's TPE, over many repetitions.

sparse-vector: hypervolume / 100 within (epsilon 100, error 1) after 16, 32 and 64 evaluations of 50 runs each, as the
search observed it, and with the errors of its front computed anew, which takes the luck out of it.

training: logistic regression with SGD and with Adam, and a linear SVM with SGD, on rows in LIBSVM's format (a1a,
trained on its larger part) or on invented rows of the same size. Hypervolume within (epsilon 10, error 1), observed and
with the errors of the front computed anew; how many evaluations the search needs for what random search has at its end;
the difference at equal budgets with a t-test.

speed: the time that the search takes beside its oracles, and one epoch of DP-SGD.

Run: python -m benchmarks.pareto [sparse-vector] [training] [speed] [--repetitions 19] [--data FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from hush.pareto import (
    ADULT_LAWS,
    Front,
    PrivateLinearSVM,
    PrivateLogisticRegression,
    TrainingEpsilon,
    adult_space,
    grid_search,
    random_search,
    search,
    sparse_vector_epsilon,
    sparse_vector_error,
    sparse_vector_space,
)
from hush.pareto.evaluation import Evaluation
from hush.pareto.private_training import SparseRows

CONSOLE = Console(width=120)
MODELS = {
    "LogReg+SGD": (PrivateLogisticRegression(optimizer="sgd"), 0.158),
    "LogReg+Adam": (PrivateLogisticRegression(optimizer="adam"), 0.439),
    "SVM+SGD": (PrivateLinearSVM(optimizer="sgd"), 0.282),
}


def traced(front: Front, counts: Sequence[int]) -> list[float]:
    """The hypervolume after the first evaluations of a search."""
    parts = [Front(evaluations=front.evaluations[:count], reference=front.reference) for count in counts]
    return [part.hypervolume() for part in parts]


def optuna_search(seed: int, evaluations: int, runs: int) -> Front | None:
    """Optuna's TPE with two objectives on the sparse vector; None if it is not installed."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    done = []

    def objectives(trial: Any) -> tuple[float, float]:
        settings = {"noise": trial.suggest_float("noise", 1e-2, 1e2, log=True), "cap": trial.suggest_int("cap", 1, 30)}
        generator = np.random.default_rng([seed, trial.number])
        errors = tuple(sparse_vector_error(settings, generator) for _ in range(runs))
        done.append(Evaluation(settings=settings, epsilon=sparse_vector_epsilon(settings), errors=errors))
        return done[-1].epsilon, done[-1].error

    study = optuna.create_study(directions=["minimize", "minimize"], sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objectives, n_trials=evaluations)
    return Front(evaluations=done, reference=(100.0, 1.0))


def sparse_vector(repetitions: int, evaluations: int, runs: int) -> None:
    space, oracles = sparse_vector_space(), (sparse_vector_epsilon, sparse_vector_error)
    options: dict[str, Any] = {"reference": (100, 1), "evaluations": evaluations, "runs": runs}
    ways: dict[str, Callable[[int], Front | None]] = {
        "hush": lambda seed: search(space, *oracles, seed=seed, **options),
        "hush, batches of 4": lambda seed: search(space, *oracles, seed=seed, batch=4, **options),
        "HVPoI, two processes": lambda seed: search(space, *oracles, seed=seed, method="hvpoi", **options),
        "random": lambda seed: random_search(space, *oracles, seed=seed, **options),
        "Optuna TPE": lambda seed: optuna_search(seed, evaluations, runs),
    }
    counts = [count for count in (16, 32, 64) if count <= evaluations]
    table = Table("search", *(f"after {count}" for count in counts), "front run anew", "least", title="sparse vector")
    for name, way in ways.items():
        fronts = [front for seed in range(repetitions) if (front := way(seed)) is not None]
        if not fronts:
            table.add_row(name, "not installed")
            continue
        found = np.array([traced(front, counts) for front in fronts]) / 100
        anew = np.array([_anew(front, seed) for seed, front in enumerate(fronts)]) / 100
        cells = [
            f"{mean:.4f} ± {sd:.4f}" for mean, sd in zip(found.mean(axis=0), found.std(axis=0, ddof=1), strict=True)
        ]
        table.add_row(name, *cells, f"{anew.mean():.4f} ± {anew.std(ddof=1):.4f}", f"{found[:, -1].min():.4f}")
    CONSOLE.print(table)
    grid = grid_search(space, *oracles, reference=(100, 1), values=30, runs=runs)
    CONSOLE.print(
        f"grid of {len(grid.evaluations)} points: {grid.hypervolume() / 100:.4f}; run anew {_anew(grid, 0) / 100:.4f}"
    )
    CONSOLE.print(f"{repetitions} repetitions, {runs} runs each; mean ± standard deviation of hypervolume / 100\n")


def _anew(front: Front, seed: int, error: Any = sparse_vector_error, runs: int = 200) -> float:
    """The hypervolume of the settings on a front, with new runs of each."""
    generator = np.random.default_rng([seed, 99])
    evaluations = [
        Evaluation(
            settings=point.settings,
            epsilon=point.epsilon,
            errors=tuple(error(point.settings, generator) for _ in range(runs)),
        )
        for point in front
        if point.epsilon < front.reference[0]
    ]
    return Front(evaluations=evaluations, reference=front.reference).hypervolume()


def read_libsvm(path: Path, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of a file in LIBSVM's format."""
    lines = [line.split() for line in path.read_text().splitlines()]
    features = np.zeros((len(lines), width))
    for row, line in enumerate(lines):
        for entry in line[1:]:
            column, value = entry.split(":")
            features[row, int(column) - 1] = float(value)
    return features, np.array([float(line[0]) > 0 for line in lines])


def invented(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 123 binary features, 14 of them 1, as in a1a; a quarter of the labels are true."""
    groups = np.random.default_rng(0).multinomial(123 - 28, np.ones(14) / 14) + 2
    random = np.random.default_rng([seed, 1])
    starts, features = np.concatenate([[0], np.cumsum(groups)]), np.zeros((rows, 123))
    for group, start in zip(groups, starts[:-1], strict=True):
        features[np.arange(rows), start + (random.beta(1, 2, rows) * group).astype(int)] = 1.0
    score = features @ np.random.default_rng(1).normal(size=123) + random.logistic(size=rows)
    return features, score > np.quantile(score, 0.75)


def read_rows(folder: Path | None) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    if folder is None:
        return invented(30_956, 0), invented(1605, 1)
    parts = [read_libsvm(folder / name, 123) for name in ("a1a.train", "a1a.test")]
    train, test = sorted(parts, key=lambda part: -len(part[1]))
    return train, test


class FastError:
    """The error oracle on rows that are made sparse once, not in each run."""

    def __init__(self, model: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> None:
        self.model, self.rows, self.labels, self.test = model, SparseRows.of(train[0]), train[1], test

    def __call__(self, settings: dict[str, Any], generator: np.random.Generator) -> float:
        parameters = self.model.get_params() | settings | {"seed": int(generator.integers(2**62))}
        return 1 - type(self.model)(**parameters).fit(self.rows, self.labels).score(*self.test)


def training(arguments: argparse.Namespace) -> None:
    train, test = read_rows(arguments.data)
    rows, space = len(train[1]), adult_space()
    privacy, few, many = TrainingEpsilon(rows=rows), arguments.few, arguments.many
    for name in arguments.models or MODELS:
        model, published = MODELS[name]
        error = FastError(model, train, test)
        options: dict[str, Any] = {"reference": (10, 1), "runs": arguments.runs}
        start = time.perf_counter()
        drawn = [
            random_search(space, privacy, error, evaluations=many, laws=ADULT_LAWS, seed=seed, **options)
            for seed in range(arguments.random_repetitions)
        ]
        middle = time.perf_counter()
        found = [
            search(space, privacy, error, evaluations=few, seed=seed, **options)
            for seed in range(arguments.repetitions)
        ]
        goal = float(np.mean([front.hypervolume() for front in drawn]))
        ours = np.array([traced(front, range(1, few + 1)) for front in found])
        ends, all_drawn = ours[:, -1], np.array([front.hypervolume() for front in drawn])
        random_few = np.array([traced(front, [few])[0] for front in drawn])
        reached = [int(np.argmax(trace >= goal)) + 1 if trace[-1] >= goal else few + 1 for trace in ours]
        within = sum(count <= few for count in reached)
        difference = ends.mean() - random_few
        low, high = stats.t.interval(0.95, len(difference) - 1, difference.mean(), stats.sem(difference))
        at_few, at_many = stats.ttest_1samp(difference, 0.0), stats.ttest_ind(ends, all_drawn, equal_var=False)
        anew = [np.mean([_anew(front, 0, error, 10) for front in fronts]) for fronts in (found, drawn)]
        CONSOLE.print(
            f"[bold]{name}[/bold]: random {many}: {goal:.3f} ± {all_drawn.std(ddof=1):.3f} ({len(drawn)} times), anew "
            f"{anew[1]:.3f}; random {few}: {random_few.mean():.3f} ± {random_few.std(ddof=1):.3f}\n"
            f"  hush {few}: {ends.mean():.3f} ± {ends.std(ddof=1):.3f} ({len(found)} times), anew {anew[0]:.3f}; "
            f"reaches {goal:.3f} after {np.median(reached):.0f} (median; {within} of {len(found)} within {few})\n"
            f"  difference at {few}: {difference.mean():+.3f} ({low:+.3f}, {high:+.3f}), p = {at_few.pvalue:.2g}; "
            f"published at 256: +{published}\n"
            f"  hush {few} - random {many}: {ends.mean() - goal:+.3f}, p = {at_many.pvalue:.2g}\n"
            f"  {middle - start:.0f} s for random, {time.perf_counter() - middle:.0f} s for hush; {rows:,} rows, "
            f"{arguments.runs} runs for each evaluation\n"
        )


def speed(arguments: argparse.Namespace) -> None:
    spent = np.zeros(2)

    def clocks() -> Any:
        return np.array([time.perf_counter(), time.process_time()])

    def timed_error(settings: dict[str, Any], generator: np.random.Generator) -> float:
        nonlocal spent
        start = clocks()
        value = sparse_vector_error(settings, generator)
        spent += clocks() - start
        return value

    times = []
    for seed in range(4):  # the first loads and warms up, and is left out
        spent, start = np.zeros(2), clocks()
        search(sparse_vector_space(), sparse_vector_epsilon, timed_error, reference=(100, 1), runs=50, seed=seed)
        times.append(clocks() - start - spent)
    wall, cpu = np.array(times[1:]).T
    CONSOLE.print(f"search beside its error oracle, 64 evaluations: {wall.round(2)} s, of CPU {cpu.round(2)} s")
    train, _ = read_rows(arguments.data)
    for optimizer in ("sgd", "adam"):
        model = PrivateLogisticRegression(epochs=1, lot=128, optimizer=optimizer, seed=1).fit(*train)
        start = clocks()
        model.fit(*train)
        wall, cpu = clocks() - start
        CONSOLE.print(f"one epoch of {optimizer}, lot 128, {len(train[1]):,} rows: {wall:.3f} s, of CPU {cpu:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="sparse-vector, training, speed; all of them by default")
    parser.add_argument("--repetitions", type=int, default=19)
    parser.add_argument("--random-repetitions", type=int, default=19)
    parser.add_argument("--runs", type=int, default=10, help="runs of each evaluation of training")
    parser.add_argument("--few", type=int, default=48)
    parser.add_argument("--many", type=int, default=272)
    parser.add_argument("--models", nargs="*", choices=list(MODELS))
    parser.add_argument("--data", type=Path, help="folder with a1a.train and a1a.test; invented rows by default")
    parser.add_argument("--quick", action="store_true", help="3 repetitions of small searches")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repetitions = arguments.random_repetitions = 3
        arguments.runs, arguments.few, arguments.many = 1, 16, 24
    parts = arguments.parts or ["sparse-vector", "training", "speed"]
    if "sparse-vector" in parts:
        sparse_vector(arguments.repetitions, 32 if arguments.quick else 64, 50)
    if "training" in parts:
        training(arguments)
    if "speed" in parts:
        speed(arguments)


if __name__ == "__main__":
    main()
