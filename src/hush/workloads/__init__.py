"""What the user wants to know: weighted tables of counts, and products of query blocks."""

from hush.workloads.workload import Term, Workload

__all__ = ["Term", "Workload"]
