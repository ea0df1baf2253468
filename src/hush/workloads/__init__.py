"""What the user wants to know: weighted tables of counts, and products of query blocks."""

from hush.workloads import census
from hush.workloads.term import Term
from hush.workloads.workload import Workload

__all__ = ["Term", "Workload", "census"]
