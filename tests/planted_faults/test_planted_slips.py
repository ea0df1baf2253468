"""Planted slips: mistakes that a change of this code could bring, planted one at a time; the suite must catch each."""

import dataclasses
import math
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.histograms import bucket_trees, interval_costs
from hush.mechanisms import (
    MWEM,
    DualQuery,
    Independent,
    PrivSyn,
    candidates,
    release_job,
    table_distances,
)
from hush.mechanisms.published import dualquery, mwem
from hush.mechanisms.session import Session
from hush.privacy import (
    account,
    budget,
    conversions,
    exact_sampling,
    gate,
    noise,
    partition_laws,
    privacy_filter,
    selection,
)
from hush.privacy.events import LaplaceEvent, NoisyChoiceEvent, SelectionEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.sensitivity import Neighbours, RowNorms, sensitivity
from hush.release.survey_record import survey_norms
from hush.strategies import axis_strategy, rare_levels
from hush.tables import rows_per_unit
from hush.tables.table import Table
from planting import Bug, Patch, suite

CONTRACT = "mechanisms/test_mechanism_contract.py::test_the_contract_is_kept"
NOISE_AT_THE_GATE = "privacy/test_gate.py::test_answers_are_exact_counts_plus_integer_noise_of_the_law"


def cells_forget_units(patch: Patch) -> None:
    """Scores of dualquery with the sensitivity of one row, whatever units have."""
    true = dualquery.CellScorer.scores
    patch.setattr(dualquery.CellScorer, "scores", lambda self, counts, bound: true(self, counts, Fraction(1)))


def misfits_forget_units(patch: Patch) -> None:
    """Scores of adaptive rounds with the sensitivity of one row."""
    true = candidates.MisfitScorer.scores
    patch.setattr(candidates.MisfitScorer, "scores", lambda self, counts, bound: true(self, counts, self.row_norms.l1))


def normalised_forgets_units(patch: Patch) -> None:
    """The generalised mechanism scales each score by what a single row does, not a unit."""
    true = selection.GeneralizedExponentialMechanism.normalised

    def wrong(self: Any, scores: Any) -> Any:
        return true(self, dataclasses.replace(scores, sensitivity=scores.sensitivity / 3, own=scores.own / 3))

    patch.setattr(selection.GeneralizedExponentialMechanism, "normalised", wrong)


def choices_forget_units(patch: Patch) -> None:
    """The gate bounds scores by what one row does."""
    true = gate.sensitivity
    patch.setattr(
        gate, "sensitivity", lambda row, *, max_rows, neighbours: true(row, max_rows=1, neighbours=neighbours)
    )


def cells_move_by_half(patch: Patch) -> None:
    """A scorer that understates what a row does."""
    patch.setattr(
        dualquery.CellScorer, "row_norms", property(lambda self: RowNorms.of_number(Fraction(1, 2), Fraction(1, 2)))
    )


def session_draws_at_twice(patch: Patch) -> None:
    """A session that charges one epsilon and draws at twice that."""

    class Twice:
        def __init__(self, law: Any) -> None:
            self.law, self.epsilon = law, law.epsilon

        def event(self) -> Any:
            return self.law.event()

        def choose(self, scores: Any, entropy: Any) -> Any:
            return type(self.law)(2 * self.law.epsilon).choose(scores, entropy)

    def wrong(self: Any, scorer: Any, rho: Fraction, *, note: str) -> Any:
        law = selection.ExponentialMechanism.for_rho(rho)
        return self.gate.select(scorer, Twice(law), note=note), law

    patch.setattr(Session, "select", wrong)


def session_scores_twice(patch: Patch) -> None:
    """The same by scores that are twice as far apart as they say."""
    true = candidates.MisfitScorer.misfits
    patch.setattr(candidates.MisfitScorer, "misfits", lambda self, counts: 2 * true(self, counts))


def last_charge_fits(patch: Patch) -> None:
    """Off by one: as long as anything is left, the next charge goes through."""
    true = account.check_affordable

    def wrong(charged: Any, *rest: Any, **named: Any) -> None:
        if charged.left <= 0:
            true(charged, *rest, **named)

    patch.setattr(account, "check_affordable", wrong)


