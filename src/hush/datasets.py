"""Example tables of invented people: no downloads, and no data of real people.

>>> table = people(1000, seed=1)
>>> table.num_rows, table.column_names
(1000, ['age', 'sex', 'region', 'education', 'employed', 'income', 'moved'])
>>> people_schema().domain.size(("age", "sex"))
200
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np

from hush.schema import Boolean, Categorical, Date, Granularity, Integer, Numeric, Outside, Schema

if TYPE_CHECKING:
    import pyarrow as pa

REGIONS = ("North", "East", "South", "West", "Capital")
EDUCATION = ("none", "school", "college", "degree", "doctorate")


def people_schema() -> Schema:
    """The schema of `people`, as if written from the questionnaire and not from the rows."""
    return Schema(
        [
            Integer(name="age", low=0, high=99, outside=Outside.CLAMP),
            Categorical(name="sex", values=("female", "male")),
            Categorical(name="region", values=REGIONS),
            Categorical(name="education", values=EDUCATION, missing=True),
            Boolean(name="employed"),
            Numeric.equal_width(name="income", low=0, high=120_000, bins=24, outside=Outside.CLAMP, missing=True),
            Date(
                name="moved",
                start=dt.date(2015, 1, 1),
                end=dt.date(2024, 12, 31),
                granularity=Granularity.YEAR,
                outside=Outside.CLAMP,
            ),
        ]
    )


def people(rows: int, *, seed: int) -> pa.Table:
    """A table of invented people whose columns depend on each other; the same for the same seed."""
    import pyarrow as pa

    random = np.random.Generator(np.random.PCG64(seed))
    age = np.clip(random.gamma(4.2, 10.0, rows), 0, 99).astype(np.int64)
    sex = random.random(rows) < 0.49
    region = random.choice(len(REGIONS), size=rows, p=[0.15, 0.2, 0.25, 0.1, 0.3])
    skill = random.normal(size=rows) + 0.5 * (region == 4) - 0.01 * np.abs(age - 38)
    education = np.where(age < 16, 1, np.clip(np.digitize(skill, [-1.8, -0.2, 0.7, 2.1]), 0, 4))
    education = np.where(age < 6, 0, education)
    employed = (age >= 16) & (age < 70) & (random.random(rows) < 0.55 + 0.08 * education)
    wage = np.exp(9.6 + 0.28 * education + 0.012 * np.minimum(age, 50) + 0.35 * random.normal(size=rows))
    income = np.where(employed, wage, np.where(age >= 65, 0.45 * wage, 0.0))
    days = random.integers(0, 3653, size=rows)
    unknown_education = random.random(rows) < 0.03
    unknown_income = random.random(rows) < 0.05
    start = dt.date(2015, 1, 1)
    return pa.table(
        {
            "age": age,
            "sex": np.where(sex, "male", "female"),
            "region": np.array(REGIONS)[region],
            "education": pa.array(np.array(EDUCATION)[education], mask=unknown_education),
            "employed": employed,
            "income": pa.array(np.round(income, 2), mask=unknown_income),
            "moved": pa.array([start + dt.timedelta(days=int(day)) for day in days], type=pa.date32()),
        }
    )


def invented(schema: Schema, rows: int, *, seed: int, groups: int = 8) -> pa.Table:
    """Invented rows of a schema, whose columns depend on each other: each of a few groups of rows prefers other levels.

    Made from the schema alone, to try out a release when no public table is at hand. If the schema names a unit, each
    unit has as many rows as a release uses of it, so that all rows are used.

    >>> invented(people_schema(), 100, seed=1).num_rows
    100
    """
    random = np.random.Generator(np.random.PCG64(seed))
    shares = random.dirichlet(np.ones(groups))
    group = random.choice(groups, size=rows, p=shares)
    codes = {}
    for column in schema:
        chances = random.dirichlet(np.full(column.size, 1 / np.sqrt(column.size)), groups).cumsum(axis=1)
        places = np.empty(rows, dtype=np.int64)
        for number in range(groups):
            inside = np.flatnonzero(group == number)
            places[inside] = np.searchsorted(chances[number], random.random(len(inside)))
        codes[column.name] = np.minimum(places, column.size - 1)
    table = schema.decode(codes)
    unit = schema.unit
    return table if unit.column is None else table.append_column(unit.column, [np.arange(rows) // unit.max_rows])
