"""Fronts of privacy and error: hush's search beside random search, grids and Optuna's TPE, over many repetitions.

sparse-vector: hypervolume / 100 within (epsilon 100, error 1) after 16, 32 and 64 evaluations of 50 runs each, as the
search observed it, and with the errors of its front computed anew, which takes the luck out of it.

training: logistic regression with SGD and with Adam, and a linear SVM with SGD, on rows in LIBSVM's format (a1a,
trained on its larger part) or on invented rows of the same size. Hypervolume within (epsilon 10, error 1) of searches
and of subsets of one pool of random evaluations, all of them and those within the domain of the search; how many
searches reach what random search has with many more evaluations; the difference at equal budgets with a t-test. Then
the same with the settings of every front run anew: each epsilon has the settings that the front names for it, and
their errors in new runs. This takes the luck out, which grows with the number of tries. With --record, what is computed
is kept in a file.

speed: the time that the search takes beside its oracles, and one epoch of DP-SGD.

Run: python -m benchmarks.pareto [sparse-vector] [training] [speed] [--repetitions 19] [--data FOLDER]
     [--record FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks.peers import installed
from hush.core.errors import SearchError
from hush.pareto import (
    ADULT_LAWS,
    Front,
    PrivateLinearSVM,
    PrivateLogisticRegression,
    Space,
    TrainingEpsilon,
    TrainingError,
    adult_space,
    grid_search,
    hypervolume,
    random_search,
    search,
    sparse_vector_epsilon,
    sparse_vector_error,
    sparse_vector_space,
)
from hush.pareto.evaluation import Evaluation, evaluate
from hush.pareto.space import draw_settings

CONSOLE = Console(width=150)
SUBSETS = 200
MODELS = {
    "LogReg+SGD": (PrivateLogisticRegression(optimizer="sgd"), 0.158),
    "LogReg+Adam": (PrivateLogisticRegression(optimizer="adam"), 0.439),
    "SVM+SGD": (PrivateLinearSVM(optimizer="sgd"), 0.282),
}


def traced(front: Front, counts: Sequence[int]) -> list[float]:
    """The hypervolume after the first evaluations of a search."""
    parts = [Front(evaluations=front.evaluations[:count], reference=front.reference) for count in counts]
    return [hypervolume(part.pairs, part.reference) for part in parts]


def optuna_search(seed: int, evaluations: int, runs: int) -> Front:
    """Optuna's TPE with two objectives on the sparse vector."""
    import optuna

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
    ways: dict[str, Callable[[int], Front]] = {
        "hush": lambda seed: search(space, *oracles, seed=seed, **options),
        "hush, batches of 4": lambda seed: search(space, *oracles, seed=seed, batch=4, **options),
        "HVPoI, two processes": lambda seed: search(space, *oracles, seed=seed, method="hvpoi", **options),
        "random": lambda seed: random_search(space, *oracles, seed=seed, **options),
    }
    if installed("optuna", "its row"):
        ways["Optuna TPE"] = lambda seed: optuna_search(seed, evaluations, runs)
    counts = [count for count in (16, 32, 64) if count <= evaluations]
    table = Table("search", *(f"after {count}" for count in counts), "front run anew", "least", title="sparse vector")
    for name, way in ways.items():
        fronts = [way(seed) for seed in range(repetitions)]
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


