"""The owner's self-check: are the samplers exact, does a mechanism lose more privacy than it states, do records agree?

>>> Rates.of(70, 30, 100, confidence=0.99).epsilon > 0.2  # a test that is right 7 times in 10 proves a loss
True
"""

from hush.audit.findings import Audit, Finding
from hush.audit.lower_bounds import Rates
from hush.audit.membership import Membership, MembershipAudit
from hush.audit.self_check import audit, check_ledger, check_release, check_samplers

__all__ = [
    "Audit",
    "Finding",
    "Membership",
    "MembershipAudit",
    "Rates",
    "audit",
    "check_ledger",
    "check_release",
    "check_samplers",
]
