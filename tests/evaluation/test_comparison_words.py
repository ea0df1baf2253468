"""How close synthetic rows are to real ones says how useful they are; it is never shown as privacy.

Distances to the closest record, shares of exact copies and the like promise nothing to anybody, and they are computed
from private rows.
"""

import json
import re
from pathlib import Path

import pyarrow.csv
import pytest
from click.testing import CliRunner

import hush
from hush import Budget, Workload
from hush.cli.main import main
from hush.datasets import people, people_schema
from hush.evaluation import STAMP, compare
from hush.report import report_html

SCHEMA = people_schema()
# words by which others present such figures
PROMISES = re.compile(
    r"\bdcr\b|closest record|nearest (record|neighbou?r)|\bnndr\b|exact match|identical match|anonym|disclosure|"
    r"re-?identif|attack|membership|\brisk|\bsafe|\bsecure|guarantee|privacy score|protected"
)


def test_the_words_are_found() -> None:
    assert PROMISES.search("dcr 5th percentile: 0.3, privacy score 98 %")
    assert not PROMISES.search(STAMP)


def test_a_comparison_is_private_and_promises_nothing() -> None:
    real = hush.read(people(300, seed=1), SCHEMA)
    found = compare(real, hush.read(people(200, seed=2), SCHEMA))
    for text in (str(found), json.dumps(found.to_dict())):
        assert STAMP in text
        assert PROMISES.search(text.lower()) is None


def test_the_command_promises_nothing(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "people.toml")
    pyarrow.csv.write_csv(people(300, seed=1), tmp_path / "real.csv")
    pyarrow.csv.write_csv(people(200, seed=2), tmp_path / "rows.csv")
    asked = [tmp_path / "real.csv", tmp_path / "rows.csv", "--schema", tmp_path / "people.toml"]
    shown = CliRunner().invoke(main, ["evaluate", *map(str, asked)])
    assert shown.exit_code == 0, shown.output
    assert STAMP in shown.output
    assert PROMISES.search(shown.output.lower()) is None


@pytest.mark.parametrize("mechanism", ["residual", "mst"])
def test_a_report_states_the_promise_by_the_budget_alone(mechanism: str) -> None:
    plan = hush.plan(Workload.kway(SCHEMA.domain, 1), Budget(rho=0.4), mechanism=mechanism)
    page = report_html(plan.release(hush.read(people(300, seed=1), SCHEMA)))
    text = re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert "The privacy promise" in text
    assert re.search(r"\bdcr\b|closest record|privacy score|exact match|membership", text.lower()) is None
