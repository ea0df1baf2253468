"""Workloads in files: distinct query blocks in the manifest, cliques, thresholds and weights in arrays.

A block that is made of others names them by index, and comes after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar, Union, cast

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType, defstruct

from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError, HushError, WorkloadError
from hush.files.codec import CliqueTable, Finite, FloatMatrix, FloatVector, IntMatrix, IntVector, Size, Stored, Whole
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Identity,
    LevelsAndTotal,
    LinearOperator,
    Permuted,
    Prefix,
    Scaled,
    Stack,
    Total,
    WidthRange,
)
from hush.privacy.sum_query import ValueGrid
from hush.workloads.decision_diagram import DecisionDiagram
from hush.workloads.formula_term import FormulaTerm
from hush.workloads.sum_term import SumTerm
from hush.workloads.term import ProductTerm, Term, term_class
from hush.workloads.threshold_term import ThresholdTerm
from hush.workloads.workload import Workload


class StoredBlock(Stored, tag_field="kind"):
    """A query block as the arguments of its operator, with indices in place of the operators that it is made of."""

    makes: ClassVar[Callable[..., LinearOperator]]

    @property
    def parts(self) -> list[int]:
        """The indices of the blocks that it is made of."""
        return [self.operator] if hasattr(self, "operator") else getattr(self, "operators", [])

    def build(self, known: Sequence[LinearOperator]) -> LinearOperator:
        """The operator; IndexError where it is made of a block that does not come before it."""
        arguments = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, value in arguments.items():
            if name == "operator":
                arguments[name] = known[value]
            elif name == "operators":
                arguments[name] = [known[index] for index in value]
            elif isinstance(value, np.ndarray) and value.ndim == 1:
                arguments[name] = value.tolist()
        return type(self).makes(**arguments)


def _declare(kind: str, makes: Callable[..., LinearOperator], /, **fields: Any) -> type[StoredBlock]:
    """The stored form of an operator, whose fields are arguments and attributes of the operator."""
    bases, namespace = (StoredBlock,), {"makes": makes}
    stored = defstruct(f"{kind}_block", list(fields.items()), bases=bases, namespace=namespace, tag=kind, kw_only=True)
    return cast("type[StoredBlock]", stored)


STORED_BLOCKS = {
    Identity: _declare("identity", Identity, size=Size),
    Total: _declare("total", Total, size=Size),
    Prefix: _declare("prefix", Prefix, size=Size),
    AllRange: _declare("range", AllRange, size=Size),
    WidthRange: _declare("width", WidthRange, size=Size, width=Size),
    LevelsAndTotal: _declare("levels", LevelsAndTotal, size=Size, levels=Finite, total=Finite),
    Equivalent: _declare("gram", Equivalent, gram=FloatMatrix, queries=Annotated[int, Meta(ge=1)]),
    Permuted: _declare("permuted", Permuted, operator=Whole, order=IntVector),
    Scaled: _declare("scaled", Scaled, operator=Whole, factor=Finite),
    Stack: _declare("stack", Stack, operators=list[Whole], weights=FloatVector),
    Dense: _declare("matrix", Dense, matrix=FloatMatrix),
}
LONGEST_FORMULA, LONGEST_KIND = 2000, 100  # characters of their texts
FORMULA, OTHER_TERM = -1, -2  # in `WorkloadFile.at_least`
MOST_WRITTEN, MOST_NESTED = 2**16, 32
SIZED_BLOCKS = (Identity, Total, Prefix, AllRange)
Block: Any = Union[tuple(STORED_BLOCKS.values())]  # noqa: UP007 - of types that are made above


class BlockList:
    """Distinct blocks in order, each after those that it is made of."""

    def __init__(self) -> None:
        self._indices: dict[LinearOperator, int] = {}
        self.blocks: list[StoredBlock] = []

    def index(self, block: LinearOperator) -> int:
        """The index of a block, which is added if it is new."""
        if block in self._indices:
            return self._indices[block]
        size = block.shape[1]
        simplest = next((kind(size) for kind in SIZED_BLOCKS if block == kind(size)), block)
        if type(simplest) not in STORED_BLOCKS:
            simplest = Dense(block.dense())
        kind = STORED_BLOCKS[type(simplest)]
        match simplest:
            case Equivalent():
                stored = kind(gram=simplest.gram_dense(), queries=simplest.queries)
            case Dense():
                stored = kind(matrix=simplest.dense())
            case Permuted():
                stored = kind(operator=self.index(simplest.operator), order=np.array(simplest.order, dtype=np.int64))
            case Scaled():
                stored = kind(operator=self.index(simplest.operator), factor=float(simplest.factor))
            case Stack():
                indices = [self.index(operator) for operator in simplest.operators]
                stored = kind(operators=indices, weights=np.array(simplest.weights, dtype=np.float64))
            case _:
                stored = kind(**{name: getattr(simplest, name) for name in kind.__struct_fields__})
        self._indices[block] = len(self.blocks)
        self.blocks.append(stored)
        return self._indices[block]


class SumTermFile(Stored):
    """A sum term: its table, its weight, and the grid of its values."""

    column: str
    clique: list[str]
    weight: Finite
    steps: Size
    centres: FloatVector
    units: FloatVector
    power: Annotated[int, Meta(ge=1, le=2)]
    origin: Finite
    missing: Whole | None
    exact: bool

    @classmethod
    def of(cls, term: SumTerm) -> SumTermFile:
        """The stored form of a term."""
        grid = term.grid
        centres, units = (np.array(numbers, dtype=np.float64) for numbers in (grid.centres, grid.units))
        return cls.from_attributes(
            grid, clique=list(term.clique), weight=float(term.weight), centres=centres, units=units
        )

    def build(self) -> SumTerm:
        """The term; its workload checks it."""
        centres, units = tuple(self.centres.tolist()), tuple(self.units.tolist())
        grid = ValueGrid(
            self.column, self.steps, centres, units, self.power, self.origin, missing=self.missing, exact=self.exact
        )
        return SumTerm(tuple(self.clique), grid, self.weight)


class FormulaFile(Stored):
    """A formula: its decision diagram, and its text for a person."""

    text: Annotated[str, Meta(max_length=LONGEST_FORMULA)]
    classes: list[IntVector]
    decides: IntVector
    children: IntMatrix
    root: Whole

    @classmethod
    def of(cls, term: FormulaTerm) -> FormulaFile:
        """The stored form of a term."""
        diagram = term.diagram
        return cls.from_attributes(diagram, text=term.text[:LONGEST_FORMULA], classes=list(diagram.classes))

    def build(self, clique: Clique, weight: float) -> FormulaTerm:
        """The term; ValueError where its nodes do not fit together."""
        classes = tuple(np.array(level_classes, dtype=np.int64) for level_classes in self.classes)
        decides, children = np.array(self.decides, dtype=np.int64), np.array(self.children, dtype=np.int64)
        diagram = DecisionDiagram(clique, classes, decides, children, self.root)
        diagram.check()
        return FormulaTerm(clique, diagram, self.text, weight)


class TermFile(Stored):
    """A term of a kind that has no format of its own: what its class wants to keep."""

    kind: Annotated[str, Meta(max_length=LONGEST_KIND)]
    fields: dict[str, Any]


class WorkloadFile(Stored):
    """A workload over a domain that the file states elsewhere; `used` are the blocks of its products, in order.

    `at_least` has a number for each term: 0 for a product, -1 for a formula, -2 for a term in `terms`, and for a
    threshold how many columns are to agree; it is None where all terms are products. Files without further kinds have
    no `terms`.
    """

    blocks: list[Block]
    cliques: CliqueTable
    used: IntVector
    weights: FloatVector
    sums: list[SumTermFile] = msgspec.field(default_factory=list)
    at_least: IntVector | None = None
    formulas: list[FormulaFile] = msgspec.field(default_factory=list)
    terms: list[TermFile] | UnsetType = UNSET

    @classmethod
    def of(cls, workload: Workload) -> WorkloadFile:
        """The stored form of a workload."""
        table = BlockList()
        kinds, used, formulas, others = list[int](), list[int](), list[FormulaFile](), list[TermFile]()
        for term in workload:
            match term.kind:
                case ProductTerm.kind:
                    kinds.append(0)
                    used.extend(table.index(block) for block in cast("ProductTerm", term).blocks)
                case ThresholdTerm.kind:
                    kinds.append(term.columns_to_agree)
                case FormulaTerm.kind:
                    kinds.append(FORMULA)
                    formulas.append(FormulaFile.of(cast("FormulaTerm", term)))
                case _:
                    kinds.append(OTHER_TERM)
                    others.append(TermFile(kind=term.kind, fields=term.stored()))
        return cls(
            blocks=table.blocks,
            cliques=CliqueTable.of(workload.domain, workload.cliques),
            used=np.array(used, dtype=np.int32),
            weights=np.array(workload.weights, dtype=np.float64),
            sums=[SumTermFile.of(term) for term in workload.sum_terms],
            at_least=np.array(kinds, dtype=np.int32) if any(kinds) else None,
            formulas=formulas,
            terms=others or UNSET,
        )

    def build(self, domain: Domain) -> Workload:
        """The workload; ArchiveError where it does not fit its domain."""
        cliques = self.cliques.build(domain, "workload")
        kinds = [0] * len(self.weights) if self.at_least is None else self.at_least.tolist()
        others = [] if self.terms is UNSET else self.terms
        try:
            classes = [term_class(other.kind) for other in others]
        except WorkloadError as error:
            raise ArchiveError(f"the workload of the file cannot be read: {error}") from None
        try:
            operators: list[LinearOperator] = []
            _check_extent(self.blocks)
            for block in self.blocks:
                operators.append(block.build(operators))
            asked = zip(cliques, kinds, strict=True)
            if len(self.used) != sum(len(clique) for clique, kind in asked if kind == 0) or (self.used < 0).any():
                raise IndexError
            axes = iter([operators[index] for index in self.used.tolist()])
            formulas, listed, terms = iter(self.formulas), iter(zip(classes, others, strict=True)), list[Term]()
            for clique, kind, weight in zip(cliques, kinds, self.weights.tolist(), strict=True):
                if kind > 0:
                    terms.append(ThresholdTerm(clique, domain.sizes(clique), kind, weight))
                elif kind == 0:
                    terms.append(ProductTerm(clique, tuple(islice(axes, len(clique))), weight))
                elif kind == OTHER_TERM:
                    term_type, other = next(listed)
                    terms.append(term_type.restored(clique, weight, other.fields))
                else:
                    terms.append(next(formulas).build(clique, weight))
            if next(formulas, None) is not None or next(listed, None) is not None:
                raise IndexError
            return Workload(domain, terms, [stored.build() for stored in self.sums])
        except ArchiveError:
            raise
        except (HushError, ValueError, TypeError, IndexError, OverflowError, StopIteration):
            raise ArchiveError("the workload of the file does not fit its domain; make it anew") from None


def _check_extent(blocks: Sequence[StoredBlock]) -> None:
    """Refuse blocks made of blocks made of blocks that are many when each is written out, or nested deeply."""
    extents: list[tuple[int, int]] = []
    for block in blocks:
        parts = [extents[index] for index in block.parts]
        written, depth = 1 + sum(size for size, _ in parts), 1 + max((depth for _, depth in parts), default=0)
        if written > MOST_WRITTEN or depth > MOST_NESTED:
            raise ArchiveError("the workload of the file has blocks made of too many others; make it anew")
        extents.append((written, depth))
