"""`hush.synthesize` and `hush.Synthesizer`: synthetic rows of a data frame, without a schema file."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hush.core.errors import BudgetError, DataError, HushError, InterruptedRelease, SchemaError, close_match, shown
from hush.core.unit import ROW, Unit
from hush.privacy.budget import Budget
from hush.schema import Schema
from hush.schema.column import Value
from hush.schema.discovery_draft import BOUNDS, LEVELS
from hush.schema.stamps import Timestamp

if TYPE_CHECKING:
    from hush.mechanisms.mechanism import Mechanism
    from hush.privacy.ledger import Ledger
    from hush.release.release import Release
    from hush.render.text_table import TextTable
    from hush.schema.discovery_draft import Draft

NO_LEDGER = (
    "nothing records what this cost. All releases about the same people add up, so give ledger='budget.db' each time; "
    "hush then keeps the sum and stops at the limit that the first release sets"
)

DAYS_TO_FIND = '{"kind": "date", "bounds": "discover"}'  # what a schema file says about a column of days to be found


def synthesize(
    data: Any, epsilon: float, delta: float | None = 1e-9, *, rows: int | None = None, quiet: bool = False, **known: Any
) -> Any:
    """Synthetic rows of a data frame, as a frame of the same kind; spends epsilon and delta, once for each call.

    `rows` is how many, by default about as many as the data have. `known` are the settings of `Synthesizer`: what is
    publicly known about the columns, who is protected, and the ledger. Unless `quiet`, the call tells on the standard
    error stream what it assumed and what it found.

    >>> import hush
    >>> people = hush.datasets.people(3000, seed=1).select(["age", "sex", "employed"])
    >>> synthetic = synthesize(people, epsilon=2.0, rows=100, bounds={"age": (0, 99)}, ledger=False, quiet=True)
    >>> synthetic.num_rows, synthetic.column_names
    (100, ['age', 'sex', 'employed'])

    Privacy: (epsilon, delta) for adding or removing a row, or all rows of a unit up to their cap.
    """
    from hush.release.copies import check_drawing

    check_drawing(0 if rows is None else rows, "rounding", None)
    synthesizer = Synthesizer(epsilon=epsilon, delta=delta).set_params(**known)._fit(data, None, callers=3)
    try:
        if not quiet:
            sys.stderr.write(f"{synthesizer}\n")
        return synthesizer.sample(rows)
    except (HushError, OSError, ValueError, KeyboardInterrupt) as stopped:  # also of a closed standard error stream
        raise InterruptedRelease(
            f"{stopped or 'drawing rows was interrupted'}; the budget is spent, and this error has what it bought in "
            "its attribute release, whose method synthesize draws rows",
            release=synthesizer.release_,
        ) from None


class Synthesizer:
    """Synthetic rows of a data frame, in the style of scikit-learn: parameters, `fit`, `sample`.

    What the columns may hold comes from public facts, or is found in the rows with a part of the budget:

    - `schema`: a `Schema`, or a schema file, of the columns to use; or a mapping from names to the columns that
      you know, each a column, or the entries of its table in a schema file.
    - `levels`: the values of categories, such as {"sex": ["female", "male"]}.
    - `bounds`: the least and the largest value of numbers and days, such as {"age": (0, 120)}.
    - Names and declared types, which count as public. pandas makes whole numbers floats if a cell is missing; state the
      column in `schema` if even that must stay unknown. Categories of pandas and polars come from
      the rows, so these are found at a cost, unless `levels` states them; those of a polars Enum are taken as public.

    `unit` names the column of ids if a person may have several rows; `max_rows_per_unit` is how many of them are used,
    and is found as well if it is not given. `label` names the column that classifiers will predict. `mechanism` is as
    in `hush.plan`. `ledger` is the file that records all that is ever spent on these people; `ledger=False` says that
    there is none. Rows are drawn from `release_`, which answers queries too, at no further cost.

    >>> import hush
    >>> synthesizer = Synthesizer(epsilon=1.0, bounds={"age": (0, 99)}, ledger=False)
    >>> fitted = synthesizer.fit(hush.datasets.people(5000, seed=1).select(["age", "employed"]))
    >>> fitted.sample(10).num_rows, fitted.schema_["age"].low, fitted.feature_names_in_
    (10, 0, ['age', 'employed'])

    Privacy: (epsilon, delta) for each `fit`, or pure epsilon with `delta=None`. `sample` costs nothing. The object
    keeps no row of the data.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = 1e-9,
        *,
        schema: Schema | str | Path | Mapping[str, Any] | None = None,
        levels: Mapping[str, Iterable[Value]] | None = None,
        bounds: Mapping[str, tuple[Any, Any]] | None = None,
        label: str | None = None,
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        mechanism: str | Mechanism = "auto",
        ledger: str | Path | Ledger | bool | None = None,
        dataset: str = "default",
    ) -> None:
        # As scikit-learn asks: nothing but assignments, so that copies by `clone` are equal.
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.levels = levels
        self.bounds = bounds
        self.label = label
        self.unit = unit
        self.max_rows_per_unit = max_rows_per_unit
        self.mechanism = mechanism
        self.ledger = ledger
        self.dataset = dataset

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find what is not known about the columns, measure, and keep a release; spends the budget.

        `y`, if it is given, becomes one more column and the label.
        """
        return self._fit(X, y, callers=3)

    def _fit(self, X: Any, y: Any, *, callers: int) -> Self:
        """`fit`, whose warning names the line so many calls away."""
        from hush.discovery.quick_release import plan_rows, quick_release
        from hush.tables import read
        from hush.tables.frame_types import FrameTypes

        # Everything that can be refused is refused before anything is charged.
        budget = Budget(epsilon=self.epsilon) if self.delta is None else Budget(epsilon=self.epsilon, delta=self.delta)
        if self.ledger is True or self.ledger == "":  # an empty name must not mean that there is no ledger
            raise BudgetError(f"ledger={self.ledger!r}: expected the name of a file, such as ledger='budget.db'")
        data, label = (X, self.label) if y is None else _with_label(X, y, self.label)
        types = FrameTypes.of(data)
        known, assumed = self._known(data)
        names = [column.name for column in known]
        if label is not None and label not in names:
            near = close_match(label, names)
            hint = f"did you mean {near!r}?" if near else "check its name"
            raise SchemaError(f"label={shown(label)}: no such column is used; {hint}")
        if self.ledger is None:
            warnings.warn(NO_LEDGER, stacklevel=callers)

        # A schema that says everything is planned for at once; else a part of the budget finds the rest.
        found: tuple[str, ...]
        spending: dict[str, Any] = {"ledger": self.ledger or None, "dataset": self.dataset, "name": "synthetic rows"}
        if isinstance(known, Schema):
            planned = plan_rows(known, budget, self.mechanism, label=label)
            release = planned.release(read(data, known), **spending)
            found, share = (), 0.0
        else:
            done = quick_release(data, budget, draft=known, label=label, mechanism=self.mechanism, **spending)
            release, found, share = done.release, done.discovered, done.discovery_share
        self.release_: Release = release
        self.schema_: Schema = release.schema
        self.assumed_: tuple[str, ...] = assumed
        self.discovered_: tuple[str, ...] = found
        self.feature_names_in_ = [name for name in names if y is None or name != label]
        self.n_features_in_ = len(self.feature_names_in_)
        self._discovery_share = share
        self._advice = None if isinstance(known, Schema) else _advice(known)
        self._types = types
        return self

    def sample(self, rows: int | None = None, *, seed: int | None = None) -> Any:
        """Synthetic rows, as a frame of the kind that was fitted; by default about as many as the data have.

        Free: rows come from the release, and every call draws others, unless `seed` is given.
        """
        drawn = self._fitted.synthesize(rows, seed=seed)
        return self._types.rows_alike(drawn)

    @property
    def _fitted(self) -> Release:
        if not hasattr(self, "release_"):
            raise DataError("this Synthesizer has not seen data; call fit(data) first")
        return self.release_

    def _known(self, data: Any) -> tuple[Schema | Draft, tuple[str, ...]]:
        """The schema, or a draft of what is known, and in plain words what was assumed to make it."""
        from hush.discovery.guessed_draft import guessed_draft

        cap, known = self.max_rows_per_unit, self.schema
        if cap is not None and self.unit is None and not isinstance(known, Schema | str | Path):
            raise SchemaError("max_rows_per_unit goes with unit=, the column of ids; name it")
        if isinstance(known, Schema | str | Path):
            if self.levels or self.bounds:
                raise SchemaError("schema= says what the columns hold; leave out levels= and bounds=")
            stated = known if isinstance(known, Schema) else Schema.load(known)
            if self.unit is not None or cap is not None:
                column = stated.unit.column if self.unit is None else self.unit
                stated = stated.with_unit(Unit(column=column, max_rows=cap or stated.unit.max_rows))
            return stated, ()
        unit = ROW if self.unit is None else Unit(column=self.unit, max_rows=cap or 1)
        guess = guessed_draft(data, schema=known, bounds=self.bounds, levels=self.levels, unit=unit)
        return replace(guess.draft, open_unit=self.unit is not None and cap is None), guess.assumed

    # Parameters, as scikit-learn names them

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                near = close_match(name, known)
                hint = f"did you mean {near!r}?" if near else f"expected some of {', '.join(known)}"
                raise DataError(f"{shown(name)} is no parameter of Synthesizer; {hint}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn, which alone calls this, may expect: no label is required, and `fit` is."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(string=True))

    # What people see

    def _table(self) -> TextTable:
        """What was assumed, what was found and what it cost."""
        from hush.render.text_table import TextTable

        cost = f"epsilon={self.epsilon:g}" + ("" if self.delta is None else f", delta={self.delta:g}")
        if self._discovery_share:
            found = f"{100 * self._discovery_share:.0f} %"
            cost += f"; {found} was spent on what is found below, the rest on the tables"
        lines = [("Budget", cost)]
        lines += [("Assumed" if index == 0 else "", text) for index, text in enumerate(self.assumed_)]
        lines += [("Found" if index == 0 else "", text) for index, text in enumerate(self.discovered_)]
        lines += [("Advice", self._advice)] if self._advice else []
        return TextTable.facts(lines)

    def __str__(self) -> str:
        return self._table().text(100) if hasattr(self, "release_") else repr(self)

    def __repr__(self) -> str:
        defaults = {name: parameter.default for name, parameter in signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params().items() if repr(value) != repr(defaults[name])}
        return f"Synthesizer({', '.join(f'{name}={shown(value)}' for name, value in changed.items())})"

    def _repr_html_(self) -> str:
        from hush.render.markup import tag

        return self._table().html() if hasattr(self, "release_") else tag("code", repr(self))


def _advice(draft: Draft) -> str | None:
    """What people could state so that less must be found; None if they could state nothing."""
    numbers = [column.name for column in draft.open_columns if BOUNDS in column.open]
    listed = [column.name for column in draft.open_columns if LEVELS in column.open]
    examples = [f"bounds={{{numbers[0]!r}: (lowest, highest)}}"] if numbers else []
    examples += [f"levels={{{listed[0]!r}: [...]}}"] if listed else []
    if not examples:
        return None
    told = (
        f"State what you know about the columns: it costs nothing, and is exact. Add {' and '.join(examples)}, or more."
    )
    if stamps := [column.name for column in draft.open_columns if column.kind == Timestamp.kind]:
        told += f" If {stamps[0]} holds days without times, add schema={{{stamps[0]!r}: {DAYS_TO_FIND}}}."
    return told


def _with_label(features: Any, label: Any, name: str | None) -> tuple[Any, str]:
    """A frame with one more column, the label."""
    from hush.tables.dialects.dialect import attempt
    from hush.tables.frame_types import FrameTypes

    library = FrameTypes.of(features).library
    column = name or getattr(label, "name", None) or "label"
    if library not in ("pandas", "polars"):
        raise DataError("fit(X, y) takes a pandas or polars frame; add the label as a column and name it with label=")
    if column in map(str, features.columns):
        raise DataError(f"X has a column {column!r} already; rename y, or leave y out and name label={column!r}")
    if len(label) != len(features):
        raise DataError("X and y have different numbers of rows; give one label for each row")
    failed = f"y holds values of several types, or that {library} cannot hold in one column; convert them to texts"
    return attempt(partial(_LABELLED[library], features, label, column), failed), column


# A label keeps its type: one that is guessed anew from the values would tell whether some row holds another kind.


def _labelled_pandas(features: Any, label: Any, column: str) -> Any:
    values = getattr(label, "array", label if hasattr(label, "dtype") else list(label))
    return features.assign(**{column: list(label) if type(label).__module__.startswith("polars") else values})


def _labelled_polars(features: Any, label: Any, column: str) -> Any:
    import polars as pl

    if type(label).__module__.startswith("pandas"):
        label = pl.from_pandas(label)
    typed = isinstance(label, pl.Series) or str(getattr(label, "dtype", "object")) != "object"
    return features.with_columns(pl.Series(column, label if typed else list(label)))


_LABELLED = {"pandas": _labelled_pandas, "polars": _labelled_polars}
