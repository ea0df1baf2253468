"""Planted faults of private choices, of the filter and of the gate's views; the suite must catch each."""

import dataclasses
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hush.mechanisms import candidates
from hush.privacy import gate, gaussian_domination, gaussian_filter, privacy_filter, selection
from hush.privacy.budget import Budget
from hush.privacy.events import ComposedEvent
from hush.privacy.sensitivity import Neighbours, RowNorms
from planting import Bug, Patch, suite

FILTER = "privacy/test_privacy_filter.py::"
GATE = "privacy/test_gate.py::"
SUITE = suite("privacy/test_gate.py")
REQUEST = gate.Request(gate.MarginalQuery(("a",)), SUITE.NOISE)
WORST = "mechanisms/test_candidates_worst_answers.py"
MOVES = WORST + "::test_a_neighbour_moves_a_score_by_the_sensitivity_and_no_further"


def generalized_at_twice(patch: Patch) -> None:
    """The generalised mechanism draws at twice the epsilon that it is charged for."""
    patch.setattr(
        selection.GeneralizedExponentialMechanism,
        "choose",
        lambda self, scores, entropy: selection.ExponentialMechanism(2 * self.epsilon).choose(
            self.normalised(scores), entropy
        ),
    )


def halved(scorer: type) -> Any:
    """A scorer that says a row moves its scores by half."""
    half = property(lambda self: RowNorms.of_number(Fraction(1, 2), Fraction(1, 2)))
    return lambda patch: patch.setattr(scorer, "row_norms", half)


def any_part_counts_as_first(patch: Patch) -> None:
    """A charge counts as first if any of its parts is Laplace noise, though others have no pure epsilon."""
    true = privacy_filter.Tally.add

    def wrong(self: Any, event: Any, cost: Any) -> None:
        parts = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
        if self.only_first and any(isinstance(part, privacy_filter.DEDUCTED_FIRST) for part, _ in parts):
            self.first.append(cost)
        else:
            true(self, event, cost)

    patch.setattr(privacy_filter.Tally, "add", wrong)


def late_deltas(patch: Patch) -> None:
    """Once a delta came first, deltas are taken at any time."""

    def wrong(budget: Any, limit: Fraction, spent: Any, tally: Any) -> bool:
        first = privacy_filter._pure_first(limit, tally)
        return not spent.delta or (first is not None and spent.delta <= Fraction(budget.delta or 0))

    patch.setattr(privacy_filter, "keeps_delta", wrong)


def cheap_choices(patch: Patch) -> None:
    """A choice charged a third of what it costs in Gaussian DP."""
    true = gaussian_domination._bounded_cost
    patch.setattr(gaussian_domination, "_bounded_cost", lambda rho, left: true(rho, left) / 3)
    patch.setattr(gaussian_domination.Demand, "least", property(lambda demand: Fraction(0)))


def two_rules_with_one_delta(patch: Patch) -> None:
    """Plain addition beside Gaussian DP, each with the whole delta, of which events may use as much as they like."""
    patch.setattr(gaussian_filter, "CONVERTED_DELTA", Fraction(1))
    patch.setattr(gaussian_filter.GaussianFilter, "keeps_delta", True)


def views_unwatched(patch: Patch) -> None:
    """What a watcher saw at a view of merged levels is stamped as private."""
    patch.setattr(
        gate.Gate,
        "private",
        property(
            lambda self: type(self._entropy) is gate.SystemEntropy and not self._watched and gate._watcher.get() is None
        ),
    )


def failures_tell(patch: Patch) -> None:
    """A scorer that fails on exact counts may say so in its own words."""
    patch.setattr(gate.Gate, "_messages_kept", lambda self, asked: nullcontext())


def rows_checked_after_the_charge(patch: Patch) -> None:
    """Rows that the schema refuses are paid for."""

    def wrong(self: Any, event: Any, note: str, *, most_rows: int) -> None:
        self.account.charge(event, note=note)
        self._table.check(most_rows)

    patch.setattr(gate.Gate, "_charge", wrong)


def view_of_another_relation(patch: Patch) -> None:
    """A view of merged levels that forgets how neighbours differ."""
    true = gate.Gate.coarse

    def wrong(self: Any, codes: Any) -> Any:
        view = true(self, codes)
        view.neighbours = Neighbours.ADD_REMOVE
        return view

    patch.setattr(gate.Gate, "coarse", wrong)


def normalised_exactly(patch: Patch) -> None:
    """Normalised scores that admit no rounding."""
    true = selection.GeneralizedExponentialMechanism.normalised
    patch.setattr(
        selection.GeneralizedExponentialMechanism,
        "normalised",
        lambda self, scores: dataclasses.replace(true(self, scores), error=0.0),
    )


FAULTS = {
    "failures tell of counts": Bug(
        failures_tell,
        GATE + "test_what_fails_on_exact_counts_does_not_tell_of_them",
        {"ask": lambda entrance: entrance.select(SUITE.Talkative(), selection.ExponentialMechanism(Fraction(1)))},
    ),
    "rows checked after the charge": Bug(
        rows_checked_after_the_charge,
        GATE + "test_rows_that_are_refused_are_not_paid_for",
        {"ask": lambda entrance: entrance.measure([REQUEST]), "most_rows": 2**61},
    ),
    "view of another relation": Bug(
        view_of_another_relation,
        GATE + "test_a_view_of_merged_levels_charges_the_same_account_as_much",
        {"relation": Neighbours.REPLACE},
    ),
    "normalised scores without error": Bug(
        normalised_exactly,
        "privacy/test_selection.py::test_generalized_scores_admit_the_error_of_floats_and_of_the_scores_given",
        {"epsilon": Fraction(1)},
    ),
    "generalised choice at twice the epsilon": Bug(
        generalized_at_twice, "privacy/test_selection.py::test_generalized_draws_have_the_exact_law"
    ),
    "worst cells move by half": Bug(
        halved(candidates.WorstCellScorer),
        MOVES,
        {"scorer": suite(WORST).scorers()[0], "relation": Neighbours.ADD_REMOVE},
    ),
    "single answers move by half": Bug(
        halved(candidates.TargetScorer),
        MOVES,
        {"scorer": suite(WORST).scorers()[1], "relation": Neighbours.REPLACE},
    ),
    "any part counts as first": Bug(
        any_part_counts_as_first, FILTER + "test_a_charge_counts_as_first_only_if_all_its_parts_do"
    ),
    "late deltas": Bug(
        late_deltas,
        FILTER + "test_a_delta_is_refused_after_other_noise_although_another_delta_came_first",
        {"between": suite("privacy/test_privacy_filter.py").gauss(0.1)},
    ),
    "choices at a third of their cost": Bug(
        cheap_choices,
        "privacy/test_gaussian_filter.py::test_the_best_attack_stays_within_delta",
        {"budget": Budget(epsilon=1.0, delta=0.05)},
    ),
    "two rules with one delta": Bug(
        two_rules_with_one_delta,
        "privacy/test_gaussian_filter.py::test_the_best_attack_stays_within_delta",
        {"budget": Budget(epsilon=1.0, delta=0.01)},
    ),
    "views of merged levels unwatched": Bug(
        views_unwatched, GATE + "test_what_is_watched_at_a_view_of_merged_levels_is_stamped"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    FAULTS[name].check(monkeypatch, tmp_path)
