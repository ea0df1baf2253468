"""Synthetic rows go into pipelines of scikit-learn as they are: types of columns, missing values, categories."""

from __future__ import annotations

import pytest

import hush

pytest.importorskip("sklearn")
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def test_a_pipeline_trains_on_synthetic_rows_and_scores_real_ones() -> None:
    schema, real = hush.datasets.people_schema(), hush.datasets.people(3000, seed=1)
    plan = hush.plan("2-way", hush.Budget(epsilon=5, delta=1e-9), schema=schema, goal="rows")
    rows = schema.to_pandas(plan.release(hush.read(real, schema)).synthesize(3000)).drop(columns="moved")
    held_out = schema.to_pandas(hush.datasets.people(1000, seed=2)).drop(columns="moved")
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    pipeline = make_pipeline(
        make_column_transformer(
            (texts, make_column_selector(dtype_include="category")),
            (numbers, make_column_selector(dtype_include="number")),
        ),
        LogisticRegression(max_iter=500),
    )
    inputs = ["age", "sex", "region", "education", "income"]
    pipeline.fit(rows[inputs], rows["employed"].astype(bool))
    score = pipeline.score(held_out[inputs], held_out["employed"].astype(bool))
    assert score > 0.6