class Record:
    """What was computed so far, one line each in a file that only grows, so that a run can be stopped and go on."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.known = {tuple(key): found for key, found in map(json.loads, lines)}

    def get(self, key: tuple[Any, ...], compute: Callable[[], Sequence[Evaluation]]) -> list[Evaluation]:
        if key not in self.known:
            self.known[key] = [(e.settings, e.epsilon, list(e.errors)) for e in compute()]
            if self.file is not None:
                with self.file.open("a") as out:
                    out.write(json.dumps([key, self.known[key]]) + "\n")
        return [Evaluation(settings=s, epsilon=eps, errors=tuple(errors)) for s, eps, errors in self.known[key]]


def training(arguments: argparse.Namespace) -> None:
    train, test = read_rows(arguments.data)
    rows, space, record = len(train[1]), adult_space(), Record(arguments.record)
    privacy, few, many, runs = TrainingEpsilon(rows=rows), arguments.few, arguments.many, arguments.runs
    tables = [
        Table(
            "", f"random {few}", f"random {many}", "in its domain", f"hush {few}", "reached", f"gain at {few}", "p",
            f"gain on {many}", "published", title=f"training: hypervolume within (10, 1), {how}",
        )
        for how in ("as observed", "settings of the front run anew")
    ]  # fmt: skip
    for name in arguments.models or MODELS:
        model, published = MODELS[name]
        error = TrainingError(model, *train, *test)

        def drawn(seed: int, error: TrainingError = error) -> list[Evaluation]:
            """One random point; beyond the reference nothing is trained, for it counts for nothing."""
            settings = draw_settings(space, ADULT_LAWS, np.random.default_rng([77, seed]))
            return [evaluate(privacy, error if privacy(settings) < 10 else _unknown, settings, _seeds(seed, runs))]

        def found(seed: int, error: TrainingError = error) -> Sequence[Evaluation]:
            return search(space, privacy, error, reference=(10, 1), evaluations=few, runs=runs, seed=seed).evaluations

        pool = [record.get((name, "random", runs, i), partial(drawn, i))[0] for i in range(arguments.pool)]
        ours = [record.get((name, "hush", runs, i), partial(found, i)) for i in range(arguments.repetitions)]
        order = np.random.default_rng(0)
        within = [evaluation for evaluation in pool if _is_within(space, evaluation)]
        apart = [pool[start : start + few] for start in range(0, len(pool) - few + 1, few)]
        subsets, inside = (
            [[some[i] for i in order.choice(len(some), min(many, len(some)), replace=False)] for _ in range(SUBSETS)]
            for some in (pool, within)
        )

        def anew(settings: dict[str, Any], error: TrainingError = error, name: str = name) -> float:
            """The error of some settings in new runs."""
            text = json.dumps(settings, sort_keys=True)
            seeds = [(79, *text.encode(), run) for run in range(runs)]
            found = record.get((name, "anew", runs, text), lambda: [evaluate(privacy, error, settings, seeds)])
            return found[0].error

        for table, volume in zip(tables, (_volume, partial(_attained, anew=anew)), strict=True):
            random_few, random_many, random_inside, ends = (
                np.array([volume(some) for some in parts]) for parts in (apart, subsets, inside, ours)
            )
            goal = float(random_many.mean())
            test_few, test_many = stats.ttest_ind(ends, random_few, equal_var=False), stats.ttest_1samp(ends, goal)
            gain, span = ends.mean() - random_few.mean(), test_few.confidence_interval()
            table.add_row(
                name, _mean(random_few), f"{goal:.3f}", f"{random_inside.mean():.3f}", _mean(ends),
                f"{sum(ends >= goal)} and {sum(ends >= random_inside.mean())} of {len(ends)}",
                f"{gain:+.3f} ({span.low:+.3f}, {span.high:+.3f})", f"{test_few.pvalue:.1g}",
                f"{ends.mean() - goal:+.3f}, p = {test_many.pvalue:.1g}", f"+{published} at 256",
            )  # fmt: skip
    for table in tables:
        CONSOLE.print(table)
    CONSOLE.print(
        f"mean ± standard error. {runs} runs each, {rows:,} rows. hush: {arguments.repetitions} searches, "
        f"each by itself. random: one pool of {arguments.pool} evaluations by the document's laws, whose learning "
        f"rates go up to 0.1, and those of the search to 0.05; {few} at a time without overlap, and {SUBSETS} subsets "
        f"of {many}, which overlap, of all and of those within the domain of the search; both may be reached. p: "
        "Welch's t-test, and one sample against the mean of the subsets.\n"
    )


def _is_within(space: Space, evaluation: Evaluation) -> bool:
    try:
        space.places_of(evaluation.settings)
    except SearchError:
        return False
    return True


def _attained(evaluations: Sequence[Evaluation], anew: Callable[[dict[str, Any]], float]) -> float:
    """What the settings of a front dominate by their errors in new runs, each from its epsilon to the next."""
    points = [point for point in Front(evaluations=list(evaluations), reference=(10.0, 1.0)) if point.epsilon < 10]
    ends = [*(point.epsilon for point in points[1:]), 10.0]
    return sum((end - p.epsilon) * (1 - anew(p.settings)) for p, end in zip(points, ends, strict=True))


def _seeds(number: int, runs: int) -> list[tuple[int, ...]]:
    return [(78, number, run) for run in range(runs)]


def _unknown(settings: dict[str, Any], generator: np.random.Generator) -> float:
    return 1.0


def _volume(evaluations: Sequence[Evaluation]) -> float:
    return hypervolume(Front(evaluations=list(evaluations), reference=(10.0, 1.0)).pairs, (10.0, 1.0))


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {stats.sem(values):.3f} (n={len(values)})"


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
    parser.add_argument("--pool", type=int, default=1000, help="random evaluations that random searches are drawn from")
    parser.add_argument("--record", type=Path, help="file for what training computes; a later run goes on from it")
    parser.add_argument("--runs", type=int, default=10, help="runs of each evaluation of training")
    parser.add_argument("--few", type=int, default=48)
    parser.add_argument("--many", type=int, default=272)
    parser.add_argument("--models", nargs="*", choices=list(MODELS))
    parser.add_argument("--data", type=Path, help="folder with a1a.train and a1a.test; invented rows by default")
    parser.add_argument("--quick", action="store_true", help="3 repetitions of small searches")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repetitions, arguments.pool = 3, 48
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
