"""dawa, interrupted: a resumed release asks what the whole one would have asked, and pays for nothing twice."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hush
from hush import Budget, Domain, Workload
from hush.core.errors import InterruptedRelease
from hush.histograms.grid_bias import GridBias
from hush.mechanisms import DAWA
from hush.mechanisms.plan import Plan
from hush.mechanisms.release_job import ReleaseJob
from hush.privacy.events import price
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.testing import TinyTable

SIZE = 256
SEEDS = range(0, 12, 2)


def table(seed: int, size: int = SIZE) -> Any:
    """Some 1,600 rows around the middle level, the more even the larger the seed."""
    random = np.random.default_rng(seed)
    levels = np.rint(random.normal(size / 2, size * (seed + 1) / 40, 1600)).clip(0, size - 1).astype(int)
    return TinyTable(Domain({"x": size}), [(int(level),) for level in levels])


def planned(settings: DAWA, budget: Budget, size: int = SIZE) -> Plan:
    return settings.plan(Workload.product(Domain({"x": size}), {"x": hush.queries.prefix}), budget)


def stopped_after(tables: int) -> Callable[[float], None]:
    """Press Ctrl-C once so many noisy numbers, tables or choices are on record."""
    count = 0

    def progress(_: float) -> None:
        nonlocal count
        count += 1
        if count == tables:
            raise KeyboardInterrupt

    return progress


class Interrupted(NotPrivateEntropy):
    """Noise whose reader presses Ctrl-C while it is drawn: after the charge, before anything is on record."""

    def __init__(self, seed: int, draws: int) -> None:
        super().__init__(seed)
        self.left = draws

    def words(self, count: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().words(count)


def question(asked: Any) -> tuple[Any, ...]:
    cuts = tuple(tuple(grid.cuts.tolist()) for grid in getattr(asked, "grids", ()))
    return type(asked).__name__, cuts, getattr(asked, "hats", ())


def record(release: hush.Release) -> list[Any]:
    """Every question, in order, with its noise and the noisy answer."""
    record = release.record
    return [(question(each.asked), each.law, np.asarray(each.raw).tolist()) for each in record.probes + record.measured]


def through_a_file(release: hush.Release, folder: Path) -> hush.Release:
    release.save(folder / "partial.hush", overwrite=True)
    return hush.load(folder / "partial.hush")  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("share", "budget"), [(0.1, Budget(epsilon=0.4)), (0.45, Budget(epsilon=0.4)), (0.45, Budget(rho=0.03))]
)
def test_a_resumed_release_asks_exactly_what_a_whole_one_asks(share: float, budget: Budget, tmp_path: Path) -> None:
    """Interrupted after every number, with the noise that the whole release would have drawn next.

    Counting what was set aside twice, or a number before its turn, would change a decision in several of the runs.
    """
    plan, stops = planned(DAWA(bias_share=share), budget), 0
    for seed in SEEDS:
        data = table(seed)
        whole = ReleaseJob(plan, entropy=NotPrivateEntropy(seed)).run(data)
        for stop in range(1, len(whole.record.probes) + 1):
            entropy, stops = NotPrivateEntropy(seed), stops + 1
            with pytest.raises(InterruptedRelease) as caught:
                ReleaseJob(plan, entropy=entropy).run(data, progress=stopped_after(stop))
            partial = through_a_file(caught.value.release, tmp_path)
            assert len(partial.record.probes) == stop
            again = ReleaseJob(plan, entropy=entropy, resume=partial).run(data)
            assert record(again) == record(whole)
            assert price(again.statement.event) == price(whole.statement.event)
    assert stops > 2 * len(SEEDS)  # most runs decide twice or more


@pytest.mark.parametrize("partition", ["noisy-costs", "exponential", "tree"])
def test_a_partition_that_was_chosen_is_kept(partition: str, tmp_path: Path) -> None:
    plan = planned(DAWA(partition=partition, bias_share=0.2), Budget(epsilon=0.4), 64)
    for seed in (1, 2):
        data = table(seed, 64)
        whole = ReleaseJob(plan, entropy=NotPrivateEntropy(seed)).run(data)
        for stop in (1, 2):
            entropy = NotPrivateEntropy(seed)
            with pytest.raises(InterruptedRelease) as caught:
                ReleaseJob(plan, entropy=entropy).run(data, progress=stopped_after(stop))
            partial = through_a_file(caught.value.release, tmp_path)
            again = ReleaseJob(plan, entropy=entropy, resume=partial).run(data)
            assert record(again) == record(whole)
            assert price(again.statement.event) == price(whole.statement.event)


def test_the_published_form_keeps_the_partition_that_was_chosen(tmp_path: Path) -> None:
    plan, data = planned(DAWA(paper=True), Budget(epsilon=0.4), 64), table(1, 64)
    whole = ReleaseJob(plan, entropy=NotPrivateEntropy(1)).run(data)
    entropy = NotPrivateEntropy(1)
    with pytest.raises(InterruptedRelease) as caught:
        ReleaseJob(plan, entropy=entropy).run(data, progress=stopped_after(1))
    partial = through_a_file(caught.value.release, tmp_path)
    assert not partial.record.measured
    assert np.array_equal(partial.record.cuts, whole.record.cuts)
    again = ReleaseJob(plan, entropy=entropy, resume=partial).run(data)
    assert record(again) == record(whole)
    assert price(again.statement.event) == price(whole.statement.event)


@pytest.mark.parametrize("settings", [DAWA(), DAWA(bias_share=0.45)], ids=["plain", "bias_share"])
def test_a_lost_charge_leaves_what_is_on_record_and_enough_for_the_histogram(settings: DAWA) -> None:
    """Interrupted, again and again, between a charge and its noisy answer: nothing on record is asked again."""
    plan, resumed = planned(settings, Budget(epsilon=0.4)), 0
    for seed in SEEDS:
        data, release = table(seed), None
        for draws in (0, 0, 1):
            try:
                job = ReleaseJob(plan, entropy=Interrupted(seed, draws), resume=release)
                release = job.run(data)
                break
            except InterruptedRelease as stopped:
                kept = [] if release is None else record(release)
                release = stopped.release
                assert record(release)[: len(kept)] == kept
        if not release.complete:
            kept, resumed = record(release), resumed + 1
            release = ReleaseJob(plan, entropy=NotPrivateEntropy(seed), resume=release).run(data)
            assert record(release)[: len(kept)] == kept
        grids = [question(probe.asked) for probe in release.record.probes if isinstance(probe.asked, GridBias)]
        searched = grids[:-1] if settings.bias_share else grids
        assert len(set(searched)) == len(searched)
        assert len(release.record.probes) - len(grids) <= 2  # of the number of rows
        assert price(release.statement.event).epsilon <= Fraction(0.4)
        assert (np.asarray(release.counts("x")) >= 0).all()
    assert resumed == len(SEEDS)


def test_tables_that_were_measured_before_an_interruption_are_kept() -> None:
    plan, data = planned(DAWA(), Budget(epsilon=0.4)), table(3)
    whole = ReleaseJob(plan, entropy=NotPrivateEntropy(3)).run(data)
    assert len(whole.record.measured) > 1
    for draws in range(40):
        try:
            ReleaseJob(plan, entropy=Interrupted(3, draws)).run(data)
        except InterruptedRelease as stopped:
            if not stopped.release.record.measured:
                continue
            release = ReleaseJob(plan, resume=stopped.release).run(data)
            assert release.complete
            assert record(release) == record(whole)[: len(record(release))]
            assert price(release.statement.event) == price(whole.statement.event)
            break
    else:
        pytest.fail("no interruption came between two tables")


def map_table(seed: int) -> TinyTable:
    """Some 3,000 rows in two corners of a map of 32 x 16."""
    random = np.random.default_rng(seed)
    rows = random.binomial([31, 15], 0.15, (3000, 2))
    rows[:1000] = [31, 15] - rows[:1000] // 2
    return TinyTable(Domain({"x": 32, "y": 16}), [(int(x), int(y)) for x, y in rows])


def map_plan(budget: Budget) -> Plan:
    ranges = {"x": hush.queries.ranges, "y": hush.queries.ranges}
    return DAWA().plan(Workload.product(Domain({"x": 32, "y": 16}), ranges), budget)


@pytest.mark.parametrize("budget", [Budget(epsilon=2), Budget(rho=0.5)])
def test_a_resumed_map_cuts_the_blocks_that_were_measured(budget: Budget, tmp_path: Path) -> None:
    plan = map_plan(budget)
    for seed in (1, 2):
        data = map_table(seed)
        whole = ReleaseJob(plan, entropy=NotPrivateEntropy(seed)).run(data)
        assert len(whole.record.probes) == 1
        assert 0 < len(whole.record.cuts[-1].nodes) < 32 * 16
        for stop, tables in ((1, 0), (2, 2)):
            entropy = NotPrivateEntropy(seed)
            with pytest.raises(InterruptedRelease) as caught:
                ReleaseJob(plan, entropy=entropy).run(data, progress=stopped_after(stop))
            partial = through_a_file(caught.value.release, tmp_path)
            assert (len(partial.record.measured), len(partial.record.cuts)) == (tables, 0)
            again = ReleaseJob(plan, entropy=entropy, resume=partial).run(data)
            assert record(again) == record(whole)
            assert again.record.cuts[-1].nodes.tolist() == whole.record.cuts[-1].nodes.tolist()
            assert price(again.statement.event) == price(whole.statement.event)


def test_a_map_whose_first_round_was_lost_in_part_is_finished_with_what_is_left() -> None:
    """Interrupted between the tables of a round: all of them are charged, and those on record are not asked again."""
    plan, data, finished = map_plan(Budget(epsilon=2)), map_table(3), set()
    for draws in range(12):
        try:
            ReleaseJob(plan, entropy=Interrupted(3, draws)).run(data)
        except InterruptedRelease as stopped:
            kept = record(stopped.release)
            release = ReleaseJob(plan, entropy=NotPrivateEntropy(3), resume=stopped.release).run(data)
            assert record(release)[: len(kept)] == kept
            assert release.complete
            finished.add((len(kept), bool(release.record.cuts)))
            assert price(release.statement.event).epsilon <= 2
            assert np.abs(release.counts(()) - 3000) < 200
    # Before the first table, all was lost that was charged; between the two of the first round; and in the second.
    assert {tables for tables, _ in finished} >= {1, 2, 3}
    assert (3, False) in finished  # all of the budget was charged
    assert (2, True) in finished


def test_a_resumed_line_of_few_rows_goes_on_from_every_round(tmp_path: Path) -> None:
    plan = planned(DAWA(), Budget(epsilon=0.02), 512)
    for seed in (1, 2):
        data = table(seed, 512)
        whole = ReleaseJob(plan, entropy=NotPrivateEntropy(seed)).run(data)
        assert len(whole.record.cuts) == 2
        probes = len(whole.record.probes)
        for stop in range(probes, probes + 3):
            entropy = NotPrivateEntropy(seed)
            with pytest.raises(InterruptedRelease) as caught:
                ReleaseJob(plan, entropy=entropy).run(data, progress=stopped_after(stop))
            partial = through_a_file(caught.value.release, tmp_path)
            assert len(partial.record.measured) == stop - probes
            again = ReleaseJob(plan, entropy=entropy, resume=partial).run(data)
            assert record(again) == record(whole)
            assert price(again.statement.event) == price(whole.statement.event)
