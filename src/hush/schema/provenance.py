"""Provenance: how a part of a schema was found in private rows, at which cost, and how surely.

A schema that was found by discovery is public: what it shows left the rows through the gate, with noise that was paid
for. Provenance says so in the schema file, in place of `from_private_data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hush.core.errors import SchemaError
from hush.schema.section import SchemaSection

DISCOVER = "discover"  # the value of an entry of a draft that is left open
DISCOVERED = "discovered"  # the key of provenance in a schema file
PARTS_FOUND = ("bounds", "bins", "points", "granularity", "levels", "max_rows")
COST_UNITS = ("epsilon", "rho", "mu^2/2")  # those of `Budget.unit`
BUDGET_KEYS = ("epsilon", "delta", "rho", "mu")
_LEVEL_KEYS = ("most_values", "threshold", "found_from")
_KEYS = (
    *("what", "note", "cost", "cost_unit", "delta", "failure", "outside", "rows", "stddev", "units", "units_stddev"),
    *_LEVEL_KEYS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What was found about one column or about the privacy unit, and what it cost.

    `cost` is in `cost_unit`, the unit of the budget that paid; `delta` is the column's own delta, if its mechanism has
    one. With probability 1 - `failure` over the noise, at most the share `outside` of all rows lies beyond what was
    found: outside the bounds, or in none of the levels. `rows` are noisy numbers of rows of each level of the column,
    missing last, and `stddev` their standard deviations; both are empty if no counts came along. `note` says in
    plain words what was found.

    Levels were found if their noisy number of units, each of which counts for at most `most_values` levels, reached
    `threshold`. A value that `found_from` units or more hold is found, except with probability `failure` each. `units`
    are the noisy numbers for the last levels before `other`, those that were found, and `units_stddev` is the standard
    deviation of their noise. As only levels with large noisy numbers are shown, small ones are too large on
    average.

    Privacy: every number here left through the gate; the rest is public.
    """

    what: tuple[str, ...]
    cost: float
    cost_unit: str
    failure: float
    note: str = ""
    delta: float = 0.0
    outside: float | None = None
    rows: tuple[int, ...] = ()
    stddev: tuple[float, ...] = ()
    units: tuple[int, ...] = ()
    units_stddev: float | None = None
    most_values: int | None = None
    threshold: int | None = None
    found_from: int | None = None

    def entries(self) -> dict[str, Any]:
        """The keys and values of its table in a schema file; what is empty is left out."""
        entries: dict[str, Any] = {"what": list(self.what)} | ({"note": self.note} if self.note else {})
        entries |= {"cost": self.cost, "cost_unit": self.cost_unit}
        entries |= {"delta": self.delta} if self.delta else {}
        entries |= {"failure": self.failure}
        entries |= {} if self.outside is None else {"outside": self.outside}
        entries |= {"rows": list(self.rows), "stddev": list(self.stddev)} if self.rows else {}
        entries |= {key: getattr(self, key) for key in _LEVEL_KEYS if getattr(self, key) is not None}
        return entries | ({"units": list(self.units), "units_stddev": self.units_stddev} if self.units else {})

    @classmethod
    def read(cls, where: str, entries: object) -> Discovered:
        """The provenance in the table of a schema file; messages begin with `where`."""
        section = SchemaSection(where, entries)
        section.only(_KEYS)
        what = section.texts("what")
        cost_unit = section.text("cost_unit", "")
        if not what or not set(what) <= set(PARTS_FOUND):
            raise SchemaError(f"{where}: what = {list(what)}: expected some of {', '.join(PARTS_FOUND)}")
        if cost_unit not in COST_UNITS:
            raise SchemaError(f"{where}: cost_unit = {cost_unit!r}: expected one of {', '.join(COST_UNITS)}")
        numbers: dict[str, Any] = {key: section.number(key, "discovery writes it") for key in ("cost", "failure")}
        numbers |= {key: section.number(key, "") for key in ("delta", "outside", "units_stddev") if key in section}
        numbers |= {key: section.integer(key, "") for key in _LEVEL_KEYS if key in section}
        lists: dict[str, Any] = {
            key: tuple(section.items(key, "")) if key in section else () for key in ("rows", "stddev", "units")
        }
        if any(value < 0 for value in numbers.values()) or len(lists["rows"]) != len(lists["stddev"]):
            raise SchemaError(f"{where}: numbers below 0, or rows and stddev of different lengths; discover again")
        if not all(type(value) is int for key in ("rows", "units") for value in lists[key]) or not all(
            isinstance(value, int | float) and value > 0 for value in lists["stddev"]
        ):
            raise SchemaError(f"{where}: rows and units are whole numbers and stddev numbers above 0; discover again")
        return cls(what=what, note=section.text("note", ""), cost_unit=cost_unit, **numbers, **lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The run that found parts of a schema: its budget, whom it protects, and what it says of the privacy unit.

    `budget` has the amounts as `Budget.to_dict` gives them, and paid for the columns `found`; other columns with
    provenance are those of earlier runs. `unit` is the id column of the people that it protects,
    empty for single rows. `ledger_head` identifies the ledger and the entry up to which it was charged, as in a
    release.
    """

    budget: tuple[tuple[str, float], ...]
    neighbours: str
    found: tuple[str, ...] = ()
    unit: str = ""
    ledger_head: str | None = None
    max_rows: Discovered | None = None

    def entries(self) -> dict[str, Any]:
        """The keys and values of [discovery] in a schema file, without the table of `max_rows`."""
        entries: dict[str, Any] = {**dict(self.budget), "neighbours": self.neighbours}
        entries |= {"found": list(self.found)} if self.found else {}
        entries |= {"unit": self.unit} if self.unit else {}
        return entries | ({} if self.ledger_head is None else {"ledger_head": self.ledger_head})

    @classmethod
    def read(cls, entries: object) -> Discovery:
        """The run in [discovery] of a schema file."""
        section = SchemaSection("[discovery]", entries)
        section.only((*BUDGET_KEYS, "neighbours", "found", "unit", "ledger_head", "max_rows"))
        head = section.text("ledger_head", "") or None
        cap = Discovered.read("[discovery.max_rows]", section.entries["max_rows"]) if "max_rows" in section else None
        budget = tuple((key, section.number(key, "")) for key in BUDGET_KEYS if key in section)
        found = tuple(section.texts("found")) if "found" in section else ()
        texts = {key: section.text(key, "") for key in ("neighbours", "unit")}
        return cls(budget=budget, found=found, ledger_head=head, max_rows=cap, **texts)
