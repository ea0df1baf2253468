"""Planted faults: historical bugs of differential privacy code, planted one at a time; the suite must catch each."""

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.core.constraints import Constraint
from hush.mechanisms import release_job, session
from hush.mechanisms.plan import Plan
from hush.privacy import account, budget, conversions, gate, noise, selection, sensitivity
from hush.privacy import exact_sampling as entropy
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.sensitivity import Neighbours, RowNorms, Sensitivity
from hush.schema import Integer
from hush.strategies.product_strategy import ProductQuery
from hush.tables import encoding, rows_per_unit
from planting import Bug, Patch, suite


def fixed_seed(patch: Patch) -> None:
    """Noise from a generator seeded with zero (HDMM, dpsynth's command line, RAP)."""
    patch.setattr(entropy.SystemEntropy, "words", lambda self, count: NotPrivateEntropy(0).words(count))


def shared_state(patch: Patch) -> None:
    """One generator seeded once in the parent: forked workers repeat each other's noise."""
    shared = NotPrivateEntropy(int.from_bytes(b"seed", "big"))
    patch.setattr(entropy.SystemEntropy, "words", lambda self, count: shared.words(count))


def float_noise(patch: Patch) -> None:
    """Floating-point noise added to counts: the low bits tell the count (Mironov 2012, Haney et al. 2022)."""
    random = np.random.default_rng(1)
    patch.setattr(
        noise.DiscreteGaussian,
        "sample",
        lambda self, shape, entropy: random.normal(0, float(self.variance_parameter) ** 0.5, shape),
    )


def small_noise(patch: Patch) -> None:
    """Eight tenths of the noise that is charged for."""
    drawn = noise.DiscreteLaplace.sample
    patch.setattr(
        noise.DiscreteLaplace,
        "sample",
        lambda self, shape, entropy: drawn(noise.DiscreteLaplace(self.scale * 4 / 5), shape, entropy),
    )


def no_noise_on_totals(patch: Patch) -> None:
    """The exact number of rows leaves without noise."""
    patch.setattr(noise.DiscreteLaplace, "sample", lambda self, shape, entropy: np.zeros(shape, dtype=np.int64))


def replace_counts_once(patch: Patch) -> None:
    """The sensitivity of adding a unit used for replacing one: a factor two in L1, root two in L2."""
    true = sensitivity.sensitivity
    wrong = lambda row, *, max_rows, neighbours: true(  # noqa: E731
        row, max_rows=max_rows, neighbours=Neighbours.ADD_REMOVE
    )
    patch.setattr(suite("privacy/test_sensitivity.py"), "sensitivity", wrong)


def unit_counts_once(patch: Patch) -> None:
    """Units of several rows charged as single rows."""
    true = sensitivity.sensitivity
    patch.setattr(
        gate, "sensitivity", lambda row, *, max_rows, neighbours: true(row, max_rows=1, neighbours=neighbours)
    )


