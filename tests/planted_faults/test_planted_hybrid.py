"""Planted faults of the hybrid room: what public code got wrong, planted one at a time; the suite must catch each."""

import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.hybrid import (
    collection,
    frequency_estimates,
    kmeans,
    mean_errors,
    mean_estimates,
    opt_in,
)
from hush.hybrid.client import Question, choice_laws, device, number_laws
from hush.privacy import discovery, gate, privacy_filter
from hush.privacy.sensitivity import Neighbours
from planting import Bug, Patch


def kept_by_the_number_of_records(patch: Patch) -> None:
    """How often a query is kept follows from the number of records instead of queries, as in public code."""
    true = choice_laws.RecordResponse.__init__

    def wrong(self: Any, sizes: Any, epsilon: Fraction, *given: Any, **named: Any) -> None:
        true(self, sizes, epsilon, *given, **named)
        keep = self.query.keep * (len(sizes) - 1)
        self.query.keep, self.query.other = keep, self.query.other * (sum(sizes) - 1)

    patch.setattr(choice_laws.RecordResponse, "__init__", wrong)


def bits_at_the_whole_epsilon(patch: Patch) -> None:
    """Unary bits that each spend the whole of epsilon, while a value changes two of them."""
    true = choice_laws.UnaryResponse.__init__

    def wrong(self: Any, size: int, epsilon: Fraction) -> None:
        true(self, size, 2 * epsilon)

    patch.setattr(choice_laws.UnaryResponse, "__init__", wrong)


def powers_rounded_up(patch: Patch) -> None:
    """Weights rounded up, so that a ratio is just above e^epsilon."""
    true = choice_laws.scaled_exp
    patch.setattr(choice_laws, "scaled_exp", lambda x: true(x) + 2)


def slack_spent_twice(patch: Patch) -> None:
    """URLs at the whole epsilon although the query has spent a share of it."""
    patch.setattr(choice_laws, "_url_ratio", lambda size, left, most: most)


def laplace_on_one_step(patch: Patch) -> None:
    """Noise for a number that moves by one step, where it may move by all of them."""
    true = number_laws.LaplaceResponse.__init__

    def wrong(self: Any, steps: int, epsilon: Fraction) -> None:
        true(self, 1, epsilon)
        self.steps = steps

    patch.setattr(number_laws.LaplaceResponse, "__init__", wrong)


def gaussian_noise_for_half_the_range(patch: Patch) -> None:
    """Gaussian noise whose delta is that of two numbers half the range apart."""
    true = number_laws.GaussianResponse.delta

    def wrong(self: Any, epsilon: Fraction) -> Fraction:
        half = number_laws.GaussianResponse(self.steps, self.spread)
        half.steps //= 2
        return true(half, epsilon)

    patch.setattr(number_laws.GaussianResponse, "delta", wrong)
    spread = number_laws.continuous_spread
    patch.setattr(number_laws, "continuous_spread", lambda epsilon, delta: spread(epsilon, delta) / 2)


def memory_forgotten(patch: Patch) -> None:
    """A device that draws anew every time, so that answers can be averaged."""
    patch.setattr(device.Device, "_hash", lambda self, question, value, place: str(np.random.default_rng().random()))


def table_of_twice_delta(patch: Patch) -> None:
    """Keys that are released as if delta were twice as large."""
    true = discovery.KeyDiscovery.probability
    patch.setattr(discovery.KeyDiscovery, "probability", lambda self, units: min(1, 3 * true(self, units)))


def keys_of_one_table_only(patch: Patch) -> None:
    """A person who is exchanged charged for the keys of one table, not of both."""
    patch.setattr(gate, "Neighbours", type("N", (), {"REPLACE": None, "ADD_REMOVE": Neighbours.ADD_REMOVE}))


def deltas_not_counted(patch: Patch) -> None:
    """A filter that lets deltas in at any time and in any number."""
    patch.setattr(privacy_filter, "keeps_delta", lambda *given: True)


def smaller_sensitivity(patch: Patch) -> None:
    """The promise of the group that moves the mean less, stated for both, as in the printed theorem."""
    smaller = property(lambda self: min(self.opt_in, self.clients))
    patch.setattr(mean_errors.AmplifiedEpsilon, "joint", smaller)


def duplicates_counted(patch: Patch) -> None:
    """Reports that are sent twice count twice."""

    def wrong(self: Any, ids: Any, values: Any) -> Any:
        return values if ids is not None and values is not None and collection._all_fit(self.law, values) else None

    patch.setattr(collection._Counter, "_fitting", wrong)


def bessel_twice(patch: Patch) -> None:
    """A variance that is divided by N instead of N - 1."""
    true = frequency_estimates._shares

    def wrong(counts: Any, law: Any) -> Any:
        found = true(counts, law)
        return type(found)(
            labels=found.labels,
            estimate=found.estimate,
            variance=found.variance * (counts.total - 1) / counts.total,
            reports=found.reports,
        )

    patch.setattr(frequency_estimates, "_shares", wrong)


