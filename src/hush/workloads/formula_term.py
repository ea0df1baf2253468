"""Formula terms: the number of rows that satisfy a query of one's own, and hand-written extensions with their check."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from hush.core.arrays import Booleans, Floats
from hush.core.domain import Clique, Domain, domain_of
from hush.core.errors import SizeError, WorkloadError
from hush.schema.conditions import Conditions
from hush.schema.proposition import Proposition
from hush.workloads.decision_diagram import DecisionDiagram, FormulaRow
from hush.workloads.term import Term, check_weight

if TYPE_CHECKING:
    from hush.schema import Schema

LONGEST_TEXT = 120  # characters of a formula, for a person
MOST_CELLS = 1 << 24  # over which a function of codes is tabulated
CHECKED_CELLS = 1 << 16  # in which an extension is compared with its query
EXTENSION_TOLERANCE = 1e-9  # between a query and its extension, in every cell
Extension: TypeAlias = Callable[[Mapping[str, Floats]], tuple[Floats, Mapping[str, Floats]]]


@dataclass(frozen=True, slots=True)
class FormulaTerm(Term):
    """How many rows satisfy a query, which is a decision diagram over the columns of the clique.

    `extension` is a hand-written one, in place of the diagram's own; see `OwnQuery`. Files do not keep it.

    >>> from hush.schema.proposition import test
    >>> term = formula_term(Domain({"a": 2, "b": 3}), test("a", 1) | test("b", 0))
    >>> term.exact_answers(np.array([[1, 2, 4], [8, 16, 32]])).tolist(), term.text
    ([57.0], 'a = 1 or b = 0')
    """

    clique: Clique
    diagram: DecisionDiagram
    text: str
    weight: float = 1.0
    extension: Extension | None = field(default=None, compare=False)
    kind: ClassVar[str] = "formula"
    queries = 1

    def exact_answers(self, counts: Floats) -> Floats:
        """The sum of the counts of the cells that satisfy it, as an array of one number."""
        counts = np.asarray(counts, dtype=np.float64)
        return np.array([counts[self.diagram.inside()].sum()])

    def sensitivity(self, p: int) -> float:
        """A row is counted once, or not."""
        if p not in (1, 2):
            raise WorkloadError(f"p={p!r}: expected 1 or 2")
        return 1.0

    def coefficients(self, query: int, sizes: tuple[int, ...]) -> Floats:
        return self.diagram.inside().astype(np.float64)

    def extremes(self, sizes: tuple[int, ...]) -> tuple[Floats, Floats]:
        return np.zeros(()), np.ones(())

    @property
    def note(self) -> str:
        return f"of the rows for which {self.text}."

    @property
    def question(self) -> DecisionDiagram:
        return self.diagram

    @property
    def operator(self) -> FormulaRow:
        """The query of a noisy answer to it, as `hush.Measurement` takes it."""
        return FormulaRow(self.diagram)

    def value_and_gradient(self, blocks: Mapping[str, Floats]) -> tuple[Floats, list[Floats]]:
        """The extension on relaxed rows and its derivatives by the probabilities of each column of the clique."""
        if self.extension is None:
            return self.diagram.value_and_gradient(blocks)
        value, gradient = self.extension(blocks)
        return value, [gradient[name] for name in self.clique]

    def check(self, domain: Domain) -> None:
        """Refuse an impossible weight, a query that tells no rows apart, and one over other columns."""
        check_weight(self)
        if not self.clique:
            always = "every row" if self.diagram.root else "no row"
            raise WorkloadError(f"{self.text!r} is true of {always}, so it asks for nothing new; leave it out")
        if domain.sizes(self.clique) != self.diagram.sizes or self.clique != self.diagram.clique:
            raise WorkloadError(f"{self.text!r} is over other levels than the domain's; build it over this domain")


@dataclass(frozen=True, slots=True)
class OwnQuery:
    """A query as a function of its columns' codes, and if you like your own extension to relaxed rows.

    `holds` takes an array of codes for each column, in the order of `columns`, and says for each row whether it counts.
    `extension` takes the probabilities of each column, (rows, size), by name, and returns its values, (rows,), and its
    derivatives by each of them. It is checked against `holds` before anything is planned; refused where they differ.
    """

    columns: tuple[str, ...]
    holds: Callable[..., Any]
    extension: Extension | None = None
    text: str = ""

    def cells(self, domain: Domain) -> tuple[Clique, Booleans]:
        """Where it is true, one axis per column in domain order."""
        names = domain.check(self.columns)
        clique, cells = domain.clique(names), domain.size(names)
        if cells > MOST_CELLS:
            raise SizeError(
                f"a function of {', '.join(names)} would be asked for {cells:,} cells: at most {MOST_CELLS:,} are "
                "possible; write it as a formula with queries.test, or as SQL"
            )
        codes = dict(zip(clique, np.indices(domain.sizes(clique)), strict=True))
        inside = np.asarray(self.holds(*(codes[name] for name in names)))
        if inside.shape != domain.sizes(clique) or inside.dtype.kind != "b":
            raise WorkloadError(
                f"a function of {', '.join(names)} returned {inside.dtype} of shape {inside.shape} for codes of shape "
                f"{domain.sizes(clique)}: expected true or false for each"
            )
        return clique, inside


def formula_term(over: Domain | Schema, query: Proposition | OwnQuery | str, weight: float = 1.0) -> FormulaTerm:
    """The term of a condition: a proposition, a function of codes, or the text of an SQL condition on a schema."""
    domain = domain_of(over, WorkloadError)
    try:
        if isinstance(query, OwnQuery):
            diagram = DecisionDiagram.of_cells(*query.cells(domain))
            text = query.text or f"a function of {', '.join(query.columns)}"
            if query.extension is not None:
                check_extension(diagram, query.extension)
            return FormulaTerm(diagram.clique, diagram, text, weight, query.extension)
        if isinstance(query, str):
            from hush.workloads.sql_workload import proposition_of_sql

            settled, text = proposition_of_sql(over, query), " ".join(query.split())
        elif isinstance(query, Proposition):
            # The codes of real values, as the rules of a schema read them.
            schema: Any = getattr(over, "schema", over)
            reader = None if over is domain else lambda name, condition: Conditions(schema[name]).codes(condition)
            settled = query.settled(domain, reader)
            text = str(settled)
            text = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
        else:
            raise WorkloadError(
                f"{type(query).__name__}: expected a condition of queries.test, an OwnQuery or SQL text"
            )
        diagram = DecisionDiagram.of(domain, settled)
    except RecursionError:
        raise WorkloadError("the condition is nested too deeply; write it with fewer parentheses") from None
    return FormulaTerm(diagram.clique, diagram, text, weight)


@dataclass(frozen=True, slots=True)
class ExtensionCheck:
    """What a check of an extension covered: how many of all cells, and whether that was every one."""

    cells: int
    of: int

    @property
    def every(self) -> bool:
        """Whether every cell was checked."""
        return self.cells == self.of

    def __repr__(self) -> str:
        which = "every one" if self.every else "drawn at random, so it may still disagree on others"
        return f"ExtensionCheck({self.cells:,} of {self.of:,} cells, {which})"


def check_extension(
    query: DecisionDiagram | FormulaTerm, extension: Extension, *, cells: int = CHECKED_CELLS, seed: int = 0
) -> ExtensionCheck:
    """Check that a hand-written extension agrees with its query, and its derivatives with its values.

    Every cell is tried where there are at most so many, else as many drawn at random; the result says which. The
    derivatives are compared, on random rows of probabilities, with differences along directions within the simplex.

    Raises:
        WorkloadError: says where they differ, and by how much.
    """
    diagram = query.diagram if isinstance(query, FormulaTerm) else query
    total = math.prod(diagram.sizes)
    random = np.random.Generator(np.random.PCG64(seed))
    if total <= cells:
        every_code = [codes.ravel() for codes in np.indices(diagram.sizes)]
    else:
        every_code = [random.integers(0, size, cells) for size in diagram.sizes]
    # Values: the extension is the query where each column is certain.
    step = max(1, (1 << 22) // max(sum(diagram.sizes), 1))
    for start in range(0, len(every_code[0]), step):
        codes = [column[start : start + step] for column in every_code]
        blocks = [np.eye(size)[column] for size, column in zip(diagram.sizes, codes, strict=True)]
        values = _called(diagram, extension, blocks)[0]
        truth = diagram.holds(codes)
        wrong = np.flatnonzero(~(np.abs(values - truth) <= EXTENSION_TOLERANCE))
        if len(wrong):
            at = wrong[0]
            cell = ", ".join(f"{name} = {column[at]}" for name, column in zip(diagram.clique, codes, strict=True))
            raise WorkloadError(
                f"the extension disagrees with its query in {len(wrong):,} of {len(truth):,} cells: at {cell} the "
                f"query is {int(truth[at])} and the extension {values[at]:g}; correct it, or leave it out and it is "
                "derived"
            )
    # Derivatives: central differences on random rows.
    rows, width = 16, 1e-5
    blocks = [random.dirichlet(np.ones(size), rows) for size in diagram.sizes]
    _, slopes = _called(diagram, extension, blocks)
    for index, name in enumerate(diagram.clique):
        towards = random.dirichlet(np.ones(diagram.sizes[index]), rows) - blocks[index]
        moved = []
        for sign in (1, -1):
            shifted = [*blocks[:index], blocks[index] + sign * width * towards, *blocks[index + 1 :]]
            moved.append(_called(diagram, extension, shifted)[0])
        apart = np.abs((moved[0] - moved[1]) / (2 * width) - (slopes[index] * towards).sum(axis=1)).max()
        if not apart <= 1e-4:
            raise WorkloadError(
                f"the derivatives of the extension by the probabilities of {name!r} are {apart:.2g} off its "
                "differences; correct them, or leave the extension out and it is derived"
            )
    return ExtensionCheck(min(total, cells), total)


def _called(diagram: DecisionDiagram, extension: Extension, blocks: list[Floats]) -> tuple[Floats, list[Floats]]:
    """What an extension returns, of the right shapes."""
    value, gradient = extension(dict(zip(diagram.clique, blocks, strict=True)))
    values, rows = np.asarray(value, dtype=np.float64), len(blocks[0])
    if values.shape != (rows,):
        raise WorkloadError(
            f"the extension returned values of shape {values.shape} for {rows} rows: expected ({rows},)"
        )
    slopes = []
    for name, block in zip(diagram.clique, blocks, strict=True):
        slope = np.asarray(gradient[name], dtype=np.float64)
        if slope.shape != block.shape:
            raise WorkloadError(
                f"the extension returned derivatives by {name!r} of shape {slope.shape}: expected {block.shape}"
            )
        slopes.append(slope)
    return values, slopes