def choice_before_charge(patch: Patch) -> None:
    """A choice that is drawn first and charged afterwards."""
    true = gate.Gate.select

    def wrong(self: Any, scorer: Any, law: Any, *, note: str = "") -> Any:
        charge, self._charge = self._charge, lambda event, note, **how: None
        try:
            chosen = true(self, scorer, law, note=note)
        finally:
            self._charge = charge
        self._charge(law.event(), note, most_rows=gate.MOST_SCORED_ROWS)
        return chosen

    patch.setattr(gate.Gate, "select", wrong)


def charge_a_copy(patch: Patch) -> None:
    """A release that charges an account of its own, of which the ledger never hears."""
    true = release_job.open_account
    patch.setattr(release_job, "open_account", lambda budget, book, **how: true(budget, None, **how))


def same_words_for_every_batch(patch: Patch) -> None:
    """A generator that starts anew with every batch of counts: noise repeats between batches, not between runs."""
    true = gate.Gate._noisy
    seed, started = secrets.randbits(60), {}

    def wrong(self: Any, request: Any, counts: Any) -> Any:
        self._entropy = started.setdefault(id(counts), (NotPrivateEntropy(seed), counts))[0]
        return true(self, request, counts)

    patch.setattr(gate.Gate, "_noisy", wrong)


def one_draw_for_all_cells(patch: Patch) -> None:
    """Noise drawn once and broadcast over the table."""
    for law in gate.NOISE_LAWS:
        true = law.sample

        def wrong(self: Any, shape: Any, entropy: Any, true: Any = true) -> Any:
            return np.full(shape, int(true(self, (), entropy)))

        patch.setattr(law, "sample", wrong)


def no_far_tail(patch: Patch) -> None:
    """Noise cut off at eight deviations, which no statistical test can see: outputs beyond tell tables apart."""
    true = noise.DiscreteGaussian.sample

    def wrong(self: Any, shape: Any, entropy: Any) -> Any:
        reach = int(8 * float(self.variance_parameter) ** 0.5)
        return np.clip(true(self, shape, entropy), -reach, reach)

    patch.setattr(noise.DiscreteGaussian, "sample", wrong)


def floats_at_the_gate(patch: Patch) -> None:
    """Integer noise added in floating point: counts beyond 2^53 are rounded first (Casacuberta et al. 2022)."""
    for law in gate.NOISE_LAWS:
        true = law.sample

        class Rounded(np.ndarray):
            def __iadd__(self, other: Any) -> Any:
                return (np.asarray(self, dtype=np.float64) + np.asarray(other, dtype=np.float64)).astype(np.int64)

        patch.setattr(
            law, "sample", lambda self, shape, entropy, true=true, kind=Rounded: true(self, shape, entropy).view(kind)
        )


def half_noise_on_tables(patch: Patch) -> None:
    """Noise that shrinks with the size of the table, as if its cells shared a budget."""
    true = gate.Gate._noisy

    def wrong(self: Any, request: Any, counts: Any) -> Any:
        if math.prod(request.query.answer(counts).shape) > 4:
            request = gate.Request(request.query, noise.DiscreteGaussian(request.noise.variance_parameter / 4))
        return true(self, request, counts)

    patch.setattr(gate.Gate, "_noisy", wrong)


def relation_of_the_plan_lost(patch: Patch) -> None:
    """A job that opens the gate without the plan's relation of neighbours."""
    true = release_job.Gate

    def wrong(table: Any, account: Any, *, neighbours: Neighbours, entropy: Any) -> Any:
        return true(table, account, entropy=entropy)

    patch.setattr(release_job, "Gate", wrong)


def exact_counts_in_the_partial_file(patch: Patch) -> None:
    """What an interrupted release keeps is written before the noise."""
    true = release_job.ReleaseJob._release

    def wrong(self: Any, table: Any, session: Any, *others: Any, complete: bool) -> Any:
        if not complete:
            for noisy in session.noisy_tables:
                noisy.raw[...] = session.gate._table.counts([noisy.clique])[noisy.clique]
        return true(self, table, session, *others, complete=complete)

    patch.setattr(release_job.ReleaseJob, "_release", wrong)


