"""A model that stays short of the noise of its tables, and is nearer to the truth for it."""

import itertools

import numpy as np
import pytest

from hush import Budget, Domain
from hush.core.solution import SOLVED
from hush.mechanisms.aim import restrained_fit
from hush.mechanisms.session import Session
from hush.privacy.account import Allowance
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate
from hush.testing import TinyTable

DOMAIN = Domain({"a": 6, "b": 6, "c": 6})
PAIRS = list(itertools.combinations(DOMAIN, 2))


def measured(seed: int) -> tuple[Session, TinyTable]:
    """Pairs of slightly dependent columns, with noise as large as their counts."""
    random = np.random.Generator(np.random.PCG64(seed))
    a = random.choice(6, size=600, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    rows = np.stack([a, (a + random.integers(0, 4, size=600)) % 6, random.integers(0, 6, size=600)], axis=1)
    table, account = TinyTable(DOMAIN, rows.tolist()), Allowance(Budget(rho=0.01))
    gate = Gate(table, account, entropy=NotPrivateEntropy(seed))
    session = Session(gate, account, domain=DOMAIN, max_rows=1)
    session.measure(PAIRS, account.budget.limit / 3, note="pairs")
    return session, table


def error(session: Session, table: TinyTable) -> float:
    assert session.model is not None
    exact = table.counts(PAIRS)
    return sum(float(np.abs(session.model.value.counts(pair) - exact[pair]).sum()) for pair in PAIRS)


@pytest.mark.parametrize("restraint", [0.05, 0.15, 0.5, 0.9])
def test_the_loss_ends_between_the_least_and_that_of_the_truth(restraint):
    session, _ = measured(1)
    best = session.fit(tolerance=0.001).stats["value"]
    solution = restrained_fit(session, restraint, tolerance=0.001)
    expected = 0.5 * sum(table.numbers for table in session.record.measurements())
    assert solution.status == SOLVED
    assert solution is session.model
    assert solution.stats["least"] == pytest.approx(best, rel=1e-3)
    assert best < solution.stats["value"] <= best + restraint * (expected - best) * 1.01
    assert solution.stats["iterations"] < session.fit(tolerance=0.001).stats["iterations"]


def test_without_restraint_it_is_the_best_fit():
    session, _ = measured(1)
    plain = session.fit(tolerance=0.01)
    solution = restrained_fit(session, 0.0, tolerance=0.01)
    assert solution.stats["value"] == plain.stats["value"]
    np.testing.assert_array_equal(solution.value.counts(("a", "b")), plain.value.counts(("a", "b")))


def test_less_noise_is_followed():
    """Of 20 tables with much noise the restrained model is nearer to the truth in most, by a twentieth on average."""
    plain, restrained = [], []
    for seed in range(20):
        session, table = measured(seed)
        session.fit()
        plain.append(error(session, table))
        restrained_fit(session, 0.15)
        restrained.append(error(session, table))
    assert np.mean(restrained) < 0.95 * np.mean(plain)
    assert sum(a < b for a, b in zip(restrained, plain, strict=True)) >= 16
