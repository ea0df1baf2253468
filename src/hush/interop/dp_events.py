"""dp_accounting: what a release or a ledger spent, as an event that Google's accountants take.

An event must not promise more privacy than the noise gives. dp_accounting's Laplace and Gaussian events assume
continuous noise, and discrete Laplace noise on counts loses more. So every charge is stated as its zCDP, which holds
for any neighbouring relation and any accountant of Renyi divergences.
"""

from __future__ import annotations

from typing import Any

from hush.core.errors import BudgetError, HushError
from hush.core.rational import float_up
from hush.privacy.events import Event, compose, price
from hush.privacy.ledger import Ledger
from hush.release.release import Release


def dp_accounting_event(spent: Release | Ledger | Event) -> Any:
    """A `dp_accounting.ZCDpEvent` for everything that was spent, by a release or by all releases of a ledger.

    Its rho is rounded up. An event without a bound in zCDP, such as a promise of (epsilon, delta), is refused. Pure
    epsilon becomes rho = epsilon^2 / 2, which is looser than hush's own total. The discovery of a schema is a charge of
    its own, which a ledger holds and a release does not.

    >>> from fractions import Fraction
    >>> from hush.privacy.events import GaussianEvent
    >>> dp_accounting_event(GaussianEvent(variance=Fraction(2), sensitivity_l2_squared=Fraction(1))).rho
    0.25
    """
    try:
        from dp_accounting import ZCDpEvent
    except ImportError:
        raise HushError(
            "events of dp_accounting need dp-accounting, which is not installed; run pip install 'hush[training]'"
        ) from None
    event = compose(spent.events()) if isinstance(spent, Ledger) else spent
    cost = price(event.statement.event if isinstance(event, Release) else event)
    if cost.rho is None or cost.delta:
        raise BudgetError("what was spent has no bound in zCDP without a delta, so dp_accounting has no event for it")
    return ZCDpEvent(float_up(cost.rho))