def labels_not_corrected(patch: Patch) -> None:
    """Means of clients by their randomised labels as they are."""

    def raw(question: Any, clients: Any) -> Any:
        labels = clients.labels(question)
        means = np.array([clients.points[labels == k].mean(axis=0) for k in range(question.law.size)])
        return kmeans.GroupMeans(means, np.full(question.law.size, 1e-4))

    patch.setattr(sys.modules["planted_hybrid_test_kmeans"], "client_means", raw)


def clamping_told(patch: Patch) -> None:
    """A mean that says whether any number was outside the bounds: one person's number decides it, without noise."""
    made, measured, told = opt_in.OptInNumbers.__init__, mean_estimates.noisy_mean, {}

    def noticed(self: Any, numbers: Any, lower: float, upper: float, **named: Any) -> None:
        made(self, numbers, lower, upper, **named)
        self._clamped = bool((np.clip(numbers, lower, upper) != numbers).any())

    def noted(people: Any, *given: Any, **named: Any) -> Any:
        told["clamped"] = people._clamped
        return measured(people, *given, **named)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Telling(mean_estimates.HybridMean):
        clamped: bool

    patch.setattr(opt_in.OptInNumbers, "__init__", noticed)
    patch.setattr(mean_estimates, "noisy_mean", noted)
    patch.setattr(mean_estimates, "HybridMean", lambda **fields: Telling(**fields, **told))


def people_without_clicks_dropped(patch: Patch) -> None:
    """People of a log who clicked nothing are no people, so the number that is published tells who did."""
    true = opt_in.read_search_log
    patch.setattr(opt_in, "read_search_log", lambda path: {who: held for who, held in true(path).items() if held})


def all_records_counted(patch: Patch) -> None:
    """Every record of a person counts, while a few are charged."""
    patch.setattr(opt_in, "_chosen_records", lambda records, most: tuple(dict.fromkeys(records)))


def labels_without_the_points_share(patch: Patch) -> None:
    """Labels of K-means at epsilon/rounds each, which leaves nothing for the point: here in three rounds."""

    class Asked(Question):
        @classmethod
        def cluster(cls, name: str, centres: Any, *, epsilon: Any) -> Question:
            return Question.cluster(name, centres, epsilon=epsilon * Fraction(4, 3))

    patch.setattr(kmeans, "Question", Asked)


