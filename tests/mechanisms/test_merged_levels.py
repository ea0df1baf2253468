"""Merged levels: rare levels are counted together, by noisy columns alone."""

from fractions import Fraction

import numpy as np

from hush.core.domain import Domain
from hush.mechanisms.merged_levels import RunLevels
from hush.mechanisms.session import Session
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.gate import Gate, MarginalQuery
from hush.strategies.rare_levels import MergedQuery
from hush.tables.table import CachedTable
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 4, "c": 2})
ROWS = [(i % 2, i % 2, 0) for i in range(40)]


def test_rare_levels_are_counted_together_from_then_on():
    account = Allowance(Budget(rho=1e3))
    run = Session(Gate(CachedTable(TinyTable(DOMAIN, ROWS), most=1e6), account), account, domain=DOMAIN, max_rows=1)
    run.measure([("a",), ("b",), ("c",)], Fraction(1), note="")
    assert RunLevels(run).cells(("a", "b")) == 8
    levels = RunLevels.rare(run)
    assert levels.merging is not None
    assert {name: codes.tolist() for name, codes in levels.merging.codes.items()} == {"b": [0, 1, 2, 2]}
    assert levels.cells(("a", "b")) == 6
    assert levels.tables({("b",): np.array([1.0, 2.0, 3.0, 4.0])})[("b",)].tolist() == [1.0, 2.0, 7.0]
    queries = [levels.query(("a", "c")), levels.query(("a", "b"))]
    whole, merged = run.measure(queries, Fraction(200), note="")
    assert isinstance(whole.asked, MarginalQuery)
    assert isinstance(merged.asked, MergedQuery)
    assert merged.values.tolist() == [[20, 0, 0], [0, 20, 0]]
    (coarse,) = levels.measure([("a", "b")], Fraction(200), note="")  # counted by the coarse gate, recorded the same
    assert isinstance(coarse.asked, MergedQuery)
    assert coarse.values.tolist() == merged.values.tolist()
    before = levels.merging.codes["b"].tolist()
    run.measure([levels.query(("b",))], Fraction(1), note="")
    again = RunLevels.rare(run)  # a merged table says nothing of single levels
    assert again.merging is not None
    assert again.merging.codes["b"].tolist() == before
