"""A domain for dpsynth comes back through the reader of its files."""

from __future__ import annotations

import pytest
import yaml

import hush
from hush.errors import SchemaError
from hush.interop import dpsynth_domain
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema


def test_values_and_bins_come_back(tmp_path) -> None:
    schema = Schema(
        [
            Categorical(name="sex", values=("f", "m"), other=True),
            Boolean(name="employed"),
            Integer.equal_width(name="age", low=0, high=99, bins=10, outside="clamp"),
            Numeric.equal_width(name="income", low=0, high=1000, bins=8),
        ]
    )
    path = tmp_path / "domain.yaml"
    path.write_text(yaml.safe_dump(dpsynth_domain(schema), sort_keys=False))
    back = Schema.load(path)
    assert list(back.domain) == list(schema.domain)
    assert back["sex"].values == ("f", "m")
    assert isinstance(back["employed"], Boolean)
    assert back["age"].starts == schema["age"].starts
    assert back["age"].outside == schema["age"].outside
    assert back["income"].edges == schema["income"].edges
    assert back["income"].outside == schema["income"].outside


@pytest.mark.parametrize(
    "column",
    [
        Date(name="x", start=__import__("datetime").date(2020, 1, 1), end=__import__("datetime").date(2020, 1, 9)),
        Numeric(name="x", edges=(0, 1, 10)),
        Integer(name="x", low=0, high=9, starts=(0, 1)),
        Categorical(name="x", values=("a",), missing=True),
    ],
)
def test_what_dpsynth_cannot_hold_is_refused(column) -> None:
    with pytest.raises(SchemaError, match="no form"):
        dpsynth_domain(Schema([column]))


def test_rules_are_refused() -> None:
    schema = hush.datasets.people_schema()
    with pytest.raises(SchemaError, match="rules"):
        dpsynth_domain(schema.forbid(("sex", "employed"), [("male", True)]))
