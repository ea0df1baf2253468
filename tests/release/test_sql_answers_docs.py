"""The page on SQL: every query on it is answered."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dense_twins import DenseEstimates
from hush.release.sql_answers import answer_sql
from hush.schema import Schema
from hush.sql.parsing import statements

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
QUERIES = [query for block in re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL) for query in statements(block)]


@pytest.mark.parametrize("text", QUERIES)
def test_the_queries_of_the_page_are_answered(text: str, tmp_path: Path) -> None:
    path = tmp_path / "page.toml"
    path.write_text(re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[0], encoding="utf-8")
    schema = Schema.load(path)
    answers = answer_sql(text, schema, DenseEstimates(schema.domain, np.ones(schema.domain.shape)))
    assert all(np.isfinite(quantity.estimate).all() for quantity in answers.quantities)


def test_the_page_has_queries() -> None:
    assert len(QUERIES) >= 15
