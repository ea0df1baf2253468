"""The section on buckets: there for histograms alone, with every bucket drawn and listed."""

import numpy as np
import pyarrow as pa

import hush
from hush.report.optional_sections import buckets_section
from hush.report.page import report_html
from hush.schema import Integer, Schema


def released(mechanism: str, epsilon: float, levels: int = 512) -> hush.Release:
    values = np.random.default_rng(1).normal(200, 40, 4000).clip(0, levels - 1).astype(int)
    table = hush.read(pa.table({"x": values}), Schema([Integer(name="x", low=0, high=levels - 1)]))
    workload = hush.Workload.product(table.domain, {"x": hush.queries.prefix})
    return hush.plan(workload, hush.Budget(epsilon=epsilon), mechanism=mechanism).release(table)


def test_every_bucket_is_drawn_and_listed() -> None:
    release = released("dawa", 0.0125)  # the rows are 50 times the noise: few blocks of several sizes
    page, section = report_html(release), str(buckets_section(release, 7))
    grid = release.record.buckets["x"]
    assert 4 <= grid.buckets < 100
    assert len(release.record.cuts[-1].nodes) == grid.buckets
    assert '<a href="#buckets">' in page
    assert page.count('id="buckets"') == 1
    assert section.count("<rect") == grid.buckets
    assert f"{grid.buckets} buckets of 512 levels" in section
    assert section.count("<tr>") + section.count("<tr ") >= min(grid.buckets, 200)
    assert "evenly" in section


def test_cells_measured_by_themselves_are_said_to_be() -> None:
    assert "Every level was measured by itself" in str(buckets_section(released("dawa", 50.0), 7))


def test_a_map_in_blocks_does_not_say_that_levels_were_measured_by_themselves() -> None:
    x, y = np.random.default_rng(1).normal(20, 4, (2, 4000)).clip(0, 63).astype(int)
    schema = Schema([Integer(name=name, low=0, high=63) for name in ("x", "y")])
    table = hush.read(pa.table({"x": x, "y": y}), schema)
    workload = hush.Workload.product(table.domain, {"x": hush.queries.ranges, "y": hush.queries.ranges})
    release = hush.plan(workload, hush.Budget(epsilon=1), mechanism="dawa").release(table)
    assert all(grid.whole for grid in release.record.grids)
    section = str(buckets_section(release, 7))
    assert "by itself" not in section
    assert "do not cover the error of spreading rows evenly" in section


def test_other_releases_have_no_such_section() -> None:
    release = released("hdmm", 1.0, levels=16)
    assert buckets_section(release, 7) is None
    assert '<a href="#buckets">' not in report_html(release)
