"""Planted faults of the hybrid room: what public code got wrong, planted one at a time; the suite must catch each."""

import importlib.util
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.hybrid import amplification, collection, frequency_estimates, kmeans
from hush.hybrid.client import Question, choice_laws, device, number_laws, record_laws
from hush.privacy import discovery, gate, privacy_filter
from hush.privacy.sensitivity import Neighbours

spec = importlib.util.spec_from_file_location("planting", Path(__file__).with_name("planting.py"))
assert spec is not None
planting = sys.modules.setdefault("planting", importlib.util.module_from_spec(spec))
spec.loader.exec_module(planting)  # type: ignore[union-attr]
Bug, Patch = planting.Bug, planting.Patch


def kept_by_the_number_of_records(patch: Patch) -> None:
    """How often a query is kept follows from the number of records instead of queries, as in public code."""
    true = record_laws.RecordResponse.__init__

    def wrong(self: Any, sizes: Any, epsilon: Fraction, *given: Any, **named: Any) -> None:
        true(self, sizes, epsilon, *given, **named)
        keep = self.query.keep * (len(sizes) - 1)
        self.query.keep, self.query.other = keep, self.query.other * (sum(sizes) - 1)

    patch.setattr(record_laws.RecordResponse, "__init__", wrong)


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
    patch.setattr(record_laws, "_url_ratio", lambda size, left, most: most)


def laplace_on_one_step(patch: Patch) -> None:
    """Noise for a number that moves by one step, where it may move by all of them."""
    true = number_laws.LaplaceResponse.__init__

    def wrong(self: Any, steps: int, epsilon: Fraction) -> None:
        true(self, 1, epsilon)
        self.steps = steps

    patch.setattr(number_laws.LaplaceResponse, "__init__", wrong)


def memory_forgotten(patch: Patch) -> None:
    """A device that draws anew every time, so that answers can be averaged."""
    patch.setattr(device.Device, "_hash", lambda self, question, value: str(np.random.default_rng().random()))


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
    patch.setattr(amplification.AmplifiedEpsilon, "joint", smaller)


def duplicates_counted(patch: Patch) -> None:
    """Reports that are sent twice count twice."""
    patch.setattr(collection._Counter, "_are_new", lambda self, ids: True)


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


LAWS = "hybrid/test_choice_laws.py::"
FAULTS = {
    "kept by the number of records": Bug(
        kept_by_the_number_of_records,
        "hybrid/test_record_laws.py::test_every_pair_of_records_keeps_the_promise_and_some_pair_spends_it",
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
        "hybrid/test_record_laws.py::test_every_pair_of_records_keeps_the_promise_and_some_pair_spends_it",
        {"sizes": (3, 2, 4, 1), "epsilon": Fraction(2)},
    ),
    "Laplace on one step": Bug(
        laplace_on_one_step,
        "hybrid/test_number_laws.py::test_the_matrix_keeps_the_promise_and_spends_it",
        {"kind": number_laws.LaplaceResponse, "epsilon": Fraction(1)},
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
        "hybrid/test_amplification.py::test_the_table_of_salaries",
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
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_catches(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    FAULTS[name].check(monkeypatch, tmp_path)
