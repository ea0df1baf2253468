"""Contract suites that ship with the package: tiny tables, neighbours, record and replay, laws and divergences."""

from hush.testing.laws import (
    check_law,
    check_selection_privacy,
    law_pvalue,
    renyi_divergence,
    scores_of,
    selection_law,
)
from hush.testing.losses import LossError, check_loss
from hush.testing.mechanism_contract import MechanismError, check_mechanism
from hush.testing.operators import OperatorError, check_operator
from hush.testing.replay import check_replay
from hush.testing.tiny import StoppingTable, TinyTable, neighbours_of
from hush.workloads import check_extension

__all__ = [
    "LossError",
    "MechanismError",
    "OperatorError",
    "StoppingTable",
    "TinyTable",
    "check_extension",
    "check_law",
    "check_loss",
    "check_mechanism",
    "check_operator",
    "check_replay",
    "check_selection_privacy",
    "law_pvalue",
    "neighbours_of",
    "renyi_divergence",
    "scores_of",
    "selection_law",
]
