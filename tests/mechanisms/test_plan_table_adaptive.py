"""Plans whose errors are not known beforehand, as text."""

import math
import re

import pytest

import hush
from hush.mechanisms import AIM
from hush.mechanisms.plan_table import plan_text

DOMAIN = hush.Domain({"age": 50, "sex": 2, "region": 8})
PLAN = hush.plan(hush.Workload.upto(DOMAIN, 2), hush.Budget(rho=0.06), mechanism="aim")


def lines(text: str) -> dict[str, str]:
    """The facts by their names."""
    matches = (re.match(r"(\S+(?: \S+)?)\s{2,}(\S.*)", line) for line in text.splitlines())
    return {match[1]: match[2].rstrip() for match in matches if match}


def test_an_adaptive_plan_says_what_it_starts_from_in_place_of_errors() -> None:
    text = plan_text(PLAN, width=200)
    facts = lines(text)
    assert "nan" not in text.lower()
    assert text.startswith("aim: 7 tables, 577 numbers")
    assert re.search(r"2-way +3 +16 +400\n", text)
    assert facts["Error"].startswith("not known beforehand")
    assert "3 one-way tables has standard error 5 if all" in facts["At best"]  # sqrt(3 / (2 * 0.06)) = 5
    assert facts["At best"].endswith("10% of the average cell at 1,000 rows")  # 5 * 20 / 0.1
    first = math.sqrt(48 / (2 * 0.9 * 0.06))  # T = 16 * 3 shares, nine tenths of each for measuring
    assert facts["Starts with"] == f"3 one-way tables, standard error {first:.3g} of a count"
    assert "at most 45 rounds" in facts["Then"]
    assert "6 candidates" in facts["Then"]
    assert facts["Model"] == "16.0 MB at most (preset balanced)"
    assert {"How good", "Privacy", "Unit"} <= set(facts)
    assert "depending on the data" in facts["Work"]


def test_with_rows_the_error_is_a_share_of_the_average_cell() -> None:
    assert "that is 1.00% of the average cell of 10,000 rows" in plan_text(PLAN, rows=10_000, width=200)


@pytest.mark.parametrize("width", [40, 80, 100])
def test_text_keeps_within_the_width(width: int) -> None:
    assert max(map(len, plan_text(PLAN, width=width).splitlines())) <= max(width, 67)  # 67: the table of tables


def seconds(work: str) -> tuple[float, float]:
    """The range of times that a plan states."""
    match = re.search(r"about ([\d.]+) (s|min|h) to ([\d.]+) (s|min|h) on one core", work)
    assert match is not None
    units = {"s": 1, "min": 60, "h": 3600}
    return float(match[1]) * units[match[2]], float(match[3]) * units[match[4]]


@pytest.mark.parametrize(
    ("columns", "order", "preset", "measured"),
    [  # CPU seconds of runs on generated tables of 20,000 rows, epsilon 1
        (8, 2, "fast", 1.6),
        (8, 3, "balanced", 2.7),
        (12, 2, "fast", 7.9),
        (12, 3, "balanced", 11.4),
        (15, 2, "balanced", 11.3),
        (15, 3, "fast", 26.5),
        (15, 3, "fast", 33.6),
        (15, 3, "balanced", 38.5),
    ],
)
def test_times_that_were_measured_are_within_the_range(columns: int, order: int, preset: str, measured: float) -> None:
    domain = hush.Domain({f"c{index}": 5 for index in range(columns)})
    work = AIM(preset=preset).work(hush.Workload.kway(domain, order))
    low, high = seconds(work)
    assert low < measured < high
    assert high <= 8 * measured  # no wilder a guess than need be
    assert "up to ten times that with 10" in work


def test_larger_models_and_more_candidates_are_more_work() -> None:
    wide = hush.Domain({f"c{index}": 20 for index in range(12)})
    pairs, triples = (hush.Workload.kway(wide, order) for order in (2, 3))

    def most(mechanism: AIM, workload: hush.Workload) -> float:
        return seconds(mechanism.work(workload))[1]

    assert most(AIM(preset="fast"), pairs) < most(AIM(), pairs) < most(AIM(preset="best"), pairs)
    assert most(AIM(), pairs) < most(AIM(), triples)
    plan = hush.plan(pairs, hush.Budget(rho=1.0), mechanism=AIM(max_size_mb=3))
    assert "max_size_mb" in dict(plan.settings.describe(plan))["Model"]


def test_facts_survive_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/plan.hush"
    PLAN.save(path)
    assert hush.load(path).details() == PLAN.details()


def test_the_summary_has_the_lines_to_decide_by() -> None:
    assert list(lines(str(PLAN))) == ["Protects", "Typical error", "Largest error", "Cost"]
    assert lines(str(PLAN))["Typical error"] == "not known beforehand; at best ± 5 rows on a count of one column"
    known = hush.plan(hush.Workload.kway(DOMAIN, 1), hush.Budget(rho=0.5), mechanism="residual", max_rows_per_unit=2)
    facts = lines(str(known))
    assert facts["Protects"].startswith("all rows of one unit, at most 2: adding or removing them")
    assert facts["Typical error"] == f"± {known.rmse:.3g} rows on a typical count"
    assert facts["Largest error"] == f"± {known.max_variance**0.5:.3g} rows"
    assert facts["Cost"] == "rho=0.5; 0.1 s, plus counting"
    assert known.details().startswith(str(known))