def missing_ids_are_units(patch: Patch) -> None:
    """Rows without an id count as a unit each, or as many rows of one."""
    patch.setattr(rows_per_unit, "unit_misfits", lambda name, orphans=False, rounded=False: [])


def counts_through_floats(patch: Patch) -> None:
    """A column of counts read as floats: one row moves a large count by two, or not at all."""
    patch.setattr(rows_per_unit, "row_count", lambda source: f"CAST(CAST(c{source.position('n')} AS DOUBLE) AS BIGINT)")


def rows_asked_for_after_the_charge(patch: Patch) -> None:
    """A table of too many rows for exact answers is paid for, and then refused."""
    true = Table.check
    patch.setattr(Table, "check", lambda self, most_rows=0: true(self))


def share_of_every_level(patch: Patch) -> None:
    """The bound on rows of a unit kept for each level by itself."""
    true = rows_per_unit.CappedRows._kept
    patch.setattr(
        rows_per_unit.CappedRows,
        "_kept",
        lambda *given: true(*given).replace("PARTITION BY unit", "PARTITION BY unit, k0"),
    )


def budget_rounded_up(patch: Patch) -> None:
    """The zCDP of (epsilon, delta) rounded up."""
    patch.setattr(conversions, "_down", conversions._up)


def noise_rounded_down(patch: Patch) -> None:
    """The scale of noise rounded down: a little less than was paid for."""
    patch.setattr(noise, "_round_up", lambda value: Fraction(int(value * 2**20), 2**20))


def remaining_rounded_up(patch: Patch) -> None:
    """What is left of a budget rounded to a float, upwards."""
    true = privacy_filter.left_of
    patch.setattr(privacy_filter, "left_of", lambda *given: Fraction(np.nextafter(float(true(*given)), np.inf)))


def no_error_admitted(patch: Patch) -> None:
    """Scores in floats that admit no rounding error."""
    true = candidates.MisfitScorer.scores

    def wrong(self: Any, counts: Any, bound: Fraction) -> Any:
        return dataclasses.replace(true(self, counts, bound), error=0.0)

    patch.setattr(candidates.MisfitScorer, "scores", wrong)


def model_off_the_grid(patch: Patch) -> None:
    """Models scored as they are: sums of floats depend on their order, and round beyond what is admitted."""
    patch.setattr(mwem, "on_grid", dict)


def basis_scale_forgotten(patch: Patch) -> None:
    """The sensitivity of the least column of a strategy, for all of them."""
    patch.setattr(
        axis_strategy.AxisStrategy,
        "largest_l2_squared",
        property(lambda self: int((self.matrix**2).sum(axis=0).min())),
    )


def merged_levels_counted_twice(patch: Patch) -> None:
    """A level that is merged and also kept."""
    true = rare_levels.Merging.table

    def wrong(self: Any, clique: Any, counts: Any) -> Any:
        merged = true(self, clique, counts)
        return merged + (merged.shape != counts.shape) * merged

    patch.setattr(rare_levels.Merging, "table", wrong)


def mu_taken_for_rho(patch: Patch) -> None:
    """mu^2 for mu^2 / 2."""
    true = budget.Budget.rho.fget

    patch.setattr(budget.Budget, "rho", property(lambda self: self._mu**2 if self._mu is not None else true(self)))


def exact_total(patch: Patch) -> None:
    """A model that is given the exact number of rows (known n)."""
    true = Session.fit

    def wrong(self: Any, **options: Any) -> Any:
        return true(self, total=float(self.gate._table.counts([()])[()]) + 0.5, **options)

    patch.setattr(Session, "fit", wrong)


def misfit_of_exact_counts(patch: Patch) -> None:
    """The record of a round tells the exact misfit of the chosen table."""
    true = Session.ended

    def wrong(self: Any, played: Any) -> None:
        exact = self.gate._table.counts([played.clique])[played.clique]
        true(self, type(played)(**{**_fields(played), "misfit": float(exact.sum())}))

    patch.setattr(Session, "ended", wrong)


def _fields(played: Any) -> dict[str, Any]:
    return {name: getattr(played, name) for name in played.__struct_fields__}