def half_a_window(patch: Patch) -> None:
    """Reports in the first half of the window at twice their weight, and none in the second."""

    def wrong(self: Any, value: int, random_bytes: Any = number_laws.SYSTEM_BYTES) -> int:
        drawn = number_laws.uniform_below(self.total, random_bytes)
        inside = self.width * self.keep
        if drawn < inside:
            return int(value + drawn // self.keep // 2)
        report = (drawn - inside) // number_laws.UNIT
        return int(report + (self.width if report >= value else 0))

    patch.setattr(number_laws.PiecewiseResponse, "draw", wrong)


def answer_kept_before_it_is_paid_for(patch: Patch) -> None:
    """A device that writes its answer down first: if it stops there, the answer can be sent for nothing."""
    true = device.Device.answer

    def wrong(self: Any, question: Question, value: Any) -> Any:
        kept, self.memory = self.memory, dict(self.memory)
        report = true(self, question, value)
        written, self.memory = self.memory, kept
        for name in sorted(written, key=lambda name: name == "spent"):
            if kept.get(name) != written[name]:
                kept[name] = written[name]
        return report

    patch.setattr(device.Device, "answer", wrong)


LAWS = "hybrid/test_choice_laws.py::"


def deltas_without_limit(patch: Patch) -> None:
    """A device counts no delta, so that its limit says nothing against questions of a large one."""
    patch.setattr(device.Device, "spent_delta", property(lambda self: Fraction(-1)))


def gaussian_tail_of_half_the_reports(patch: Patch) -> None:
    """Delta is that of a law whose steps are half as far apart."""
    true = number_laws.GaussianResponse.delta

    def wrong(self: Any, epsilon: Fraction) -> Fraction:
        return true(number_laws.GaussianResponse(max(self.steps // 2, 1), self.spread), epsilon)

    patch.setattr(number_laws.GaussianResponse, "delta", wrong)


def places_for_one_charge(patch: Patch) -> None:
    """All places of a device are paid for like one."""
    true = device.Device._answers

    def wrong(self: Any, question: Any, held: Any) -> Any:
        first = true(self, question, held[:1])
        limit, self.limit = self.limit, None
        try:
            return [*first, *true(self, question, held[1:])]
        finally:
            self.limit = limit

    patch.setattr(device.Device, "_answers", wrong)


FAULTS = {
    "kept by the number of records": Bug(
        kept_by_the_number_of_records,
        "hybrid/test_choice_laws.py::test_every_pair_of_records_keeps_the_promise_and_some_pair_spends_it",
        {"sizes": (40, 40, 1), "epsilon": Fraction(1, 2)},
    ),
    "bits at the whole epsilon": Bug(
        bits_at_the_whole_epsilon,
        LAWS + "test_unary_matrix_sums_to_one_and_spends_epsilon_exactly",
        {"size": 2, "epsilon": Fraction(1)},
    ),
    "powers rounded up": Bug(
        powers_rounded_up,
        LAWS + "test_kary_matrix_sums_to_one_and_spends_epsilon_exactly",
        {"size": 3, "epsilon": Fraction(1)},
    ),
    "slack spent twice": Bug(
        slack_spent_twice,
        "hybrid/test_choice_laws.py::test_every_pair_of_records_keeps_the_promise_and_some_pair_spends_it",
        {"sizes": (3, 2, 4, 1), "epsilon": Fraction(2)},
    ),
    "Laplace on one step": Bug(
        laplace_on_one_step,
        "hybrid/test_number_laws.py::test_the_matrix_keeps_the_promise_and_spends_it",
        {"kind": number_laws.LaplaceResponse, "epsilon": Fraction(1)},
    ),
    "Gaussian noise for half the range": Bug(
        gaussian_noise_for_half_the_range,
        "hybrid/test_number_laws.py::test_gaussian_noise_keeps_delta_for_every_pair_of_steps_and_no_less_noise_does",
        {"epsilon": Fraction(1), "delta": Fraction(1, 100)},
    ),
    "memory forgotten": Bug(
        memory_forgotten,
        "hybrid/test_client.py::test_asking_twice_spends_once",
        {"question": Question.yes_no("smoker", epsilon=1), "value": "yes"},
    ),
    "table of twice delta": Bug(
        table_of_twice_delta,
        "privacy/test_discovery.py::test_all_exchanges_of_one_person_stay_within_the_charge",
        {"keys": 1, "people": 2},
    ),
    "keys of one table only": Bug(
        keys_of_one_table_only,
        "privacy/test_discovery.py::test_the_gate_charges_first_and_releases_common_keys_only",
    ),
    "deltas not counted": Bug(
        deltas_not_counted, "privacy/test_privacy_filter.py::test_charges_with_a_delta_are_private_by_brute_force"
    ),
    "smaller sensitivity": Bug(
        smaller_sensitivity,
        "hybrid/test_mean_errors.py::test_the_amplified_table_of_salaries",
        {
            "share": 0.001,
            "weight": 0.2011,
            "opt_in": (0.448, 0.578, 0.981),
            "clients": (0.0018, 0.0023, 0.0039),
        },
    ),
    "duplicates counted": Bug(
        duplicates_counted,
        "hybrid/test_collection.py::test_a_report_that_is_sent_twice_counts_once",
        {"name": "kary", "source": "r.parquet"},
    ),
    "variance over N": Bug(
        bessel_twice, "hybrid/test_frequency_estimates.py::test_unary_estimates_are_unbiased_over_every_outcome"
    ),
    "labels not corrected": Bug(
        labels_not_corrected, "hybrid/test_kmeans.py::test_client_means_are_corrected_for_randomised_labels"
    ),
    "clamping told": Bug(
        clamping_told, "hybrid/test_sides_of_the_gate.py::test_every_field_of_a_mean_comes_from_noisy_numbers"
    ),
    "people without clicks dropped": Bug(
        people_without_clicks_dropped,
        "hybrid/test_sides_of_the_gate.py::test_the_command_for_a_head_list_says_nothing_else",
    ),
    "all records counted": Bug(
        all_records_counted,
        "hybrid/test_opt_in.py::test_a_person_counts_for_at_most_max_records_records",
        {"max_records": 2},
    ),
    "labels without the point's share": Bug(
        labels_without_the_points_share,
        "hybrid/test_kmeans.py::test_a_clients_point_and_labels_together_spend_epsilon_and_are_charged_first",
        {"rounds": 3},
    ),
    "half a window": Bug(
        half_a_window,
        "hybrid/test_number_laws.py::test_pieces_are_drawn_exactly_by_their_weights",
        {"epsilon": Fraction(1)},
    ),
    "deltas without limit": Bug(
        deltas_without_limit,
        "hybrid/test_client.py::test_a_large_delta_reads_nothing_from_a_device_with_a_limit",
    ),
    "Gaussian tail of half the reports": Bug(
        gaussian_tail_of_half_the_reports,
        "hybrid/test_number_laws.py::test_gaussian_noise_keeps_delta_for_every_pair_of_steps_and_no_less_noise_does",
        {"epsilon": Fraction(1), "delta": Fraction(1, 1000)},
    ),
    "places for one charge": Bug(
        places_for_one_charge,
        "hybrid/test_client.py::test_all_places_stay_within_the_limit_or_nothing_is_drawn",
    ),
    "answer kept before it is paid for": Bug(
        answer_kept_before_it_is_paid_for,
        "hybrid/test_client.py::test_no_answer_is_kept_that_was_not_paid_for",
        {"writes": 1},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    FAULTS[name].check(monkeypatch, tmp_path)
