"""Searches on stand-in tables: what they measure, their stamps, and that protected tables are refused."""

from pathlib import Path

import numpy as np
import pytest

import hush
from hush.core.errors import SearchError, WorkloadError
from hush.evaluation import largest_error, workload_error
from hush.mechanisms.registry import mechanism_of
from hush.pareto import ChoiceSetting, Front, IntegerSetting, of_stand_in
from hush.pareto.stand_in import ERRORS, PRIVATE_STAMP, PUBLIC_STAMP, TUNED_SETTINGS, StandInError
from hush.privacy.exact_sampling import NotPrivateEntropy

SCHEMA = hush.Schema.from_domain(hush.Domain({"age": 6, "sex": 2, "race": 3}))


@pytest.fixture(scope="module")
def table():
    import pyarrow as pa

    random = np.random.default_rng(1)
    age = random.integers(0, 6, 400)
    rows = {"age": age, "sex": (age + random.integers(0, 2, 400)) % 2, "race": random.integers(0, 3, 400)}
    return hush.read(pa.table(rows), SCHEMA)


def search(table, mechanism="mwem", **options):
    return of_stand_in(table, "2-way", mechanism, **({"delta": 1e-6, "evaluations": 9, "initial": 5} | options))


def test_a_search_covers_epsilon_and_the_settings_and_is_stamped(table) -> None:
    front = search(table, evaluations=6)
    assert {tuple(sorted(e.settings)) for e in front.evaluations} == {("epsilon", "rounds")}
    assert all(e.epsilon == e.settings["epsilon"] for e in front.evaluations)
    assert front.stamp == PUBLIC_STAMP
    assert PUBLIC_STAMP.split(":")[0] in str(front)
    assert PUBLIC_STAMP.split(":")[0] in front.html()
    points = front.points
    assert points[-1].error < points[0].error / 2


def test_rounds_and_choices_of_rap_are_searched_on_a_stand_in(table) -> None:
    front = search(table, hush.mechanisms.RAP(rows=10), evaluations=6, initial=6)
    assert {e.settings["measure"] for e in front.evaluations} == {"auto", "tables"}
    for e in front.evaluations:  # "auto" is the default, which decides on rounds itself
        assert ("rounds" in e.settings) == ("queries" in e.settings) == (e.settings["measure"] == "tables")
        tuned = {name: value for name, value in e.settings.items() if name != "epsilon"}
        assert hush.mechanisms.RAP(**tuned).decides == (e.settings["measure"] == "auto")
    assert front.stamp == PUBLIC_STAMP


@pytest.mark.parametrize(
    ("measure", "searched"),
    [("all", {"column_share"}), ("cells", {"rounds", "queries", "column_share", "choice_share"})],
)
def test_a_measure_of_rap_that_is_given_stays(table, measure: str, searched: set[str]) -> None:
    front = search(table, hush.mechanisms.RAP(rows=10, measure=measure), evaluations=3, initial=3)
    assert not [e.problem for e in front.evaluations if e.problem]
    assert set(front.evaluations[0].settings) == searched | {"epsilon"}


@pytest.mark.parametrize(
    ("options", "measured"),
    [((), workload_error), (("workload",), workload_error), (("largest",), largest_error)],
    ids=["default", "workload", "largest"],
)
def test_the_error_is_that_of_a_release_with_these_settings(table, options, measured) -> None:
    workload = hush.Workload.kway(SCHEMA.domain, 2) + hush.Workload.thresholds(SCHEMA.domain, 3, 2)
    settings = {"epsilon": 2.0, "rounds": 4}
    oracle = StandInError(table, workload, hush.mechanisms.MWEM(), 1e-6, *options)
    seed = int(np.random.default_rng(3).integers(2**62))
    plan = hush.plan(workload, hush.Budget(epsilon=2.0, delta=1e-6), hush.mechanisms.MWEM(rounds=4))
    tables = plan.release(table, entropy=NotPrivateEntropy(seed)).model().tables
    assert oracle(settings, np.random.default_rng(3)) == measured(workload, table.counts, tables)


def test_a_front_names_its_error_wherever_it_is_shown(table, tmp_path: Path) -> None:
    errors = {}
    for error, (name, _) in ERRORS.items():
        front = search(table, "independent", error=error, evaluations=3, initial=3)
        front.save(tmp_path / f"{error}.json")
        assert Front.load(tmp_path / f"{error}.json").measure == name
        assert name in str(front)
        assert f">{name}" in front.html()  # of the axis
        assert front.reference[1] == 1.0
        errors[error] = [evaluation.error for evaluation in front.evaluations]
    assert all(0 < most < mean for most, mean in zip(errors["largest"], errors["workload"], strict=True))
    assert search(table, "independent", evaluations=3, initial=3).measure == "workload error"


