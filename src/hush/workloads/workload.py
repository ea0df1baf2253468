"""Workload: which counts matter, and how much."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain, domain_of, listed_cliques
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.validation import check_number, check_whole
from hush.linops import Identity, LinearOperator, Total
from hush.workloads.sum_term import SumTerm, merged_sums, sum_terms
from hush.workloads.term import ProductTerm, Term, merged, not_answered
from hush.workloads.threshold_term import MOST_ANSWERS, threshold_term

if TYPE_CHECKING:
    from hush.schema import Schema

LARGEST_TERMS = 5_000_000
EQUIVALENCE_TOLERANCE = 1e-7  # of the Frobenius norm; below about 1e-8 differences are lost in rounding
LARGEST_COMPARISON = 1 << 34  # pairs of terms times attributes: about a minute
COMPARED_AT_ONCE = 1 << 20  # pairs of terms whose inner products are held together


class Workload:
    """A weighted union of terms: marginals, products of query blocks, and further kinds of `Term`.

    `sum_terms` ask for sums of the values of numeric columns beside these counts. A column of a single level adds
    nothing to a table, so every term leaves it out; a release answers tables with that column all the same.

    >>> domain = Domain({"age": 85, "sex": 2, "race": 5})
    >>> Workload.kway(domain, 2).cliques
    (('age', 'sex'), ('age', 'race'), ('sex', 'race'))
    >>> (Workload.marginals(domain, [("age",)]) + 2.0 * Workload.marginals(domain, [("race", "sex")])).weights
    (1.0, 2.0)
    """

    __slots__ = ("domain", "sum_terms", "terms")

    def __init__(self, domain: Domain, terms: Iterable[Term], sum_terms: Iterable[SumTerm] = ()) -> None:
        self.domain = domain
        self.terms = tuple(terms)
        for term in self.terms:
            if not isinstance(term, Term):
                raise WorkloadError(f"{shown(term)} is not a term: expected one of another workload's `terms`")
        if 1 in domain.shape:
            self.terms = tuple(merged(term.without_constant_columns(domain) for term in self.terms))
        self.sum_terms = tuple(sum_terms)
        if not self.terms:
            raise WorkloadError("the workload is empty; ask for at least one table of counts")
        for term in self.terms:
            term.check(domain)
        for summed in self.sum_terms:
            summed.check(domain)

    @classmethod
    def kway(cls, domain: Domain, order: int) -> Workload:
        """Every marginal over `order` attributes."""
        domain = domain_of(domain, WorkloadError)
        return cls(domain, _marginals(domain, _combinations(domain, order)))

    @classmethod
    def upto(cls, domain: Domain, order: int) -> Workload:
        """Every marginal over at most `order` attributes, the total among them."""
        domain = domain_of(domain, WorkloadError)
        _check_order(domain, order)
        orders = range(order + 1)
        count = sum(math.comb(len(domain.varying()), k) for k in orders)
        if count > LARGEST_TERMS:
            raise SizeError(f"{count} marginals of at most {order} attributes; lower the order or use fewer attributes")
        return cls(domain, _marginals(domain, itertools.chain.from_iterable(_combinations(domain, k) for k in orders)))

    @classmethod
    def small(cls, domain: Domain, cells: int) -> Workload:
        """Every marginal of any order with at most `cells` cells, the total among them."""
        domain = domain_of(domain, WorkloadError)
        check_whole(WorkloadError, "cells", cells, least=1)
        attributes = domain.varying()
        # Count how many marginals have each size, attribute by attribute, before any is listed.
        counts = Counter({1: 1})
        for size in domain.sizes(attributes):
            for cells_before, times in list(counts.items()):
                if cells_before * size <= cells:
                    counts[cells_before * size] += times
            if counts.total() > LARGEST_TERMS:
                raise SizeError(
                    f"more than {LARGEST_TERMS} marginals have at most {shown(cells)} cells; lower the limit"
                )
        # List them depth first, cutting where the product of sizes passes the limit.
        cliques: list[Clique] = []
        stack: list[tuple[Clique, int, int]] = [((), 0, 1)]
        while stack:
            clique, start, size = stack.pop()
            cliques.append(clique)
            for position in range(len(attributes) - 1, start - 1, -1):
                name = attributes[position]
                if size * domain[name] <= cells:
                    stack.append(((*clique, name), position + 1, size * domain[name]))
        return cls(domain, _marginals(domain, cliques))

    @classmethod
    def target(cls, domain: Domain, attribute: str, order: int) -> Workload:
        """Every marginal over `order` attributes that has `attribute` among them."""
        domain = domain_of(domain, WorkloadError)
        if not domain.varying((attribute,)):
            raise WorkloadError(f"target {attribute!r} has a single level, which adds nothing to a table; name another")
        return cls(domain, _marginals(domain, (c for c in _combinations(domain, order) if attribute in c)))

    @classmethod
    def predict(cls, domain: Domain, label: str) -> Workload:
        """What rows must preserve so that a classifier trained on them predicts `label`; added to what else is asked.

        Every pair of columns with the label, and every triple with it, which show how two columns act together. The
        weight of a triple is 1. That of a pair is the number of other columns, so that all pairs together count twice
        as much as all triples.

        >>> Workload.predict(Domain({"age": 85, "sex": 2, "race": 5, "income": 2}), "income").weights
        (3.0, 3.0, 3.0, 1.0, 1.0, 1.0)
        """
        domain = domain_of(domain, WorkloadError)
        if not domain.varying((label,)):
            raise WorkloadError(f"label {label!r} has a single level, so there is nothing to predict; name another")
        others = [name for name in domain.varying() if name != label]
        if not others:
            raise WorkloadError(f"label {label!r} is the only column with several levels; add one to predict it from")
        _check_order(domain, 2)
        pairs, triples = ([(label, *names) for names in itertools.combinations(others, order)] for order in (1, 2))
        cliques = [domain.clique(names) for names in (*pairs, *triples)]
        return cls(domain, _marginals(domain, cliques, [float(len(others))] * len(pairs) + [1.0] * len(triples)))

    @classmethod
    def skewed(cls, domain: Domain, order: int, draws: int, *, seed: int) -> Workload:
        """`draws` random marginals over `order` attributes, some attributes asked for far more than others.

        Each attribute gets the square of an exponential variate as its weight; sets are drawn with probability
        proportional to the product of weights, with replacement, and a set drawn twice counts twice.

        Reference: [AIM, sec. 6.1, SKEWED]; the seed makes a public workload, not noise.
        """
        domain = domain_of(domain, WorkloadError)
        cliques = list(_combinations(domain, order))
        check_whole(WorkloadError, "draws", draws, least=1)
        random = np.random.Generator(np.random.PCG64(seed))
        weights = dict(zip(domain, random.exponential(size=len(domain)) ** 2, strict=True))
        chances = np.array([math.prod(weights[name] for name in clique) for clique in cliques])
        times = random.multinomial(draws, chances / chances.sum())
        drawn = [(clique, float(count)) for clique, count in zip(cliques, times, strict=True) if count > 0]
        return cls(domain, _marginals(domain, *zip(*drawn, strict=True)))

    @classmethod
    def marginals(
        cls, domain: Domain, cliques: Iterable[Iterable[str]], weights: Sequence[float] | None = None
    ) -> Workload:
        """The listed marginals, each with its weight (1 by default)."""
        domain = domain_of(domain, WorkloadError)
        named = [domain.clique(clique) for clique in cliques]
        if weights is not None and len(weights) != len(named):
            raise WorkloadError(f"{len(weights)} weights for {len(named)} marginals; give one each")
        return cls(domain, _marginals(domain, _once(named, "marginal"), weights))

    @classmethod
    def thresholds(
        cls, domain: Domain, columns: int, at_least: int, cliques: Iterable[Iterable[str]] | None = None
    ) -> Workload:
        """For each set of so many columns and each target, the rows that agree with it in at least `at_least` columns.

        Every set of columns by default, or the listed ones. `at_least=columns` asks for marginals, `at_least=1` for
        disjunctions.

        Reference: [Avent 2023, sec. 4.2.1].

        >>> domain = Domain({"age": 85, "sex": 2, "race": 5})
        >>> Workload.thresholds(domain, 3, 2).terms[0].text
        '2 of age, sex, race'
        >>> Workload.thresholds(domain, 2, 2) == Workload.kway(domain, 2)
        True
        """
        domain = domain_of(domain, WorkloadError)
        if cliques is None:
            named: list[Clique] = list(_combinations(domain, columns))
        else:
            named = _once([domain.clique(clique) for clique in listed_cliques(cliques)], "threshold over")
        for clique in named:
            if len(clique) != columns:
                raise WorkloadError(f"{clique!r} has {len(clique)} columns: expected {shown(columns)}, as was said")
        answers = sum(map(domain.size, named))
        if answers > MOST_ANSWERS:
            raise SizeError(f"the thresholds have {shown(answers)} answers, more than 2^63; use fewer sets of columns")
        return cls(domain, [threshold_term(domain, clique, at_least) for clique in named])

    @classmethod
    def product(
        cls, domain: Domain, blocks: Mapping[str, Callable[[int], LinearOperator] | LinearOperator]
    ) -> Workload:
        """The product of query blocks on some attributes; the others are totalled out. See `hush.queries`."""
        domain = domain_of(domain, WorkloadError)
        clique = domain.clique(blocks)
        operators: dict[str, LinearOperator] = {}
        for name in clique:
            block = blocks[name]
            operator = block if isinstance(block, LinearOperator) else block(domain[name])
            if not isinstance(operator, Total):
                operators[name] = operator
        return cls(domain, [ProductTerm(tuple(operators), tuple(operators.values()))])

    @classmethod
    def sums(cls, schema: Schema, column: str, by: Iterable[str] = (), *, variance: bool = False) -> Workload:
        """The sum of a numeric column in every combination of levels of other columns, with the counts for means.

        Values are clamped to the bounds of the schema. With `variance` the squares are summed too. Where the column
        has bins, its sums by its own bins are asked for as well, so that synthetic rows meet them.

        >>> import hush
        >>> incomes = Workload.sums(hush.datasets.people_schema(), "income", by=["sex"])
        >>> [term.text for term in incomes.sum_terms], incomes.cliques
        (['sum(income) by sex', 'sum(income) by income'], (('sex',), ('income',), ('sex', 'income')))
        """
        domain, schema = domain_of(schema, WorkloadError), getattr(schema, "schema", schema)
        if isinstance(schema, Domain):
            raise WorkloadError("sums are of real values, and a domain has codes alone; give the schema")
        terms, counted = sum_terms(schema, column, by, variance=variance)
        return cls(domain, _marginals(domain, counted), terms)

    @classmethod
    def sql(cls, schema: Schema, queries: str | Sequence[str], *, weights: Sequence[float] | None = None) -> Workload:
        """Every number that some counting queries in SQL ask for; see `hush.workloads.sql_workload`."""
        from hush.workloads.sql_workload import workload_of_sql

        return workload_of_sql(schema, queries, weights=weights)

    @classmethod
    def formulas(cls, over: Domain | Schema, queries: Any) -> Workload:
        """How many rows satisfy each of some conditions of your own, over any columns.

        A condition is the text of an SQL condition on a schema, a formula of `hush.queries.test` and
        `hush.queries.at_least`, or an `OwnQuery`. Conditions that ask for the same are one, with their weights added.

        >>> from hush import queries
        >>> domain = Domain({"age": 85, "sex": 2, "race": 5})
        >>> either = queries.test("sex", 1) | ~queries.test("race", [0, 3])
        >>> Workload.formulas(domain, [either]).terms[0].text
        'sex = 1 or race in (1, 2, 4)'
        """
        from hush.schema.proposition import Proposition
        from hush.workloads.formula_term import OwnQuery, formula_term

        listed = [queries] if isinstance(queries, str | Proposition | OwnQuery) else list(queries)
        return cls(domain_of(over, WorkloadError), merged(formula_term(over, query) for query in listed))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The attribute sets of the terms."""
        return tuple(term.clique for term in self.terms)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the terms."""
        return tuple(term.weight for term in self.terms)

    @property
    def queries(self) -> int:
        """How many numbers are asked for in all."""
        return sum(term.queries for term in self.terms)

    @property
    def products(self) -> tuple[ProductTerm, ...]:
        """The terms as products of query blocks; WorkloadError where one is of another kind."""
        products = []
        for term in self.terms:
            if (product := term.product) is None:
                raise not_answered(term)
            products.append(product)
        return tuple(products)

    @property
    def gram_products(self) -> tuple[ProductTerm, ...]:
        """Products of query blocks with the same Gram matrix as the terms; WorkloadError where a term has none."""
        if all(term.product is not None for term in self.terms):
            return self.products
        return Workload(self.domain, [part for term in self.terms for part in term.gram_products()]).products

    @property
    def factorises(self) -> bool:
        """Whether `gram_products` exist."""
        return all(term.factorises for term in self.terms)

    @property
    def symmetric(self) -> bool:
        """Whether every term treats the levels of an attribute alike: marginals and thresholds."""
        return all(term.symmetric for term in self.terms)

    @property
    def plain(self) -> bool:
        """Whether every term is a marginal."""
        return all(term.plain for term in self.terms)

    def equivalent(self, other: Workload, tolerance: float = EQUIVALENCE_TOLERANCE) -> bool:
        """Whether |G1 - G2|_F <= tolerance max(|G1|_F, |G2|_F), where G = sum_j w_j kron_i V_i^(j) is W^T W.

        Workloads with the same Gram matrix have the same total error under every strategy: their rows differ by an
        orthogonal mixture. Inner products factorise, <kron V_i, kron U_i> = prod_i tr(V_i U_i), so nothing larger than
        the Gram matrix of one attribute is made. O(terms^2 attributes).

        Equal terms cancel exactly. The rest is a difference of squares, so relative differences below about 1e-8 times
        the root of the number of attributes in a term cannot be told from rounding; smaller tolerances are refused.

        Reference: [HDMM, Problem 1]: the error of a strategy Q is tr((Q^T Q)^+ W^T W); W enters by W^T W alone.

        >>> from hush import queries
        >>> domain = Domain({"sex": 2})
        >>> sum_and_difference = Workload.product(domain, {"sex": queries.matrix([[1, 1], [1, -1]])})
        >>> sum_and_difference.equivalent(2.0 * Workload.kway(domain, 1))
        True
        """
        check_number(WorkloadError, "tolerance", tolerance, least=1e-8, below=1, hint="; less cannot be resolved")
        if self.domain != other.domain:
            raise WorkloadError("workloads over different domains cannot be compared; build both over one domain")
        left, right = _weights(self), _weights(other)
        keys = list(left | right)
        difference = np.array([left.get(key, 0.0) - right.get(key, 0.0) for key in keys])
        if not difference.any():
            return True
        products = _Products(self, keys)
        size = max(products.square(np.array([weights.get(key, 0.0) for key in keys])) for weights in (left, right))
        return products.square(difference) <= tolerance**2 * size

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            return NotImplemented
        if other.domain != self.domain:
            raise WorkloadError("workloads over different domains cannot be added; build both over one domain")
        domain = self.domain.marked(other.domain.from_private_data)
        sums = merged_sums((*self.sum_terms, *other.sum_terms))
        return Workload(domain, merged((*self.terms, *other.terms)), sums)

    def __mul__(self, factor: float) -> Workload:
        sums = (term.reweighted(term.weight * factor) for term in self.sum_terms)
        return Workload(self.domain, (term.reweighted(term.weight * factor) for term in self.terms), sums)

    __rmul__ = __mul__

    def __len__(self) -> int:
        return len(self.terms)

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, Workload) and self.domain == other.domain):
            return False
        return self.terms == other.terms and self.sum_terms == other.sum_terms

    def __hash__(self) -> int:
        return hash((self.domain, self.terms, self.sum_terms))

    def __repr__(self) -> str:
        kinds = {term.kind for term in self.terms}
        kind = "terms"
        if kinds == {ProductTerm.kind}:
            kind = "marginals" if self.plain else "products"
        elif len(kinds) == 1:
            kind = f"{kinds.pop()}s"
        return f"Workload({len(self)} {kind}, {self.queries} queries over {len(self.domain)} attributes)"


def _once(cliques: list[Clique], what: str) -> list[Clique]:
    """The cliques; refuses one that is listed twice."""
    for clique, times in Counter(cliques).items():
        if times > 1:
            raise WorkloadError(f"the {what} {clique!r} is listed {times} times; list it once, with a larger weight")
    return cliques


def _check_order(domain: Domain, order: int) -> None:
    most = len(domain.varying())
    which = "attributes" if most == len(domain) else "attributes with more than one level"
    check_whole(WorkloadError, "order", order, least=0, most=most, hint=f", the number of {which}")
    count = math.comb(most, order)
    if count > LARGEST_TERMS:
        raise SizeError(f"{count} marginals of {order} attributes; lower the order or use fewer attributes")


def _combinations(domain: Domain, order: int) -> Iterator[Clique]:
    _check_order(domain, order)
    return itertools.combinations(domain.varying(), order)


def _marginals(domain: Domain, cliques: Iterable[Clique], weights: Iterable[float] | None = None) -> Iterator[Term]:
    blocks = {name: Identity(domain[name]) for name in domain}
    for clique, weight in zip(cliques, itertools.repeat(1.0) if weights is None else weights, strict=False):
        yield ProductTerm(clique, tuple(blocks[name] for name in clique), weight)


GramWeights = dict[tuple[Clique, tuple[LinearOperator, ...]], float]


def _weights(workload: Workload) -> GramWeights:
    """The weight of each distinct term, totals left out of its blocks."""
    weights: GramWeights = {}
    for term in workload.gram_products:
        kept = [(n, b) for n, b in zip(term.clique, term.blocks, strict=True) if not isinstance(b, Total)]
        ordered = sorted(kept, key=lambda pair: workload.domain.attributes.index(pair[0]))
        key = tuple(n for n, _ in ordered), tuple(b for _, b in ordered)
        weights[key] = weights.get(key, 0.0) + term.weight
    return weights


class _Products:
    """Inner products of the Gram matrices of terms, all divided by one power of two so that none overflows."""

    def __init__(self, workload: Workload, keys: Sequence[tuple[Clique, tuple[LinearOperator, ...]]]) -> None:
        domain = workload.domain
        if len(keys) ** 2 * len(domain) > LARGEST_COMPARISON:
            raise SizeError(f"{len(keys)} distinct terms are too many to compare all pairs; compare fewer at a time")
        position = {name: i for i, name in enumerate(domain)}
        known: list[dict[LinearOperator, int]] = [{Total(size): 0} for size in domain.shape]
        self._index = np.zeros((len(domain), len(keys)), dtype=np.int64)
        for j, (clique, blocks) in enumerate(keys):
            for name, block in zip(clique, blocks, strict=True):
                numbers = known[position[name]]
                self._index[position[name], j] = numbers.setdefault(block, len(numbers))
        # an attribute that every term totals out multiplies all inner products alike
        self._asked = [i for i in range(len(domain)) if self._index[i].any()]
        self._tables = {i: _traces(list(known[i])) for i in self._asked}
        every = np.arange(len(keys))
        self._largest = int(self._scaled(every, every)[1].max())  # no inner product is above the largest square

    def square(self, weights: Floats) -> float:
        """sum_ab weights[a] weights[b] <G_a, G_b>, up to the common factor."""
        used = np.flatnonzero(weights)
        step = max(1, COMPARED_AT_ONCE // max(len(used), 1))
        sums = []
        for start in range(0, len(used), step):
            rows = used[start : start + step]
            mantissa, exponent = self._scaled(rows[:, None], used)
            sums.append(float(weights[rows] @ np.ldexp(mantissa, exponent - self._largest) @ weights[used]))
        return math.fsum(sums)

    def _scaled(self, rows: Integers, columns: Integers) -> tuple[Floats, Integers]:
        """<G_a, G_b> as mantissas and powers of two."""
        mantissa, exponent = np.ones(np.broadcast(rows, columns).shape), np.int64(0)
        for i in self._asked:
            mantissa, more = np.frexp(mantissa * self._tables[i][self._index[i][rows], self._index[i][columns]])
            exponent = exponent + more
        return mantissa, np.asarray(exponent)


def _traces(blocks: Sequence[LinearOperator]) -> Floats:
    """tr(V_a V_b) of every two of an attribute's blocks, where blocks[0] is the total; O(blocks^2 n^2)."""
    n = blocks[0].shape[1]
    table = np.empty((len(blocks), len(blocks)))
    grams = {block: block.gram_dense() for block in blocks if not isinstance(block, Identity | Total)}
    for a, left in enumerate(blocks):
        for b, right in enumerate(blocks[: a + 1]):
            simple, other = (right, left) if left in grams else (left, right)
            if simple in grams:
                trace = float(np.vdot(grams[simple], grams[other]))
            elif other in grams:  # tr(1 1^T U) is the sum of U
                trace = float(grams[other].sum() if isinstance(simple, Total) else np.trace(grams[other]))
            else:
                trace = float(n) ** (2 if isinstance(simple, Total) and isinstance(other, Total) else 1)
            table[a, b] = table[b, a] = trace
    return table
