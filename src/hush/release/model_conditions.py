"""Conditions on a model: what is given in real values, as codes, and the records that have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import DomainError, shown
from hush.graphical.given import Impossible, excluded
from hush.graphical.model import GraphicalModel
from hush.inference.estimates import Array
from hush.release.model_estimates import Distribution
from hush.schema import Schema
from hush.schema.conditions import Conditions


def shares_where(schema: Schema, distribution: Distribution, names: Clique, given: Mapping[str, Any]) -> Array:
    """p(names | given), which adds up to one; refuses what has no records."""
    known = given_codes(schema, given)
    if isinstance(distribution, GraphicalModel):
        try:
            found = distribution.conditional(names, known)
        except Impossible as error:
            raise Impossible(given, excluded=error.excluded) from None
    else:
        table = distribution.counts((*names, *known))
        for axis, codes in enumerate(known.values(), start=len(names)):
            table = table.take(codes, axis=axis)
        found = table.reshape(*schema.domain.sizes(names), -1).sum(axis=-1)
        if not found.sum() > 0:
            raise Impossible(given, excluded=excluded(distribution.constraints, known))
    return np.asarray(found / found.sum())


def conditioned(schema: Schema, distribution: Distribution, given: Mapping[str, Any]) -> Distribution:
    """The model of the records that have what is given."""
    try:
        return distribution.conditioned(given_codes(schema, given))
    except Impossible as error:
        raise Impossible(given, excluded=error.excluded) from None


def given_codes(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """The codes that conditions in real values leave, column by column.

    >>> import hush
    >>> given_codes(hush.datasets.people_schema(), {"sex": "female"})["sex"].tolist()
    [0]
    """
    if not isinstance(given, Mapping):
        raise DomainError(f'given={shown(given)}: expected columns and their values, such as {{"sex": "female"}}')
    return {name: Conditions(schema[name]).codes(given[name]) for name in schema.domain.check(given)}