def message_tells_a_count(patch: Patch) -> None:
    """An error of the gate that helps with the exact answer."""
    true = gate.Gate._noisy

    def wrong(self: Any, request: Any, counts: Any) -> Any:
        try:
            return true(self, request, counts)
        except gate.DataError as error:
            raise gate.DataError(f"{error} ({request.query.answer(counts).max()})") from None

    patch.setattr(gate.Gate, "_noisy", wrong)


def resumed_for_free(patch: Patch) -> None:
    """A run that goes on with the whole budget, as if nothing had been spent."""
    patch.setattr(account.Allowance, "resume", lambda self, event: None)


def top_k_for_one(patch: Patch) -> None:
    """k choices charged as one."""
    patch.setattr(selection.TopK, "event", lambda self: SelectionEvent(self.epsilon))


def laplace_by_l2(patch: Patch) -> None:
    """Laplace noise priced by the L2 sensitivity."""
    patch.setattr(
        noise.DiscreteLaplace,
        "event",
        lambda self, bound: LaplaceEvent(self.scale, Fraction(float(bound.l2_squared) ** 0.5)),
    )


def equal_events_once(patch: Patch) -> None:
    """Equal charges of one request counted once."""
    true = gate.compose
    patch.setattr(gate, "compose", lambda events: true(list(dict.fromkeys(events))))


def floats_decide(patch: Patch) -> None:
    """Comparisons that floats cannot decide are decided by them all the same."""

    def wrong(prefix: int, bits: int, x: Fraction, entropy: Any) -> bool:
        return prefix * 2.0**-bits < math.exp(-float(x))

    for module in (exact_sampling, selection, suite("privacy/test_exact_sampling.py")):
        patch.setattr(module, "below_exp", wrong)


GATE = "privacy/test_gate.py::"
COUNTS = "privacy/test_gate_counts.py::"


def noisy_costs_cut_off(patch: Patch) -> None:
    """Noisy costs of intervals are cut off from below before they are compared, as in a published program."""
    true = partition_laws.cheapest_partition
    patch.setattr(partition_laws, "cheapest_partition", lambda costs, lengths: true(np.maximum(costs, 2), lengths))


def noisy_choice_of_bounded_range(patch: Patch) -> None:
    """A choice by noisy costs priced as one by the exponential mechanism."""
    patch.setattr(partition_laws.NoisyPartition, "event", lambda self: SelectionEvent(self.epsilon))


def tree_with_the_noise_of_one_node(patch: Patch) -> None:
    """A splitting tree with the noise of a single comparison, as if its nodes were apart."""
    patch.setattr(partition_laws, "_least_noise", lambda epsilon, decay: (1 / epsilon, math.ceil(decay / epsilon)))


def partitions_forget_units(patch: Patch) -> None:
    """Costs of intervals with the sensitivity of one row, whatever a unit is."""
    true = interval_costs.IntervalDeviations.scores
    patch.setattr(
        interval_costs.IntervalDeviations,
        "scores",
        lambda self, counts, bound: true(self, counts, self.row_norms.l1),
    )


def tree_priced_by_its_leaves(patch: Patch) -> None:
    """The shares of a tree's path counted as one."""
    patch.setattr(bucket_trees.BucketTreeQuery, "row_norms", RowNorms.of_number(1, 2))


def pair_scores_priced_as_one(patch: Patch) -> None:
    """All scores of pairs at the price of one."""
    patch.setattr(table_distances, "survey_norms", lambda count: RowNorms.of_number(1, 2))


def merged_distances_for_nothing(patch: Patch) -> None:
    """Distances with merged levels at no price."""
    patch.setattr(
        table_distances.TableDistances,
        "sensitivity",
        lambda self, *, max_rows, neighbours: sensitivity(
            survey_norms(len(self.tables)), max_rows=max_rows, neighbours=neighbours
        ),
    )


def pair_scores_forget_units(patch: Patch) -> None:
    """Scores of pairs with the sensitivity of one row, whatever a unit is."""
    true = table_distances.TableDistances.sensitivity
    patch.setattr(
        table_distances.TableDistances,
        "sensitivity",
        lambda self, *, max_rows, neighbours: true(self, max_rows=1, neighbours=neighbours),
    )


