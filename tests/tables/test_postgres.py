"""PostgreSQL: rows are counted where they lie, in one read-only snapshot, and neither they nor passwords are shown."""

from __future__ import annotations

from hush.schema import Categorical, Integer, Schema

SCHEMA = Schema([Categorical(name="sex", values=("f", "m")), Integer(name="age", low=0, high=9)])


def test_server(postgres) -> None:
    with postgres.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
