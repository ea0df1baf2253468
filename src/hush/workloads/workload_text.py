"""Workload texts, for the command line and configuration files.

    3-way                   every marginal over three attributes
    <=3-way                 every marginal over at most three, the total among them
    small 5000              every marginal with at most 5000 cells
    target income 3-way     every marginal over three attributes, income among them
    predict income          pairs and triples with income, pairs more: for classifiers trained on synthetic rows
    skewed 7                256 random marginals over three attributes, some asked far more than others; 7 is the seed
    age,sex; race           these marginals
    age:prefix,sex          ages up to each one, by sex; also :range, :width10
    age:levels,sex          each age and the total over ages, by sex
    2-of-4                  for every four attributes and each target, the rows that agree with it in at least two
    2-of age,sex,race       the same for these attributes
    sum(income) by sex      the sum of a numeric column, which gives its mean too; also variance(income) by sex
    <=2-way + 4*age,sex     a weighted union

Names with other marks than letters, digits, `_`, `-`, `>` and `.` are written in double quotes.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

from hush import queries
from hush.core.domain import Domain, domain_of
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.validation import check_number
from hush.linops import LinearOperator
from hush.workloads.sum_term import SumTerm, merged_sums
from hush.workloads.term import ProductTerm, Term, merged
from hush.workloads.threshold_term import threshold_term
from hush.workloads.workload import Workload

if TYPE_CHECKING:
    from hush.schema import Schema

NAME_PATTERN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",:;*+]+))\s*(?::\s*([a-z]+)(\d*)\s*)?(,|$)')
SUM_PATTERN = re.compile(
    r'\s*(?P<what>sum|mean|avg|variance)\s*\(\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"()]+))\s*\)'
    r"\s*(?:\s+by\s+(?P<by>.*))?",
    re.DOTALL,
)
SKEWED_ORDER, SKEWED_DRAWS = 3, 256  # [AIM, sec. 6.1]
PIECE_PATTERN = re.compile(r'"(?:[^"\\]|\\.?)*+"?|.', re.DOTALL)  # a text in quotes, closed or not, or one mark
LONGEST_TEXT = 2**20  # characters
MOST_LISTED = 1_000_000  # marginals, by several summands together
WEIGHT_PATTERN = re.compile(r"\s*([0-9][0-9.eE+-]*)\s*\*\s*(?=\S)")
_ALL_SETS = re.compile(r"(<=)?\d+-?way|\d+-of-\d+")
_AT_LEAST = re.compile(r"\s*(\d+)\s*-\s*of\s+")
_BLOCK_MAKERS: dict[str | None, Callable[[int], LinearOperator]] = {
    None: queries.identity,
    "identity": queries.identity,
    "prefix": queries.prefix,
    "range": queries.ranges,
    "ranges": queries.ranges,
    "levels": queries.levels_and_total,
}
EXAMPLE_TEXTS = "write it like `3-way`, `<=2-way`, `small 5000`, `target income 2-way`, `2-of-4` or `age,sex; race`"


def parse_workload(over: Domain | Schema, text: str) -> Workload:
    """The workload that a text describes; sums of values need the schema.

    >>> domain = Domain({"age": 100, "sex": 2, "race": 5})
    >>> parse_workload(domain, "<=1-way + 2*age,sex").weights
    (1.0, 1.0, 1.0, 1.0, 2.0)
    """
    domain = domain_of(over, WorkloadError)
    if len(text) > LONGEST_TEXT:
        raise WorkloadError(f"a text of {len(text):,} characters: at most {LONGEST_TEXT:,} are possible; ask for less")
    summands = [summand.strip() for summand in split_text(text, "+")]
    if not any(summands):
        raise WorkloadError(f"the workload is empty; {EXAMPLE_TEXTS}")
    asked: dict[str, float] = {}
    for summand in summands:
        weight, position = 1.0, 0
        while match := WEIGHT_PATTERN.match(summand, position):
            try:
                weight *= float(match[1])
            except ValueError:
                raise WorkloadError(f"weight {match[1]!r} in the workload: expected a number such as 2.5") from None
            position = match.end()
        check_number(WorkloadError, "weight in the workload", weight, above=0)
        rest = summand[position:]
        asked[rest] = asked.get(rest, 0.0) + weight
    terms: list[Term] = []
    sums: list[SumTerm] = []
    for rest, weight in asked.items():
        workload = _parse_unweighted(over, rest)
        workload = workload if weight == 1 else weight * workload
        terms.extend(workload)
        sums.extend(workload.sum_terms)
        if len(asked) > 1 and len(terms) > MOST_LISTED:
            raise SizeError(f"the summands list more than {MOST_LISTED:,} marginals; leave some out")
    return Workload(domain, terms if len(asked) == 1 else merged(terms), merged_sums(sums))


def _parse_unweighted(over: Domain | Schema, summand: str) -> Workload:
    # All tables of some kind.
    domain = domain_of(over, WorkloadError)
    if match := re.fullmatch(r"(<=|up ?to )?\s*(\d+)\s*(?:-\s*)?way", summand):
        order = _whole(match[2])
        return Workload.upto(domain, order) if match[1] else Workload.kway(domain, order)
    if match := re.fullmatch(r"small\s+(\d+)", summand):
        return Workload.small(domain, _whole(match[1]))
    if match := re.fullmatch(r'target\s+(?:"((?:[^"\\]|\\.)*)"|(\S+))\s+(\d+)\s*(?:-\s*)?way', summand):
        name = match[2] if match[1] is None else _unquote(match[1])
        return Workload.target(domain, name, _whole(match[3]))
    if match := re.fullmatch(r'predict\s+(?:"((?:[^"\\]|\\.)*)"|(\S+))', summand):
        return Workload.predict(domain, match[2] if match[1] is None else _unquote(match[1]))
    if match := re.fullmatch(r"skewed\s+(\d{1,18})", summand):
        return Workload.skewed(domain, SKEWED_ORDER, SKEWED_DRAWS, seed=int(match[1]))
    if match := re.fullmatch(r"(\d+)\s*-\s*of\s*-\s*(\d+)", summand):
        return Workload.thresholds(domain, _whole(match[2]), _whole(match[1]))
    # A list of sums, thresholds and products.
    pieces = [piece for piece in split_text(summand, ";") if piece.strip()]
    if not pieces:
        raise WorkloadError(f"cannot read the workload {summand!r}; {EXAMPLE_TEXTS}")
    terms: dict[Hashable, Term] = {}
    sums: list[Workload] = []
    for piece in pieces:
        if match := SUM_PATTERN.fullmatch(piece):
            if isinstance(over, Domain):
                raise WorkloadError(
                    f"{match[0].strip()!r} in the workload adds up real values; give the schema, not a domain"
                )
            column = match["plain"] if match["quoted"] is None else _unquote(match["quoted"])
            by = () if match["by"] is None else _parse_product(domain, match["by"]).clique
            sums.append(Workload.sums(over, column, by, variance=match["what"] == "variance"))
            continue
        term: Term
        if match := _AT_LEAST.match(piece):
            product = _parse_product(domain, piece[match.end() :])
            if not product.plain:
                raise WorkloadError(
                    f"{piece.strip()!r} in the workload: a threshold is over levels alone; leave out what follows the "
                    "colons"
                )
            term = threshold_term(domain, product.clique, _whole(match[1]))
        else:
            term = _parse_product(domain, piece)
        if term.question in terms:
            raise WorkloadError(
                f"the {term.kind} {term.clique!r} is listed twice; list it once, with a weight such as 2*a,b"
            )
        terms[term.question] = term
    counted = [Workload(domain, terms.values())] if terms else []
    return functools.reduce(operator.add, [*counted, *sums])


def _parse_product(domain: Domain, piece: str) -> ProductTerm:
    blocks: dict[str, LinearOperator] = {}
    position = 0
    while position < len(piece):
        match = NAME_PATTERN.match(piece, position)
        if match is None:
            raise WorkloadError(f"cannot read {piece.strip()!r} in the workload; {EXAMPLE_TEXTS}")
        position = match.end()
        name = match[2] if match[1] is None else _unquote(match[1])
        if name not in domain and match[1] is None and _ALL_SETS.fullmatch(name):
            raise WorkloadError(
                f"{name!r} in the workload stands among names of columns; put a + before it, as in age,sex + {name}"
            )
        size = domain[name]
        if name in blocks:
            raise WorkloadError(f"{piece.strip()!r} in the workload names {name!r} twice; name it once")
        kind, number = match[3], match[4]
        if kind == "width" and number:
            blocks[name] = queries.width(_whole(number))(size)
        elif kind in _BLOCK_MAKERS and not number:
            blocks[name] = _BLOCK_MAKERS[kind](size)
        else:
            raise WorkloadError(
                f"query kind {kind + number!r}: expected prefix, range, levels, width<number> or identity"
            )
    clique = domain.clique(blocks)
    return ProductTerm(clique, tuple(blocks[name] for name in clique))


def _whole(digits: str) -> int:
    if len(digits) > 18:
        raise WorkloadError(f"{shown(digits)} in the workload is a number of {len(digits)} digits; expected 18 at most")
    return int(digits)


def split_text(text: str, mark: str) -> Iterator[str]:
    """Pieces between marks, where marks in quotes do not count."""
    piece = ""
    for token in PIECE_PATTERN.findall(text):
        if token == mark:
            yield piece
            piece = ""
        else:
            piece += token
    yield piece


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
