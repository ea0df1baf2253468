import itertools
from fractions import Fraction

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import BudgetError
from hush.privacy.sensitivity import ONE_CELL, Neighbours, RowNorms, Sensitivity, sensitivity
from hush.testing import TinyTable, neighbours_of

DOMAIN = Domain({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, [(0, 0), (1, 2), (1, 2)])


@pytest.mark.parametrize(("relation", "l1", "l2_squared"), [(Neighbours.ADD_REMOVE, 1, 1), (Neighbours.REPLACE, 2, 2)])
def test_counts_move_exactly_as_far_as_declared(relation: Neighbours, l1: int, l2_squared: int) -> None:
    bound = sensitivity(ONE_CELL, max_rows=1, neighbours=relation)
    clique = ("a", "b")
    here = TABLE.counts([clique])[clique]
    gaps = [here - other.counts([clique])[clique] for other in neighbours_of(TABLE, relation)]
    assert max(int(np.abs(gap).sum()) for gap in gaps) == bound.l1 == l1
    assert max(int((gap**2).sum()) for gap in gaps) == bound.l2_squared == l2_squared


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("max_rows", [1, 2, 3])
def test_units_of_several_rows_are_bounded_and_the_bound_is_attained(relation: Neighbours, max_rows: int) -> None:
    """All units of up to max_rows rows over six cells, against none or against each other."""
    bound = sensitivity(ONE_CELL, max_rows=max_rows, neighbours=relation)
    cells = range(4)
    units = [
        np.bincount(list(unit), minlength=4) if unit else np.zeros(4, dtype=int)
        for size in range(max_rows + 1)
        for unit in itertools.combinations_with_replacement(cells, size)
    ]
    others = [np.zeros(4, dtype=int)] if relation is Neighbours.ADD_REMOVE else units
    gaps = [unit - other for unit in units for other in others]
    assert max(int(np.abs(gap).sum()) for gap in gaps) == bound.l1
    assert max(int((gap**2).sum()) for gap in gaps) == bound.l2_squared


@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_unit_may_be_exchanged_for_one_without_rows(max_rows: int) -> None:
    """Values from 5 to 7: two rows are 2 apart, but a unit of one row and a unit of none are 7 apart."""
    row = RowNorms.of_number(7, 2)
    sums = [sum(values) for size in range(max_rows + 1) for values in itertools.product((5, 6, 7), repeat=size)]
    bound = sensitivity(row, max_rows=max_rows, neighbours=Neighbours.REPLACE)
    assert bound.l1 == max(sums) - min(sums)
    assert bound.l2_squared == bound.l1**2


def test_only_a_single_row_unit_under_add_remove_is_a_single_cell() -> None:
    cases = itertools.product(Neighbours, (1, 2))
    flags = {case: sensitivity(ONE_CELL, max_rows=case[1], neighbours=case[0]).single_cell for case in cases}
    assert [case for case, flag in flags.items() if flag] == [(Neighbours.ADD_REMOVE, 1)]


def test_zero_sensitivity_is_refused() -> None:
    with pytest.raises(BudgetError, match="expected numbers above 0"):
        Sensitivity(Fraction(0), Fraction(0))


def test_a_relation_that_is_not_one_is_refused() -> None:
    with pytest.raises(BudgetError, match="Neighbours"):
        sensitivity(ONE_CELL, max_rows=1, neighbours="replace")  # type: ignore[arg-type]