def test_thresholds_are_searched_for_though_a_row_agrees_with_many_targets(table) -> None:
    front = of_stand_in(table, "1-of-3", "independent", delta=1e-6, evaluations=4, initial=4, epsilons=(0.01, 0.02))
    assert front.reference[1] == hush.Workload.thresholds(SCHEMA.domain, 3, 1).terms[0].sensitivity(1) == 26
    assert front.points[0].error > 1


@pytest.mark.parametrize("mechanism", ["aim", "rap", "mst", "privbayes", "dualquery", "independent"])
def test_every_adaptive_mechanism_can_be_searched(table, mechanism: str) -> None:
    front = search(table, mechanism, evaluations=3, initial=3)
    assert front.points
    assert not [e.problem for e in front.evaluations if e.problem]


def test_dawa_is_searched_over_partitions_of_one_column_at_pure_epsilon(table) -> None:
    pure = of_stand_in(table, "age", "dawa", delta=0, evaluations=4, initial=4)
    assert {tuple(e.settings) for e in pure.evaluations} == {("epsilon", "partition", "partition_share")}
    assert not [e.problem for e in pure.evaluations if e.problem]
    assert [*of_stand_in(table, "age", "dawa", evaluations=3, initial=3).points[0].settings] == ["epsilon"]


def test_the_ranges_of_settings_hold_the_defaults_of_the_mechanism() -> None:
    for name, settings in TUNED_SETTINGS.items():
        mechanism = mechanism_of(name)
        for setting in settings:
            usual = getattr(mechanism, setting.name)
            if isinstance(setting, ChoiceSetting):
                assert usual in setting.values
                continue
            assert usual is None or setting.low <= usual <= setting.high, (name, setting)


def test_a_table_that_a_ledger_protects_is_refused_or_stamped(table, tmp_path: Path) -> None:
    ledger = hush.Ledger.create(tmp_path / "budget.db", hush.Budget(rho=1.0))
    with pytest.raises(SearchError, match="front_not_private=True"):
        search(table, ledger=ledger)
    front = search(table, "independent", ledger=ledger, front_not_private=True, evaluations=3, initial=3)
    assert front.stamp == PRIVATE_STAMP
    assert ledger.total.rho == 0


def test_a_front_is_stamped_as_private_whenever_its_maker_says_so(table) -> None:
    front = search(table, "independent", front_not_private=True, evaluations=3, initial=3)
    assert front.stamp == PRIVATE_STAMP


def test_a_checkpoint_is_of_one_workload_and_one_mechanism(table, tmp_path: Path) -> None:
    options = {"evaluations": 3, "initial": 3, "checkpoint": tmp_path / "front.json"}
    of_stand_in(table, "2-way", hush.mechanisms.MWEM(), **options)
    assert len(of_stand_in(table, "2-way", hush.mechanisms.MWEM(), **options).evaluations) == 3
    for workload, mechanism, differs in (
        ("2-way + 2*age", hush.mechanisms.MWEM(), "workload"),
        ("1-of age,sex; 1-of age,race; sex,race", hush.mechanisms.MWEM(), "workload"),
        ("2-way", hush.mechanisms.MWEM(max_size_mb=3.0), "mechanism"),
    ):
        with pytest.raises(SearchError, match=f"another search: .*{differs} differs"):
            of_stand_in(table, workload, mechanism, **options)


def test_settings_and_workloads_that_do_not_fit_are_refused(table) -> None:
    with pytest.raises(SearchError, match="mwem has no setting 'pace'"):
        search(table, settings=[IntegerSetting("pace", 1, 2)])
    with pytest.raises(WorkloadError, match="other columns"):
        of_stand_in(table, hush.Workload.kway(hush.Domain({"a": 2}), 1), "mwem")
    with pytest.raises(SearchError, match="error='worst': expected one of 'workload', 'largest'"):
        search(table, error="worst")
    with pytest.raises(SearchError, match="the stand-in table has no rows"):
        search(hush.read(hush.datasets.invented(SCHEMA, 0, seed=1), SCHEMA))
    with pytest.raises(SearchError, match="epsilon from 3 to 1"):
        search(table, epsilons=(3, 1))