MISFIT = "mechanisms/test_candidates_misfit.py::"
PARTITIONS = "privacy/test_partition_laws.py::"
ROUNDS = {"mechanism": MWEM(rounds=1)}
COLUMNS = {"mechanism": Independent()}
AXIS = suite("strategies/test_axis_strategy.py")

SLIPS = {
    "dualquery forgets units": Bug(cells_forget_units, CONTRACT, {"mechanism": DualQuery(turns=3, draws=2)}),
    "rounds forget units": Bug(misfits_forget_units, CONTRACT, ROUNDS),
    "scores of pairs at the price of one": Bug(
        pair_scores_priced_as_one,
        "mechanisms/test_table_distances.py::test_no_neighbour_moves_the_distances_further_than_declared",
        {"relation": Neighbours.ADD_REMOVE, "seed": 0},
    ),
    "distances with merged levels at no price": Bug(
        merged_distances_for_nothing,
        "mechanisms/test_table_distances.py::test_distances_with_merged_levels_move_no_further",
        {"relation": Neighbours.ADD_REMOVE, "seed": 0},
    ),
    "scores of pairs forget units": Bug(pair_scores_forget_units, CONTRACT, {"mechanism": PrivSyn()}),
    "generalised choice forgets units": Bug(
        normalised_forgets_units,
        "mechanisms/test_candidates_generalized.py::test_choices_are_as_private_for_units_of_several_rows",
    ),
    "gate forgets units": Bug(choices_forget_units, CONTRACT, ROUNDS),
    "row norms too small": Bug(
        cells_move_by_half,
        "mechanisms/published/test_dualquery.py::test_draws_are_as_private_as_they_are_charged",
        {"relation": Neighbours.ADD_REMOVE},
    ),
    "session draws at twice the epsilon": Bug(
        session_draws_at_twice, "mechanisms/test_session.py::test_a_choice_costs_what_it_was_given"
    ),
    "session scores twice as steeply": Bug(
        session_scores_twice, MISFIT + "test_choices_are_as_private_as_they_are_charged_for"
    ),
    "last charge always fits": Bug(
        last_charge_fits, "privacy/test_account.py::test_a_refused_charge_records_nothing_and_says_what_is_left"
    ),
    "choice before its charge": Bug(choice_before_charge, GATE + "test_a_refused_charge_reads_nothing"),
    "copy of the account": Bug(charge_a_copy, CONTRACT, COLUMNS),
    "same noise for every batch": Bug(
        same_words_for_every_batch, COUNTS + "test_every_batch_of_counts_has_noise_of_its_own"
    ),
    "one draw for all cells": Bug(one_draw_for_all_cells, COUNTS + "test_every_cell_of_a_table_has_noise_of_its_own"),
    "less noise on tables": Bug(half_noise_on_tables, COUNTS + "test_every_cell_of_a_table_has_noise_of_its_own"),
    "no far tail": Bug(
        no_far_tail,
        COUNTS + "test_the_far_tail_leaves_the_gate",
        {"law": noise.DiscreteGaussian.of_scale(3), "reach": 30},
    ),
    "noise added in floats": Bug(
        floats_at_the_gate, COUNTS + "test_counts_beyond_what_floats_hold_are_not_rounded", {"count": 2**53}
    ),
    "relation of the plan lost": Bug(relation_of_the_plan_lost, CONTRACT, COLUMNS),
    "exact counts in a partial file": Bug(exact_counts_in_the_partial_file, CONTRACT, ROUNDS),
    "rows without an id": Bug(
        missing_ids_are_units,
        "tables/test_rows_per_unit.py::test_a_row_without_a_unit_is_refused",
        {"engine": "memory", "blank": None},
    ),
    "a share of rows for every level": Bug(share_of_every_level, CONTRACT, COLUMNS),
    "counts through floats": Bug(
        counts_through_floats,
        "tables/test_sources_counts.py::test_one_row_more_moves_one_cell_by_one",
        {"count": 2**53, "engine": "memory"},
    ),
    "too many rows are paid for": Bug(
        rows_asked_for_after_the_charge,
        "tables/test_sources_counts.py::test_more_rows_than_answers_can_hold_are_refused_before_the_charge",
    ),
    "budget rounded up": Bug(
        budget_rounded_up,
        "privacy/test_conversions.py::test_zcdp_rho_is_sound_and_tight",
        {"epsilon": 1.0, "delta": 1e-9},
    ),
    "noise rounded down": Bug(
        noise_rounded_down,
        "privacy/test_noise.py::test_noise_that_no_short_fraction_holds_is_rounded_up",
        {"amount": 3},
    ),
    "what is left rounded up": Bug(
        remaining_rounded_up, "privacy/test_account.py::test_a_refusal_by_a_hair_shows_all_digits"
    ),
    "no numerical error admitted": Bug(no_error_admitted, MISFIT + "test_scores_are_within_the_error_that_they_admit"),
    "model off the grid": Bug(
        model_off_the_grid,
        MISFIT + "test_every_mechanism_scores_models_on_the_grid",
        {"mechanism": MWEM(rounds=2)},
    ),
    "sensitivity of one column": Bug(
        basis_scale_forgotten,
        "strategies/test_axis_strategy.py::test_every_number_is_that_of_the_matrix",
        {"factor": AXIS.FACTORS[4]},
    ),
    "merged levels counted twice": Bug(
        merged_levels_counted_twice,
        "strategies/test_rare_levels.py::test_a_row_adds_one_to_one_cell_of_a_merged_table",
    ),
    "mu squared for rho": Bug(
        mu_taken_for_rho, "privacy/test_budget.py::test_rho_and_mu", {"stated": {"mu": 2.0}, "rho": 2.0, "mu": 2.0}
    ),
    "exact total in the model": Bug(exact_total, CONTRACT, COLUMNS),
    "exact misfit on record": Bug(misfit_of_exact_counts, CONTRACT, ROUNDS),
    "message tells a count": Bug(
        message_tells_a_count,
        COUNTS + "test_counts_that_could_overflow_are_refused_and_not_told_of",
        {"cells": (gate.LARGEST_ANSWER + 123456789, 0)},
    ),
    "resumed for free": Bug(resumed_for_free, CONTRACT, ROUNDS),
    "top-k for the price of one": Bug(top_k_for_one, GATE + "test_the_charge_is_the_sum_over_what_was_measured"),
    "Laplace priced by L2": Bug(
        laplace_by_l2,
        "privacy/test_gate_statistic.py::test_the_charge_is_that_of_the_declared_sensitivity",
        {"relation": Neighbours.ADD_REMOVE},
    ),
    "equal charges counted once": Bug(equal_events_once, GATE + "test_the_charge_is_the_sum_over_what_was_measured"),
    "noisy costs cut off": Bug(
        noisy_costs_cut_off, PARTITIONS + "test_noisy_costs_have_the_law_that_is_computed", {"floor": 2}
    ),
    "noisy choice of bounded range": Bug(
        noisy_choice_of_bounded_range,
        PARTITIONS + "test_the_gate_charges_and_watches_the_choice",
        {"law": partition_laws.NoisyPartition(Fraction(3)), "event": NoisyChoiceEvent(Fraction(3))},
    ),
    "tree with the noise of one node": Bug(
        tree_with_the_noise_of_one_node,
        "privacy/test_partition_laws_tree.py::test_the_worst_paths_lose_nearly_epsilon_and_no_more",
        {"epsilon": Fraction(1)},
    ),
    "partitions forget units": Bug(
        partitions_forget_units,
        "histograms/test_interval_costs.py::test_units_of_several_rows_move_costs_by_as_many",
    ),
    "bucket tree priced by its leaves": Bug(
        tree_priced_by_its_leaves,
        "histograms/test_bucket_trees.py::test_a_measured_tree_is_charged_exactly_and_replays",
    ),
    "floats decide comparisons": Bug(
        floats_decide,
        "privacy/test_exact_sampling.py::test_comparison_goes_on_where_floats_are_zero",
        {"x": Fraction(800)},
    ),
}


@pytest.mark.parametrize("name", SLIPS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    SLIPS[name].check(monkeypatch, tmp_path)
