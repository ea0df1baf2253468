"""Planted faults in private partitions, in the bias of grids and in resuming: the suite must catch each."""

import __future__

import inspect
import sys
import textwrap
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.histograms import grid_bias, interval_costs
from hush.mechanisms import DAWA, dawa
from hush.privacy import partition_laws
from hush.privacy.budget import Budget
from hush.privacy.events import NoisyChoiceEvent, SelectionEvent
from planting import Bug, Patch, suite

INTERVALS = "histograms/test_interval_costs.py::"
RESUMING = "mechanisms/test_dawa_resuming.py::"


def edit(patch: Patch, owner: type, method: str, old: str, new: str) -> None:
    """Replace a piece of the source of a method."""
    source = textwrap.dedent(inspect.getsource(getattr(owner, method)))
    assert source.count(old) == 1
    flags = __future__.annotations.compiler_flag
    names = dict(vars(sys.modules[owner.__module__]))
    exec(compile(source.replace(old, new), "planted", "exec", flags), names)
    patch.setattr(owner, method, names[method])


def tree_of_bounded_range(patch: Patch) -> None:
    """A splitting tree priced as a choice by the exponential mechanism."""
    patch.setattr(partition_laws.SplittingTree, "event", lambda self: SelectionEvent(self.epsilon))


def children_beyond_their_parent(patch: Patch) -> None:
    """Scores of nodes taken as they are, so that they need not fall along a path of the tree."""
    edit(patch, partition_laws.SplittingTree, "choose", "np.minimum(above[many], np.clip(", "(np.clip(")


def noisy_costs_cut_off_at_zero(patch: Patch) -> None:
    """Noisy costs below 0 count as 0."""
    true = partition_laws.cheapest_partition
    patch.setattr(partition_laws, "cheapest_partition", lambda costs, lengths: true(np.maximum(costs, 0), lengths))


def costs_in_steps_of_one(patch: Patch) -> None:
    """Costs in steps of 1 / grid with the sensitivity of whole rows."""

    def wrong(self: Any) -> tuple[int, ...]:
        return tuple(1 if length > 1 else 0 for length in self.lengths)

    patch.setattr(interval_costs.IntervalDeviations, "own", property(wrong))


def bias_without_an_end(patch: Patch) -> None:
    """A bias of any size, of which floats do not know the last steps."""
    patch.setattr(grid_bias, "LARGEST_BIAS", 2**62)


def probes_asked_again(patch: Patch) -> None:
    """A resumed release pays again for the probes that are on record."""
    true = dawa.DawaRun.__init__

    def wrong(self: Any, *given: Any) -> None:
        true(self, *given)
        self.paid_probes = []

    patch.setattr(dawa.DawaRun, "__init__", wrong)


def rounds_asked_again(patch: Patch) -> None:
    """A resumed map pays again for the round that is on record."""
    true = dawa.DawaRun.__init__

    def wrong(self: Any, *given: Any) -> None:
        true(self, *given)
        self.record.measured.clear()

    patch.setattr(dawa.DawaRun, "__init__", wrong)


def decisions_by_the_account(patch: Patch) -> None:
    """A resumed release decides by what the account holds, without the probes that are still to be read."""

    def account(self: Any) -> Fraction:
        return Fraction(self.unspent - self.aside)

    patch.setattr(dawa.DawaRun, "left", property(account, lambda self, value: None), raising=False)


PARTITIONS = {
    "tree of bounded range": Bug(
        tree_of_bounded_range,
        INTERVALS + "test_a_choice_is_charged_by_what_its_law_keeps_to",
        {
            "scorer": interval_costs.NodeScores(("x",), 4),
            "law": partition_laws.SplittingTree(Fraction(1, 2)),
            "event": NoisyChoiceEvent(Fraction(1, 2)),
        },
    ),
    "children beyond their parent": Bug(
        children_beyond_their_parent,
        "privacy/test_partition_laws_tree.py::test_scores_above_those_of_the_parent_count_as_no_more",
    ),
    "noisy costs cut off at zero": Bug(
        noisy_costs_cut_off_at_zero,
        "privacy/test_partition_laws.py::test_noisy_costs_have_the_law_that_is_computed",
        {"floor": 0},
    ),
    "costs in steps of one": Bug(
        costs_in_steps_of_one,
        INTERVALS + "test_neighbours_are_no_further_apart_than_declared",
        {
            "scorer": interval_costs.IntervalDeviations(("x",), 4, grid=5, lengths=(1, 2, 3, 4)),
            "relation": suite("histograms/test_interval_costs.py").Neighbours.ADD_REMOVE,
        },
    ),
    "bias without an end": Bug(
        bias_without_an_end,
        "histograms/test_grid_bias.py::test_the_statistic_ends_where_floats_know_its_last_steps",
        {"queries": "prefix"},
    ),
    "probes asked again": Bug(
        probes_asked_again,
        RESUMING + "test_a_lost_charge_leaves_what_is_on_record_and_enough_for_the_histogram",
        {"settings": DAWA()},
    ),
    "rounds asked again": Bug(
        rounds_asked_again,
        RESUMING + "test_a_resumed_map_cuts_the_blocks_that_were_measured",
        {"budget": Budget(epsilon=2)},
    ),
    "decisions by the account": Bug(
        decisions_by_the_account,
        RESUMING + "test_a_resumed_release_asks_exactly_what_a_whole_one_asks",
        {"share": 0.45, "budget": Budget(epsilon=0.4)},
    ),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    PARTITIONS[name].check(monkeypatch, tmp_path)
