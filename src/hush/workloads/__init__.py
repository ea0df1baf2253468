"""What the user wants to know: weighted tables of counts, products of query blocks, and further kinds of terms."""

from hush.workloads import census
from hush.workloads.decision_diagram import DecisionDiagram
from hush.workloads.formula_term import FormulaTerm, OwnQuery, check_extension
from hush.workloads.term import ProductTerm, Term
from hush.workloads.threshold_term import ThresholdTerm
from hush.workloads.workload import Workload

__all__ = [
    "DecisionDiagram",
    "FormulaTerm",
    "OwnQuery",
    "ProductTerm",
    "Term",
    "ThresholdTerm",
    "Workload",
    "census",
    "check_extension",
]
