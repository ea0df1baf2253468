"""Mechanisms keep their contract where a workload has sums of values: replay, neighbours, interruption, resuming."""

import pytest

import hush
from hush.mechanisms.mechanism import Mechanism
from hush.privacy.budget import Budget
from hush.schema import Schema
from hush.testing.mechanism_contract import TINY_DOMAIN, check_mechanism
from hush.workloads import Workload

SCHEMA = Schema.from_domain(TINY_DOMAIN)
WORKLOAD = Workload.upto(TINY_DOMAIN, 2) + Workload.sums(SCHEMA, "b", by=["a"], variance=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        (hush.mechanisms.Residual(), Budget(rho=0.4)),
        (hush.mechanisms.HDMM(), Budget(epsilon=1.0)),
        (hush.mechanisms.Independent(), Budget(rho=0.4)),
        (hush.mechanisms.AIM(), Budget(rho=0.4)),
        (hush.mechanisms.MWEM(), Budget(rho=0.4)),
    ],
    ids=["residual", "hdmm", "independent", "aim", "mwem"],
)
def test_the_contract_holds_with_sums(mechanism: Mechanism, budget: Budget) -> None:
    check_mechanism(mechanism, workload=WORKLOAD, budget=budget)
