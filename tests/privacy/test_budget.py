"""Budgets: what they convert to, what they refuse, and splitting that always fits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import GaussianEvent, LaplaceEvent

amounts = st.floats(1e-12, 1e6)


@pytest.mark.parametrize(
    ("stated", "rho", "mu"),
    [
        ({"rho": 0.5}, 0.5, 1.0),
        ({"mu": 2.0}, 2.0, 2.0),
        ({"epsilon": 1.0, "delta": 1e-9}, 0.0149731, 1 / 5.49527),
        ({"epsilon": 1.0, "delta": 1e-6}, 1 / (2 * 4.5309**2), 1 / 4.224678889),
    ],
)
def test_rho_and_mu(stated, rho, mu):
    budget = Budget(**stated)
    assert budget.rho == pytest.approx(rho, rel=5e-5)
    assert budget.mu == pytest.approx(mu, rel=5e-5)
    assert not budget.pure


@given(amounts)
def test_rho_of_mu_and_mu_of_rho_are_rounded_down_by_less_than_an_ulp(amount):
    rho, mu = Budget(mu=amount).rho, Budget(rho=amount).mu
    assert Fraction(rho) <= Fraction(amount) ** 2 / 2 < Fraction(math.nextafter(rho, math.inf))
    assert Fraction(mu) ** 2 <= 2 * Fraction(amount) < Fraction(math.nextafter(mu, math.inf)) ** 2


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.238421708), (1.0, 0.126936738), (3.0, 0.001537185)])
def test_curve_of_mu(epsilon, delta):
    assert Budget(mu=1.0).delta_at(epsilon) == pytest.approx(delta, abs=5e-10)
    assert Budget(mu=1.0).epsilon_at(delta) == pytest.approx(epsilon, rel=1e-6)


def test_a_stated_pair_holds_as_stated():
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert budget.epsilon_at(1e-6) == 1.0
    assert budget.epsilon_at(1e-3) < 1.0 < budget.epsilon_at(1e-9)
    assert budget.delta_at(1.0) == 1e-6
    assert budget.delta_at(2.0) < 1e-6 < budget.delta_at(0.5)


def test_pure_epsilon_holds_at_every_delta_and_has_no_rho_or_mu():
    budget = Budget(epsilon=2.0)
    assert budget.pure
    assert budget.epsilon_at(0.0) == budget.epsilon_at(0.1) == 2.0
    assert budget.delta_at(2.0) == 0.0
    assert budget.delta_at(0.0) == pytest.approx(math.tanh(1.0))
    assert budget.limit == 2
    with pytest.raises(BudgetError, match="pure DP, which Gaussian noise cannot give"):
        budget.rho  # noqa: B018
    with pytest.raises(BudgetError, match="add a delta such as"):
        budget.mu  # noqa: B018


def test_delta_zero_is_pure():
    assert Budget(epsilon=1.0, delta=0.0) == Budget(epsilon=1.0)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({}, "got nothing"),
        ({"delta": 1e-6}, "got nothing"),
        ({"epsilon": 1.0, "rho": 1.0}, "got epsilon and rho"),
        ({"epsilon": 1.0, "delta": 1e-6, "mu": 1.0}, "got epsilon and mu"),
        ({"rho": 1.0, "mu": 1.0}, "got rho and mu"),
        ({"rho": 1.0, "delta": 1e-6}, "goes with epsilon, not with rho"),
        ({"mu": 1.0, "delta": 1e-6}, "goes with epsilon, not with mu"),
    ],
)
def test_one_notion_at_a_time(stated, message):
    with pytest.raises(BudgetError, match=message):
        Budget(**stated)


@pytest.mark.parametrize("name", ["epsilon", "rho", "mu"])
@pytest.mark.parametrize(
    "value",
    [0, 0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, True, "1", b"1", [1.0], 1j, 10**400, Fraction(1, 10**400)],
)
def test_refuses_what_is_not_a_positive_number(name, value):
    with pytest.raises(BudgetError, match=f"{name}=.*expected a (finite )?number above 0"):
        Budget(**{name: value})


def test_a_delta_of_one_half_is_the_last():
    assert Budget(epsilon=1.0, delta=0.5).delta == 0.5
    assert Budget(rho=1.0).epsilon_at(0.5) > 0


@pytest.mark.parametrize(
    "delta", [math.nextafter(0.5, 1), 0.999999, 1.0, 1.5, -1e-9, math.nan, math.inf, True, "1e-6", [1e-6]]
)
def test_refuses_what_is_not_a_delta(delta):
    with pytest.raises(BudgetError, match="delta=.*expected a (finite )?number from 0 to 0.5, far below"):
        Budget(epsilon=1.0, delta=delta)
    with pytest.raises(BudgetError, match="delta=.*expected a (finite )?number from 0 to 0.5, far below"):
        Budget(rho=1.0).epsilon_at(delta)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, "1", True])
def test_refuses_what_is_not_an_epsilon(epsilon):
    with pytest.raises(BudgetError, match="epsilon=.*expected a (finite )?number of at least 0"):
        Budget(rho=1.0).delta_at(epsilon)


def test_too_small_to_spend():
    with pytest.raises(BudgetError, match="too small to spend"):
        Budget(mu=1e-200).rho  # noqa: B018


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(2, 3), np.float32(0.1), np.float64(0.1), np.int64(2), 3])
def test_any_kind_of_number_is_never_rounded_up(value):
    assert Budget(rho=value).rho <= value
    assert Budget(rho=value).rho == pytest.approx(float(value), rel=1e-15)


def test_a_fraction_above_its_nearest_float_is_rounded_down():
    third = next(Fraction(1, d) for d in range(3, 100) if Fraction(1 / d) > Fraction(1, d))
    assert Fraction(Budget(epsilon=third).epsilon) < third


@pytest.mark.parametrize("stated", [{"rho": 1e308}, {"rho": 5e-324}, {"mu": 1e150}, {"epsilon": 1e3, "delta": 0.5}])
def test_extreme_budgets_convert_without_failing(stated):
    budget = Budget(**stated)
    assert budget.rho > 0
    assert budget.mu > 0
    assert budget.limit >= Fraction(budget.rho)
    assert budget.approximate or budget.limit == Fraction(budget.rho)
    assert budget.epsilon_at(1e-6) >= 0


@given(amounts, st.integers(1, 60))
def test_equal_shares_fit_and_waste_less_than_an_ulp_each(amount, parts):
    budget = Budget(rho=amount)
    shares = [Fraction(share.rho) for share in budget.split(parts)]
    assert len(shares) == parts
    assert sum(shares) <= budget.limit
    assert sum(Fraction(math.nextafter(float(share), math.inf)) for share in shares) > budget.limit


@given(amounts, st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_weighted_shares_fit(amount, weights):
    shares = Budget(epsilon=amount).split(weights)
    assert all(share.pure for share in shares)
    assert sum(share.limit for share in shares) <= Fraction(amount)


@settings(max_examples=60)
@given(amounts, st.integers(1, 40))
def test_charging_every_share_fits_and_one_ulp_more_does_not(amount, parts):
    budget = Budget(rho=amount)
    allowance = Allowance(budget)
    shares = [share.limit for share in budget.split(parts)]
    for share in shares:
        allowance.charge(GaussianEvent(1 / (2 * share), Fraction(1)))
    assert allowance.cost.rho == sum(shares)
    beyond = allowance.remaining + Fraction(math.ulp(amount)) / 2**60
    with pytest.raises(BudgetError) as refused:
        allowance.charge(GaussianEvent(1 / (2 * beyond), Fraction(1)))
    assert refused.value.requested == beyond
    assert refused.value.remaining == budget.limit - sum(shares)


def test_charging_pure_shares_fits():
    allowance = Allowance(Budget(epsilon=0.1))
    for share in Budget(epsilon=0.1).split(7):
        allowance.charge(LaplaceEvent(1 / share.limit, Fraction(1)))
    assert 0 <= allowance.remaining < Fraction(1, 10**15)


@pytest.mark.parametrize(
    "stated",
    [{"rho": 1e-9}, {"mu": 1e-5}, {"epsilon": 1e-3}, {"epsilon": 1e-9, "delta": 1e-9}, {"epsilon": 1e-3, "delta": 0.1}],
)
@given(st.floats(1e-15, 1e3))
def test_a_budget_covers_a_limit_and_hardly_more(stated, amount):
    before = Budget(**stated)
    limit = before.limit + Fraction(amount)
    budget = before.covering(limit)
    assert limit <= budget.limit <= limit * Fraction(1001, 1000)
    assert budget.to_dict().keys() == stated.keys()
    assert budget.delta == before.delta
    assert budget.covering(limit) is budget


@pytest.mark.parametrize("parts", [0, -1, [], [1.0, 0.0], [1.0, -1.0], [math.nan], [math.inf], 2.5, None, "ab", True])
def test_refuses_bad_proportions(parts):
    with pytest.raises(BudgetError, match="expected a whole number of at least 1, or proportions"):
        Budget(rho=1.0).split(parts)


def test_refuses_shares_of_nothing():
    with pytest.raises(BudgetError, match="cannot be split into 3 parts"):
        Budget(rho=5e-324).split(3)


def test_numpy_integers_split():
    assert len(Budget(rho=1.0).split(np.int64(4))) == 4


def test_spent_in_its_own_unit():
    cost = Cost(Fraction(1, 8), None)
    assert Budget(rho=1.0).spent(cost) == Fraction(1, 8)
    assert Budget(epsilon=1.0).spent(cost) == math.inf


@pytest.mark.parametrize("stated", [{"epsilon": 0.1, "delta": 1e-9}, {"epsilon": 1 / 3}, {"rho": 0.1}, {"mu": 1e-7}])
def test_json_and_repr_keep_every_bit(stated):
    budget = Budget(**stated)
    assert Budget.from_dict(budget.to_dict()) == budget
    assert eval(repr(budget)) == budget
    assert budget.to_dict() == stated


@pytest.mark.parametrize("body", [None, [], {"epsilon": 1.0, "who": 1}, "rho"])
def test_json_that_is_no_budget_is_refused(body):
    with pytest.raises(BudgetError, match="budget: expected an object"):
        Budget.from_dict(body)


@pytest.mark.parametrize(
    ("stated", "text"),
    [({"epsilon": 1.0, "delta": 1e-9}, "epsilon=1, delta=1e-09"), ({"epsilon": 2.0}, "epsilon=2"), ({"mu": 1}, "mu=1")],
)
def test_text(stated, text):
    assert str(Budget(**stated)) == text


def test_a_delta_that_alone_exceeds_a_part_is_named() -> None:
    with pytest.raises(BudgetError, match="or a smaller delta, such as 1e-9"):
        Budget(epsilon=1.0, delta=0.5).part(Fraction(3, 20))
