"""Neighbours: which pairs of tables a guarantee makes hard to tell apart."""

from __future__ import annotations

from enum import Enum


class Neighbours(Enum):
    """The relation between two neighbouring tables; it decides every sensitivity.

    ADD_REMOVE: one has a privacy unit that the other lacks, so that the number of units is hidden too.
    REPLACE: one unit's rows are exchanged for another's; the number of units is public.
    """

    ADD_REMOVE = "add or remove one unit"
    REPLACE = "replace one unit"
