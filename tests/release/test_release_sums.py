"""Sums, means and variances of a release: from measured sums where there are some, and said so."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import hush
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.schema import Categorical, Integer, Numeric, Schema

SCHEMA = Schema(
    [
        Categorical(name="sex", values=("f", "m")),
        Categorical(name="class", values=(1, 2, 3)),
        Numeric(name="fare", edges=(0.0, 50.0, 100.0, 300.0), missing=True, outside="clamp"),
        Integer(name="age", low=0, high=80),
    ]
)
WORKLOAD = "<=2-way + sum(fare) by sex, class + variance(age) by sex"
SURE = hush.Budget(rho=300.0)  # hardly any noise


def passengers(rows: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    first = random.integers(1, 4, rows)
    fare = (random.exponential(60 / first)).round(2)
    fare[random.random(rows) < 0.15] = np.nan
    sex = random.choice(["f", "m"], rows)
    age = np.clip(random.normal(np.where(sex == "f", 28, 40), 12), 0, 80).astype(int)
    return pd.DataFrame({"sex": sex, "class": first, "fare": fare, "age": age})


def released(frame: pd.DataFrame, budget: hush.Budget, mechanism: str = "residual", workload: str = WORKLOAD):
    return hush.plan(workload, budget, mechanism, schema=SCHEMA).release(hush.read(frame, SCHEMA))


@pytest.mark.parametrize("mechanism", ["residual", "direct", "aim"])
def test_with_hardly_any_noise_the_numbers_are_those_of_the_rows(mechanism: str) -> None:
    frame = passengers(900, 1)
    release = released(frame, SURE, mechanism)
    clamped = frame.assign(fare=frame["fare"].clip(0, 300))
    by_sex = clamped.groupby("sex")
    for answers, truth in (
        (release.sum("fare", by=["sex"]), by_sex["fare"].sum()),
        (release.mean("fare", by=["sex"]), by_sex["fare"].mean()),
        (release.sum("age", by=["sex"]), by_sex["age"].sum()),
        (release.variance("age", by=["sex"]), by_sex["age"].var()),
        (release.sum("fare", by=["sex", "class"]), clamped.groupby(["sex", "class"])["fare"].sum()),
    ):
        np.testing.assert_allclose(answers.estimate, truth.to_numpy(), rtol=0.05)
    total = release.sql("SELECT SUM(fare) AS s, AVG(age) AS a, VAR_POP(age) AS v FROM t WHERE sex = 'm'")
    men = clamped[clamped["sex"] == "m"]
    wanted = [men["fare"].sum(), men["age"].mean(), men["age"].var(ddof=0)]
    np.testing.assert_allclose([total[name].estimate[0] for name in "sav"], wanted, rtol=0.05)
    spread = release.sql("SELECT STDDEV(age) AS d, STDDEV_POP(age) FILTER (WHERE sex = 'm') AS p FROM t")
    np.testing.assert_allclose(spread["d"].estimate, frame["age"].std(), rtol=0.05)
    np.testing.assert_allclose(spread["p"].estimate, men["age"].std(ddof=0), rtol=0.05)
    lower, upper = spread["d"].quantities[0].intervals.at(1 - 1e-9)
    assert lower < frame["age"].std() < upper
    assert upper - lower < 0.05 * frame["age"].std()


def test_each_number_says_where_it_comes_from() -> None:
    release = released(passengers(500, 2), hush.Budget(rho=0.5))
    measured = release.sql("SELECT sex, SUM(fare) AS s, AVG(fare) AS a FROM t GROUP BY sex")
    assert (measured["s"].quantities[0].error_kind, measured["a"].quantities[0].error_kind) == ("exact", "approximate")
    assert "fare: from measured sums of its values, not from its levels." in measured.notes
    binned = release.sql("SELECT SUM(fare) AS s FROM t WHERE age < 30")
    assert binned["s"].quantities[0].error_kind == "binned"
    assert not any("measured sums" in note for note in binned.notes)
    frame = measured.to_pandas()
    assert set(frame["s_basis"]) == {"exact"}
    spread = release.variance("fare")
    assert spread.quantities[0].error_kind == "binned"
    assert np.isnan(spread.quantities[0].intervals.at(0.95)[0]).all()
    assert any("spread inside bins is left out" in note for note in spread.notes)
    assert not any("the interval allows" in note for note in spread.notes)


def test_a_mean_never_leaves_the_bounds() -> None:
    release = released(passengers(3, 3), hush.Budget(rho=0.01))
    for answers, low, high in ((release.mean("fare", by=["sex", "class"]), 0, 300), (release.mean("age"), 0, 80)):
        mean = answers.quantities[0]
        lower, upper = mean.intervals.at(0.95)
        known = ~np.isnan(lower)
        assert known.any()
        assert (lower[known] >= low).all()
        assert (upper[known] <= high).all()
        assert not ((mean.estimate < low) | (mean.estimate > high)).any()


def test_mechanisms_that_choose_their_tables_measure_the_rows_of_means() -> None:
    """AIM may measure no table by sex and class, so the number of rows of each mean is measured with its sum."""
    frame = passengers(900, 11)
    release = released(frame, hush.Budget(rho=2.0), "aim", "1-way + sum(fare) by sex, class + sum(age) by sex, class")
    texts = [term.text for term in release.record.sums.strategy.terms]
    assert texts[-2:] == ["rows with fare by sex, class", "rows with age by sex, class"]
    by = frame.assign(fare=frame["fare"].clip(0, 300)).groupby(["sex", "class"])
    for name in ("fare", "age"):
        mean = release.mean(name, ["sex", "class"]).quantities[0]
        lower, upper = mean.intervals.at(0.95)
        truth = by[name].mean().to_numpy()
        assert mean.error_kind == "approximate"
        assert (upper - lower < 40).all()
        assert ((lower <= truth) & (truth <= upper)).sum() >= 4  # of 6; fewer with probability below 3e-3
    fixed = hush.plan("1-way + sum(fare) by sex", hush.Budget(rho=2.0), "residual", schema=SCHEMA)
    assert [term.grid.power for term in fixed.sums.terms] == [1, 1]


def test_a_filter_on_the_column_itself_needs_its_bins() -> None:
    frame = passengers(800, 4)
    release = released(frame, SURE, workload="<=2-way + sum(fare) by fare, sex")
    answers = release.sql("SELECT sex, SUM(fare) AS s, AVG(fare) AS a FROM t WHERE fare < 50 GROUP BY sex")
    cheap = frame[frame["fare"] < 50].groupby("sex")["fare"]
    np.testing.assert_allclose(answers["s"].estimate, cheap.sum(), rtol=0.05)
    np.testing.assert_allclose(answers["a"].estimate, cheap.mean(), rtol=0.05)
    assert answers["s"].quantities[0].error_kind == "exact"


@pytest.mark.parametrize("mechanism", ["residual", "hdmm", "aim"])
def test_files_keep_sums(mechanism: str, tmp_path) -> None:
    budget = hush.Budget(epsilon=2.0) if mechanism == "hdmm" else hush.Budget(rho=0.5)
    release = released(passengers(400, 5), budget, mechanism)
    release.save(tmp_path / "a.hush")
    again = hush.load(tmp_path / "a.hush")
    question = "SELECT sex, SUM(fare) AS s, VARIANCE(age) AS v FROM t GROUP BY sex"
    for name in "sv":
        first, second = (each.sql(question)[name].quantities[0] for each in (release, again))
        np.testing.assert_allclose(first.estimate, second.estimate)
        np.testing.assert_allclose(first.intervals.at(0.95), second.intervals.at(0.95))
    plan = hush.plan(WORKLOAD, budget, mechanism, schema=SCHEMA)
    plan.save(tmp_path / "plan.hush")
    assert hush.load(tmp_path / "plan.hush").sums == plan.sums


def test_a_file_whose_sums_had_less_noise_is_refused(tmp_path) -> None:
    release = released(passengers(200, 6), hush.Budget(rho=0.5))
    sums = release.record.sums
    honest = sums.strategy
    assert release.inconsistency() is None
    for factor in (2, Fraction(1, 3)):  # the statement pays for neither
        sums.strategy = honest.costing(honest.cost * factor)
        assert "noise" in str(release.inconsistency())


def test_the_ledger_is_charged_for_counts_and_sums(tmp_path) -> None:
    plan = hush.plan(WORKLOAD, hush.Budget(rho=0.5), schema=SCHEMA)
    plan.release(hush.read(passengers(100, 7), SCHEMA), ledger=tmp_path / "budget.db", name="a")
    ledger = hush.Ledger.open(tmp_path / "budget.db")
    assert plan.rho * (1 - Fraction(1, 10**9)) < ledger.total.rho <= plan.rho
    assert ledger.total.rho > plan.strategy.cost  # more than for the counts alone


def test_rows_meet_the_means_of_bins() -> None:
    frame = passengers(4000, 8)
    plain = released(frame, hush.Budget(rho=2.0), "aim", "<=2-way").synthesize(seed=1)["fare"].to_pandas()
    placed = released(frame, hush.Budget(rho=2.0), "aim", "<=2-way + sum(fare)").synthesize(seed=1)["fare"].to_pandas()
    truth = frame["fare"].clip(0, 300).mean()
    assert abs(placed.mean() - truth) < 1.5
    assert abs(plain.mean() - truth) > 3  # the control: bins are far from uniform
    for low, high in ((0, 50), (50, 100)):
        inside = frame["fare"][(frame["fare"] >= low) & (frame["fare"] < high)]
        drawn = placed[(placed >= low) & (placed < high)]
        assert drawn.mean() == pytest.approx(inside.mean(), abs=1.5)


def test_rows_meet_the_measured_mean_where_rare_bins_hold_too_many() -> None:
    """A model has no negative counts, so noise gives bins far above the rest some rows; the sum takes them back."""
    random = np.random.default_rng(12)
    gains = np.where(random.random(9000) < 0.95, 0.0, random.exponential(3000, 9000)).round().clip(0, 99_999)
    schema = Schema([Integer.equal_width(name="gain", low=0, high=99_999, bins=40, points=(0,))])
    table = hush.read(pd.DataFrame({"gain": gains.astype(int)}), schema)
    release = hush.plan("1-way + sum(gain)", hush.Budget(rho=20.0), "residual", schema=schema).release(table)
    mean = release.mean("gain").quantities[0]
    noisy = np.maximum(release.counts("gain") + random.normal(0, 6, schema.domain["gain"]), 0)
    evidence = [hush.Measurement(("gain",), noisy, stddev=6.0)]
    uniform = hush.fit(schema, evidence).synthesize(9000, seed=1)["gain"].to_numpy()
    assert uniform.mean() > mean.estimate[0] + 100  # the control
    model = hush.fit(schema, evidence)
    model.source = release
    drawn = model.synthesize(9000, seed=1)["gain"].to_numpy()
    assert drawn.mean() == pytest.approx(mean.estimate[0], abs=20)
    assert (drawn == 0).mean() == pytest.approx(0.95, abs=0.01)


def test_an_integer_mean_stays_within_its_bounds() -> None:
    schema = Schema([Integer(name="gain", low=0, high=99_999, starts=(0, 5000, 50_000))])
    frame = pd.DataFrame({"gain": [0, 1, 2]})
    for seed in range(12):
        plan = hush.plan("sum(gain)", hush.Budget(rho=0.01), "residual", schema=schema)
        release = plan.release(hush.read(frame, schema), entropy=NotPrivateEntropy(seed))
        mean = release.mean("gain").quantities[0]
        assert not (mean.estimate < 0).any()
        assert not (mean.intervals.at(0.95)[0] < 0).any()


def test_models_keep_the_means_of_bins(tmp_path) -> None:
    model = released(passengers(500, 9), hush.Budget(rho=2.0), "aim", "<=2-way + sum(fare)").model()
    model.save(tmp_path / "model.hush")
    again = hush.load(tmp_path / "model.hush")
    np.testing.assert_array_equal(again.placing.bin_means["fare"], model.placing.bin_means["fare"])
    assert [names for names, _ in again.placing.reweights] == [("fare",)]
    assert again.synthesize(50, seed=3).equals(model.synthesize(50, seed=3))


def covered(budget: hush.Budget, mechanism: str, trials: int) -> dict[str, np.ndarray]:
    """Whether the interval holds the truth, for each trial and group."""
    frame = passengers(300, 10)
    table = hush.read(frame, SCHEMA)
    plan = hush.plan("sum(fare) by sex + variance(age) by sex", budget, mechanism, schema=SCHEMA)
    by_sex = frame.assign(fare=frame["fare"].clip(0, 300)).groupby("sex")
    truths = {
        "s": by_sex["fare"].sum(),
        "a": by_sex["fare"].mean(),
        "g": by_sex["age"].sum(),
        "v": by_sex["age"].var(),
        "w": by_sex["fare"].sum(),
    }
    hits: dict[str, list] = {name: [] for name in truths}
    for seed in range(trials):
        release = plan.release(table, entropy=NotPrivateEntropy(seed))
        answers = release.sql(
            "SELECT sex, SUM(fare) AS s, AVG(fare) AS a, SUM(age) AS g, VARIANCE(age) AS v FROM t GROUP BY sex"
        )
        for name in "sagv":
            lower, upper = answers[name].quantities[0].intervals.at(0.9)
            hits[name].append((lower <= truths[name]) & (truths[name] <= upper))
        quantity = answers["s"].quantities[0]  # the control: intervals of half the width
        half = (quantity.intervals.at(0.9)[1] - quantity.intervals.at(0.9)[0]) / 4
        hits["w"].append(np.abs(quantity.estimate - truths["s"]) <= half)
    return {name: np.concatenate([np.asarray(each) for each in found]) for name, found in hits.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "mechanism"), [(hush.Budget(rho=0.5), "residual"), (hush.Budget(epsilon=1.0), "hdmm")]
)
def test_intervals_hold_the_truth_as_often_as_they_say(budget: hush.Budget, mechanism: str) -> None:
    """160 intervals of level 0.9: a true 0.9 is below 0.815 with probability 4e-4; half the width holds about 0.6."""
    found = covered(budget, mechanism, 80)
    for name in "sag":
        assert 0.815 <= found[name].mean() <= 0.98, name
    assert found["v"].mean() >= 0.79  # by the delta method
    assert found["w"].mean() < 0.75
