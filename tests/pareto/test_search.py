"""Searches: they find known fronts, go on after an interruption, keep to their budgets and refuse bad input."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hush.core.errors import SearchError
from hush.pareto import (
    ChoiceSetting,
    Front,
    IntegerSetting,
    NormalLaw,
    RealSetting,
    Space,
    grid_search,
    random_search,
    search,
    sparse_vector_epsilon,
    sparse_vector_error,
    sparse_vector_space,
)
from hush.pareto.bayesian_choice import BayesianChoice

SPACE = Space(
    [RealSetting("noise", 0.05, 20, log=True), IntegerSetting("steps", 1, 20), ChoiceSetting("kind", ("a", "b"))]
)
REFERENCE = (10.0, 1.0)


def epsilon(settings) -> float:
    return settings["steps"] / settings["noise"]


def error(settings, generator) -> float:
    """Least at 7 steps and kind b; what noise adds is 1 - exp(-noise / 10)."""
    shape = 0.02 * abs(settings["steps"] - 7) + (0.2 if settings["kind"] == "a" else 0.0)
    return min(0.1 + shape + 0.6 * (1 - math.exp(-settings["noise"] / 10)), 1.0) + 0.01 * generator.normal()


def quick(settings) -> float:
    return epsilon(settings)


quick.quick = True


def find(privacy=quick, oracle=error, **options) -> Front:
    return search(SPACE, privacy, oracle, **({"reference": REFERENCE, "evaluations": 30, "seed": 1} | options))


@pytest.fixture(scope="module")
def found() -> Front:
    return find()


def test_a_search_beats_random_draws_of_the_same_number(found: Front) -> None:
    """Random search with 30 evaluations had 5.2 to 7.4 over 100 seeds, 6.7 on average; this one 7.6 to 7.8 over 15."""
    drawn = [random_search(SPACE, quick, error, reference=REFERENCE, evaluations=30, seed=s) for s in range(5)]
    assert found.hypervolume() > 7.5
    assert found.hypervolume() > max(front.hypervolume() for front in drawn)
    assert found.best_at(2.0).settings["kind"] == "b"


def test_settings_stay_within_the_space_and_epsilon_is_exact(found: Front) -> None:
    for evaluation in found.evaluations:
        SPACE.places_of(evaluation.settings)
        assert evaluation.epsilon == epsilon(evaluation.settings)
    assert len(found.evaluations) == 30


def test_a_slow_privacy_oracle_is_asked_about_few_candidates(found: Front) -> None:
    asked = []

    def slow(settings) -> float:
        asked.append(dict(settings))
        return epsilon(settings)

    made = find(slow)
    assert len(asked) < 20 * 30
    assert made.hypervolume() > 0.9 * found.hypervolume()
    assert all(e.epsilon == epsilon(e.settings) for e in made.evaluations)


def test_the_documents_rule_runs_and_is_recorded() -> None:
    made = find(method="hvpoi", evaluations=20)
    assert made.search["method"] == "hvpoi"
    assert len(made.evaluations) == 20
    assert made.hypervolume() > 3


@pytest.mark.parametrize("stopped", [3, 12, 25])
def test_a_search_that_was_interrupted_goes_on_as_it_would_have(found: Front, tmp_path: Path, stopped: int) -> None:
    path = tmp_path / "front.json"
    calls = []

    def dies(settings, generator) -> float:
        calls.append(settings)
        if len(calls) == stopped + 1:
            raise KeyboardInterrupt
        return error(settings, generator)

    with pytest.raises(KeyboardInterrupt):
        find(oracle=dies, checkpoint=path)
    assert len(Front.load(path).evaluations) == stopped
    assert find(checkpoint=path).evaluations == found.evaluations
    assert Front.load(path).evaluations == found.evaluations


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"runs": 2},
        {"reference": (9.0, 1.0)},
        {"initial": 5},
        {"measure": "largest error"},  # one front never holds errors of two kinds
        {"stamp": "from private rows"},  # nor does a stamp get lost
    ],
)
def test_a_checkpoint_of_another_search_is_refused(tmp_path: Path, changed) -> None:
    find(checkpoint=tmp_path / "front.json", evaluations=12)
    with pytest.raises(SearchError, match=f"another search: .*{next(iter(changed))}"):
        find(checkpoint=tmp_path / "front.json", evaluations=12, **changed)


def test_batches_are_chosen_together_and_differ(found: Front) -> None:
    sizes = []

    class Executor(ThreadPoolExecutor):
        def map(self, function, *tasks, **options):
            sizes.append(len(tasks[0]))
            return super().map(function, *tasks, **options)

    with Executor(2) as executor:
        made = find(batch=4, executor=executor)
    assert sizes == [4, 4, 2, 4, 4, 4, 4, 4]
    assert len({repr(e.settings) for e in made.evaluations[-4:]}) > 1
    assert made.hypervolume() > 0.93 * found.hypervolume()


def test_seconds_end_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    assert 1 <= len(find(seconds=6.0).evaluations) < 10
    assert len(find(seconds=900.0, evaluations=12).evaluations) == 12


def test_progress_rises_to_one() -> None:
    shares: list[float] = []
    find(evaluations=12, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_noisy_points_that_owe_their_place_to_luck_are_run_again() -> None:
    def erratic(settings, generator) -> float:
        return error(settings, generator) + 0.3 * generator.standard_normal()

    def repeats(oracle) -> int:
        made = find(oracle=oracle, evaluations=40, runs=2)
        return len(made.evaluations) - len({repr(e.settings) for e in made.evaluations})

    assert repeats(erratic) > 3
    assert repeats(lambda settings, generator: error(settings, np.random.default_rng(0))) <= 1


LINEAR = Space([RealSetting(name, 0.1, 16.0) for name in ("noise", "rate", "clip", "steps")])


def powers(settings) -> float:
    return 3.0 * settings["rate"] ** 0.5 / settings["noise"] ** 2


def plateau(settings, generator) -> float:
    """0.25 where rate, clip or steps are below half of their range, and 0.2 where all are at its end."""
    least = min(settings[name] for name in ("rate", "clip", "steps"))
    return 0.25 - 0.1 * max(least / 16 - 0.5, 0.0)


def test_epsilons_that_are_slow_are_guessed_well_on_linear_scales() -> None:
    """Epsilon spans 0.004 to 1,200; guessed from the settings as they are, the worst of these is off by far more."""
    chooser = BayesianChoice(LINEAR, powers, REFERENCE)
    places = np.random.default_rng(0).random((300, 4))
    logs = np.log(chooser._exact_epsilons(places))
    model = chooser._epsilon_process(*chooser._drawn())
    assert np.abs(model.predict(chooser._epsilon_features(places))[0] - logs).max() < 0.3
    chooser._epsilon_features, chooser._epsilon_fit = LINEAR.features, None  # the control
    model = chooser._epsilon_process(*chooser._drawn())
    assert np.abs(model.predict(chooser._epsilon_features(places))[0] - logs).max() > 1.0


def test_initial_points_are_where_privacy_is_cheap() -> None:
    drawn = [e.epsilon for e in find(evaluations=10).evaluations]
    assert REFERENCE[0] / 10 <= min(drawn) < max(drawn) < REFERENCE[0]


def test_a_search_leaves_a_plateau() -> None:
    """Seven in eight points are on it."""
    for seed in range(4):
        made = search(LINEAR, powers, plateau, reference=REFERENCE, evaluations=30, seed=seed)
        assert min(e.error for e in made.evaluations) < 0.2005


def test_failed_runs_and_infinite_epsilons_are_recorded_and_avoided() -> None:
    def sometimes(settings) -> float:
        return math.inf if settings["noise"] < 0.2 else epsilon(settings)

    def diverges(settings, generator) -> float:
        return math.nan if settings["kind"] == "a" else error(settings, generator)

    made = find(sometimes, diverges, evaluations=40)
    failed = [e.settings["kind"] for e in made.evaluations if e.problem.startswith("1 of 1 runs failed")]
    assert set(failed) == {"a"}
    assert len(failed) < 12
    assert made.hypervolume() > 5


def test_an_oracle_that_never_gives_an_error_is_one_line() -> None:
    with pytest.raises(SearchError, match="all of the first 16 evaluations failed: 1 of 1 runs"):
        find(oracle=lambda settings, generator: math.nan)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"evaluations": 5}, "at least 10, the number of initial points"),
        ({"evaluations": 0, "initial": 0}, "evaluations=0"),
        ({"initial": 1}, "at least 2"),
        ({"initial": [{"noise": 1.0}] * 3}, "expected noise, steps, kind"),
        ({"method": "tpe"}, "expected one of 'improvement', 'hvpoi'"),
        ({"reference": (0.0, 1.0)}, "above 0"),
        ({"reference": 3}, "expected the worst epsilon"),
        ({"runs": 0}, "runs=0"),
        ({"batch": 2.5}, "batch=2.5"),
        ({"seconds": 0}, "seconds=0"),
        ({"seconds": "soon"}, "seconds='soon'"),
        ({"initial": "many"}, "expected a number, or settings"),
        ({"initial": [3, 4]}, "expected a number, or settings"),
        ({"initial": 2.5}, "at least 2"),
        ({"initial": 31}, "at least 31, the number of initial points"),
        ({"evaluations": 12.5}, "evaluations=12.5"),
        ({"privacy": lambda settings: 1 / 0}, "privacy oracle failed with ZeroDivisionError at"),
        ({"privacy": lambda settings: math.nan}, "privacy oracle returned nan"),
        ({"seed": -1}, "seed=-1"),
        ({"oracle": 3}, "two functions"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(options, says: str) -> None:
    with pytest.raises(SearchError, match=says) as caught:
        find(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ((10.0, 0.01), r"reference=\(10, 0.01\) lies inside the front: .* the least error 0\."),
        ((1e-3, 1.0), "least epsilon"),
    ],
)
def test_a_reference_inside_the_front_is_refused_with_what_was_found(tmp_path: Path, reference, says: str) -> None:
    for way in (search, random_search, grid_search):
        options = {} if way is grid_search else {"evaluations": 12}
        path = tmp_path / way.__name__
        with pytest.raises(SearchError, match=says) as caught:
            way(SPACE, quick, error, reference=reference, checkpoint=path, **options)
        assert "\n" not in str(caught.value)
        assert len(Front.load(path).evaluations) >= 12  # they are not lost


def test_a_space_that_is_none_is_refused() -> None:
    for way in (search, random_search, grid_search):
        with pytest.raises(SearchError, match=r"expected Space\(\[...\]\)"):
            way([RealSetting("noise", 1, 2)], quick, error, reference=REFERENCE)


def test_given_points_come_first() -> None:
    given = [{"noise": 1.0, "steps": 3, "kind": "a"}, {"noise": 2.0, "steps": 7, "kind": "b"}]
    made = find(initial=given, evaluations=5)
    assert [e.settings for e in made.evaluations[:2]] == given


def test_random_search_follows_its_laws_and_resumes(tmp_path: Path) -> None:
    laws = {"steps": NormalLaw(5, 1, 4, 6)}
    options = {"reference": REFERENCE, "laws": laws, "checkpoint": tmp_path / "front.json"}
    random_search(SPACE, quick, error, evaluations=7, **options)
    made = random_search(SPACE, quick, error, evaluations=40, **options)
    assert {e.settings["steps"] for e in made.evaluations} == {4, 5, 6}
    alone = random_search(SPACE, quick, error, evaluations=40, reference=REFERENCE, laws=laws)
    assert made.evaluations == alone.evaluations
    with pytest.raises(SearchError, match="a law for"):
        random_search(SPACE, quick, error, reference=REFERENCE, laws={"pace": NormalLaw(5, 1, 4, 6)})
    with pytest.raises(SearchError, match="the law 3 of steps"):
        random_search(SPACE, quick, error, reference=REFERENCE, laws={"steps": 3})
    with pytest.raises(SearchError, match="low below high"):
        NormalLaw(5, 1, 6, 4)
    with pytest.raises(SearchError, match="unknown option speed"):
        random_search(SPACE, quick, error, reference=REFERENCE, speed=2)


def test_grid_search_takes_every_point_once() -> None:
    made = grid_search(SPACE, quick, error, reference=REFERENCE, values=3)
    assert len(made.evaluations) == 3 * 3 * 2 == len({repr(e.settings) for e in made.evaluations})


def test_the_sparse_vector_front_is_found_in_few_tries() -> None:
    """Random search reaches 0.27 (standard deviation 0.03) with 32 evaluations, and this search 0.36 (0.015)."""
    made = search(
        sparse_vector_space(), sparse_vector_epsilon, sparse_vector_error, reference=(100, 1), evaluations=32, runs=20
    )
    assert made.hypervolume() / 100 > 0.31