def unit_grows_like_root(patch: Patch) -> None:
    """m rows of a unit taken to move answers by root m, as if they always fell in different cells."""

    def wrong(row: RowNorms, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(max_rows * row.l1, max_rows * row.l2_squared)

    patch.setattr(suite("privacy/test_sensitivity.py"), "sensitivity", wrong)


def monotone_flag(patch: Patch) -> None:
    """Weights exp(epsilon q / Delta), allowed only for monotone scores, charged as epsilon^2/8 (dpsynth's AIM)."""
    true = selection.ExponentialMechanism.weights

    def wrong(self: Any, scores: Any) -> Any:
        steps, rate = true(self, scores)
        return steps, 2 * rate

    patch.setattr(selection.ExponentialMechanism, "weights", wrong)


def float_softmax(patch: Patch) -> None:
    """Selection by a floating-point softmax, in which hopeless candidates have probability zero (Ilvento 2020)."""

    def wrong(steps: Any, rate: Fraction, entropy: Any, slack: float = 0.0) -> int:
        p = np.exp(float(rate) * (steps - steps.max()).astype(float))
        return int(np.searchsorted(np.cumsum(p / p.sum()), int(entropy.words(1)[0]) / 2**64, side="right"))

    patch.setattr(selection, "choose_by_weights", wrong)


def rounding_unpaid(patch: Patch) -> None:
    """Scores rounded to a grid without adding the rounding to the sensitivity."""
    true = selection.Scores.steps
    patch.setattr(selection.Scores, "steps", lambda self: (true(self)[0], 2**selection.GRID_BITS))


def charge_first_only(patch: Patch) -> None:
    """A different list charged than measured (mbi's AIM script)."""
    true = gate.compose
    patch.setattr(gate, "compose", lambda events: true(list(events)[:1]))


def read_then_charge(patch: Patch) -> None:
    """The table is read before the charge can be refused."""
    true = gate.Gate._charge

    def wrong(self: Any, event: Any, note: str, **how: Any) -> None:
        self._table.counts([()])
        true(self, event, note, **how)

    patch.setattr(gate.Gate, "_charge", wrong)


def stamp_everything(patch: Patch) -> None:
    """Seeded output passed off as private."""
    patch.setattr(gate.Gate, "private", property(lambda self: True))


def overflow(patch: Patch) -> None:
    """No check before int64 wraps around (Casacuberta et al. 2022)."""
    patch.setattr(gate, "LARGEST_ANSWER", 2**63)


def budget_in_floats(patch: Patch) -> None:
    """A budget kept in floating point, with a tolerance against drift: a little more than the budget fits."""
    true = account.check_affordable
    patch.setattr(
        account,
        "check_affordable",
        lambda charged, *rest, **named: true(_with_slack(charged), *rest, **named),
    )


def _with_slack(charged: Any) -> Any:
    slack = charged.copy()
    slack.limit *= 1 + Fraction(1, 10**9)
    return slack


def epsilon_zero(patch: Patch) -> None:
    """A falsy epsilon taken for "no privacy wanted" (dpmm)."""
    patch.setattr(budget, "_positive", lambda name, value: value)


def nearest_rounding(patch: Patch) -> None:
    """Conversions rounded to nearest, half of them in the spender's favour."""
    patch.setattr(conversions, "_up", float)
    patch.setattr(conversions, "_down", float)


def unit_bound_ignored(patch: Patch) -> None:
    """User-level privacy claimed, the bound not enforced (dpsynth's max_records_per_user)."""
    true = rows_per_unit.CappedRows._kept
    patch.setattr(rows_per_unit.CappedRows, "_kept", lambda *given: true(*given).rpartition("WHERE")[0])


def unit_rows_by_rank(patch: Patch) -> None:
    """Rows kept by their rank among all rows, so that one person's rows decide which of another's are counted."""
    true = rows_per_unit.CappedRows._kept
    patch.setattr(
        rows_per_unit.CappedRows,
        "_kept",
        lambda *given: true(*given).replace("OVER (PARTITION BY unit ORDER BY", "OVER (ORDER BY"),
    )


def nan_slips_through(patch: Patch) -> None:
    """NaN is neither below nor above a bound, and passes clipping (smartnoise #580)."""
    patch.setattr(encoding._Encoder, "_is_missing_number", lambda self: ["FALSE"])


def refusal_quotes_a_cell(patch: Patch) -> None:
    """An error message that helps with the offending value."""

    def wrong(self: Any, refused: Any) -> list[str]:
        with self.source.session() as session:
            return [f"column 'x' holds {session.execute(self.source.select).fetchall()}"] * any(refused)

    patch.setattr(rows_per_unit.CappedRows, "misfits", wrong)


def exact_total_in_file(patch: Patch) -> None:
    """The exact number of rows in a saved release (SmartNoise returns as many rows as it was given)."""
    true = Plan.release

    def wrong(self: Any, table: Any, **options: Any) -> Any:
        release = true(self, table, **options)
        total = int(table.counts([()])[()])
        release.statement = dataclasses.replace(release.statement, version=f"0.1.0+{total}")
        return release

    patch.setattr(Plan, "release", wrong)


def cost_from_a_cache(patch: Patch) -> None:
    """What is measured twice as finely as it is charged for: the cost comes from another matrix (V25)."""
    true = ProductQuery.answer
    patch.setattr(ProductQuery, "answer", lambda self, counts: 2 * true(self, counts))


def zeros_of_the_rows(patch: Patch) -> None:
    """Structural zeros read off the rows, as if they were public invariants (V26)."""
    true = session.Session.__init__

    def wrong(self: Any, gate: Any, account: Any, **options: Any) -> None:
        true(self, gate, account, **options)
        clique = self.domain.attributes[:2]
        seen = gate._table.counts([clique])[clique] > 0
        self.constraints = (*self.constraints, Constraint.of_table(self.domain, clique, seen))

    patch.setattr(session.Session, "__init__", wrong)


def draft_taken_for_public(patch: Patch) -> None:
    """Levels and rules read off the rows, released as if they were public (V26)."""
    patch.setattr(release_job, "refuse_drafted", lambda names, **options: None)


def rules_not_on_record(patch: Patch) -> None:
    """A statement that does not say under which structural zeros a release was made (V26)."""
    patch.setattr(release_job, "fingerprint", lambda constraints: None)


def one_row_accounted(patch: Patch) -> None:
    """Costs recomputed as if every unit had one row."""
    original = sensitivity.sensitivity
    patch.setattr(
        "hush.release.statement.sensitivity",
        lambda row, *, max_rows, neighbours: original(row, max_rows=1, neighbours=neighbours),
    )


FAULTS = {
    "fixed seed": Bug(fixed_seed, "privacy/test_gate.py::test_two_runs_by_default_differ"),
    "fixed seed, seen in the words": Bug(
        fixed_seed, "privacy/test_exact_sampling.py::test_numpy_global_state_has_no_influence"
    ),
    "noise shared by forks": Bug(
        shared_state, "privacy/test_exact_sampling.py::test_forked_children_draw_different_noise"
    ),
    "floating-point noise": Bug(
        float_noise, "privacy/test_gate.py::test_answers_are_exact_counts_plus_integer_noise_of_the_law"
    ),
    "too little noise": Bug(
        small_noise, "privacy/test_gate.py::test_answers_are_exact_counts_plus_integer_noise_of_the_law"
    ),
    "exact total": Bug(
        no_noise_on_totals, "privacy/test_gate.py::test_answers_are_exact_counts_plus_integer_noise_of_the_law"
    ),
    "wrong neighbour factor": Bug(
        replace_counts_once,
        "privacy/test_sensitivity.py::test_counts_move_exactly_as_far_as_declared",
        {"relation": Neighbours.REPLACE, "l1": 2, "l2_squared": 2},
    ),
    "unit bound not charged": Bug(
        unit_counts_once, "privacy/test_gate.py::test_units_of_several_rows_and_replace_scale_the_charge"
    ),
    "unit grows like a root": Bug(
        unit_grows_like_root,
        "privacy/test_sensitivity.py::test_units_of_several_rows_are_bounded_and_the_bound_is_attained",
        {"relation": Neighbours.ADD_REMOVE, "max_rows": 3},
    ),
    "monotone flag": Bug(
        monotone_flag,
        "privacy/test_selection.py::test_divergence_over_all_neighbours_is_within_the_charge",
        {"epsilon": Fraction(1)},
    ),
    "float softmax": Bug(
        float_softmax, "privacy/test_selection.py::test_the_least_uniform_number_reaches_the_worst_candidate"
    ),
    "rounding unpaid": Bug(
        rounding_unpaid, "privacy/test_selection.py::test_rounding_and_numerical_error_are_paid_for"
    ),
    "other list charged": Bug(
        charge_first_only, "privacy/test_gate.py::test_the_charge_is_the_sum_over_what_was_measured"
    ),
    "read before charge": Bug(read_then_charge, "privacy/test_gate.py::test_a_refused_charge_reads_nothing"),
    "seeded output unstamped": Bug(
        stamp_everything, "privacy/test_gate.py::test_what_seeded_or_watched_bits_produce_is_stamped"
    ),
    "budget kept in floats": Bug(
        budget_in_floats, "privacy/test_budget.py::test_charging_every_share_fits_and_one_ulp_more_does_not"
    ),
    "epsilon zero means no privacy": Bug(
        epsilon_zero,
        "privacy/test_budget.py::test_refuses_what_is_not_a_positive_number",
        {"name": "epsilon", "value": 0.0},
    ),
    "conversions rounded to nearest": Bug(
        nearest_rounding, "privacy/test_conversions.py::test_gaussian_delta_is_never_below_the_exact_curve"
    ),
    "unit bound not enforced": Bug(
        unit_bound_ignored,
        "tables/test_rows_per_unit.py::test_a_unit_of_many_rows_changes_counts_by_its_share",
        {"engine": "memory", "most": 3},
    ),
    "kept rows depend on others": Bug(
        unit_rows_by_rank, "tables/test_rows_per_unit.py::test_units_side_by_side_keep_what_each_keeps_alone"
    ),
    "NaN slips past clipping": Bug(
        nan_slips_through, "tables/test_read_hostile.py::test_hostile_numbers_land_in_one_bin_each"
    ),
    "a message quotes a cell": Bug(
        refusal_quotes_a_cell,
        "tables/test_read_hostile.py::test_a_refused_cell_is_never_quoted",
        {"column": Integer(name="x", low=0, high=3), "value": "zebra-7319"},
    ),
    "exact row count in a file": Bug(
        exact_total_in_file,
        "mechanisms/test_residual.py::test_replay_finds_nothing_beside_the_gate",
        {"workload": suite("mechanisms/test_residual.py").PLAIN},
    ),
    "sensitivity of another matrix": Bug(
        cost_from_a_cache,
        "mechanisms/test_residual.py::test_no_neighbour_is_further_than_the_charge",
        {"workload": suite("mechanisms/test_residual.py").PLAIN, "relation": Neighbours.ADD_REMOVE},
    ),
    "structural zeros from the rows": Bug(
        zeros_of_the_rows,
        "mechanisms/test_release_job_provenance.py::test_structural_zeros_are_the_schemas_and_not_those_of_the_rows",
        {"mechanism": "mst"},
    ),
    "a draft taken for public": Bug(
        draft_taken_for_public,
        "mechanisms/test_release_job_provenance.py::test_a_release_is_refused_before_anything_is_read_or_charged",
        {"schema": suite("mechanisms/test_release_job_provenance.py").LEARNED, "name": "a × b", "mechanism": "mst"},
    ),
    "rules not on record": Bug(
        rules_not_on_record,
        "mechanisms/test_release_job_provenance.py::test_the_statement_has_the_fingerprint_of_the_rules",
    ),
    "statement believed": Bug(
        lambda patch: patch.setattr("hush.release.release.contradiction", lambda *_: None),
        "release/test_statement_accounting.py::test_a_fixed_release_states_no_noise_that_it_does_not_hold",
    ),
    "statement read for one row": Bug(
        one_row_accounted,
        "release/test_statement_accounting.py::test_units_of_several_rows_are_accounted_for",
        {"name": "direct, Laplace", "relation": Neighbours.ADD_REMOVE},
    ),
    "overflow": Bug(
        overflow,
        "privacy/test_gate.py::test_answers_that_are_not_exact_integers_never_leave",
        {"query": suite("privacy/test_gate.py").Broken((2**62,), "int64"), "text": "too large"},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    FAULTS[name].check(monkeypatch, tmp_path)
