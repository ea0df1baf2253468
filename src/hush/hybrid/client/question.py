"""Question and report: what a curator asks and what a device sends back, as small JSON texts with a version.

The id of a question is a hash of everything that affects an answer. So a report counts for no other question, and a
question asked again under another name is the same question.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from hush.core.errors import HushError  # needs the standard library alone
from hush.hybrid.client.choice_laws import (
    LARGEST_EPSILON,
    SYSTEM_BYTES,
    UNIT,
    KaryResponse,
    RandomBytes,
    RecordResponse,
    UnaryResponse,
    scaled_exp,
)
from hush.hybrid.client.number_laws import NUMBER_LAWS, GaussianResponse, NumberLaw, continuous_spread, step_of

FORMAT_VERSION = 1  # of questions and reports
WILDCARD = "*"
MOST_OPTIONS = 1 << 17
MOST_STEPS = 1 << 16
MOST_LAPLACE_SPREAD = 1 << 16  # steps over epsilon: about how many coins a device tosses for one report
MOST_GAUSSIAN_SPREAD = 1 << 14  # steps; a device keeps a table of 18 times as many weights
GAUSSIAN = "gaussian"
SMALLEST_EPSILON = Fraction(1, 10**6)
LONGEST_QUESTION = 1 << 26  # characters; a longer text is a mistake or an attack
DEFAULT_STEPS = 256
DEFAULT_SHARE = "0.85"
ID_LENGTH = 32  # hexadecimal digits

Number = int | float | str | Fraction
Law = KaryResponse | UnaryResponse | RecordResponse | NumberLaw
_BODY_FIELDS = {
    "choice": {"options", "other"},
    "records": {"head_list", "share", "spend_slack"},
    "number": {"lower", "upper", "steps"},
    "cluster": {"centres"},
}
_KIND_MECHANISMS = {
    "choice": ("kary", "unary"),
    "records": ("two-stage",),
    "number": (*NUMBER_LAWS, GAUSSIAN),
    "cluster": ("kary",),
}


class QuestionError(HushError):
    """A question or report that is damaged, of another version, or with settings out of range."""


class AnswerError(HushError):
    """An answer that a device refuses: of the wrong kind, or beyond what its owner allows; never quotes a value."""


class Question:
    """What is asked, with which promise: kind, options or bounds, mechanism, epsilon and delta.

    >>> question = Question.number("hours of sleep", 0, 12, epsilon="1.5")
    >>> Question.from_json(question.as_json()).id == question.id
    True
    >>> question.mechanism
    'piecewise'
    """

    def __init__(
        self, *, name: str, kind: str, mechanism: str, epsilon: Number, delta: Number = 0, body: Mapping[str, Any]
    ) -> None:
        if kind not in _BODY_FIELDS:
            raise QuestionError(f"kind={kind!r}: expected one of {', '.join(_BODY_FIELDS)}")
        if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
            raise QuestionError(f"name={str(name)[:60]!r}: expected a printable text of at most 200 characters")
        if mechanism not in _KIND_MECHANISMS[kind]:
            raise QuestionError(
                f"mechanism={mechanism!r}: a question of kind {kind} has one of {', '.join(_KIND_MECHANISMS[kind])}"
            )
        fields = _BODY_FIELDS[kind] | ({"spread"} if mechanism == GAUSSIAN else set())
        if set(body) != fields:
            raise QuestionError(f"a question of kind {kind} has the fields {', '.join(sorted(fields))}")
        self.name = name
        self.kind = kind
        self.mechanism = mechanism
        self.epsilon = _rational("epsilon", epsilon)
        self.delta = _rational("delta", delta)
        _epsilon(self.epsilon)
        if not 0 <= self.delta <= Fraction(1, 2):
            raise QuestionError(f"delta={_text(self.delta)}: expected a probability from 0 to 1/2, such as 1e-6")
        if self.delta and (mechanism not in ("kary", "two-stage", GAUSSIAN) or body.get("spend_slack")):
            raise QuestionError(
                f"delta={_text(self.delta)}: {mechanism} promises epsilon alone; leave delta out"
                + (", or set spend_slack=False" if mechanism == "two-stage" else "")
            )
        self.body = getattr(self, f"_check_{kind}")(dict(body))
        if isinstance(self.law, GaussianResponse) and self.law.delta(self.epsilon) > self.delta:
            raise QuestionError(
                f"spread={self.body['spread']}: noise so narrow does not keep epsilon={_text(self.epsilon)}, "
                f"delta={_text(self.delta)}; the question promises more than its law keeps"
            )

    @classmethod
    def choice(
        cls,
        name: str,
        options: Sequence[str],
        *,
        epsilon: Number,
        delta: Number = 0,
        other: bool = False,
        mechanism: str = "auto",
    ) -> Question:
        """One of several options; with `other`, any other value counts as the wildcard `*`.

        `auto` takes k-ary response for up to 3 e^epsilon + 2 options, and unary encoding, whose estimates then vary
        less, for longer lists.
        """
        size = len(options) + other
        if mechanism == "auto":
            mechanism = "kary" if delta or kary_is_better(size, _epsilon(epsilon)) else "unary"
        body = {"options": list(options), "other": other}
        return cls(name=name, kind="choice", mechanism=mechanism, epsilon=epsilon, delta=delta, body=body)

    @classmethod
    def yes_no(cls, name: str, *, epsilon: Number, delta: Number = 0) -> Question:
        """A question whose answer is yes or no."""
        return cls.choice(name, ["no", "yes"], epsilon=epsilon, delta=delta, mechanism="kary")

    @classmethod
    def records(
        cls,
        name: str,
        head_list: Mapping[str, Sequence[str]],
        *,
        epsilon: Number,
        delta: Number = 0,
        share: Number = DEFAULT_SHARE,
        spend_slack: bool = True,
    ) -> Question:
        """A record of two parts, such as query and URL, from a head list; parts that are not listed become `*`.

        The query gets `share` of epsilon.
        """
        body = {
            "head_list": {query: list(urls) for query, urls in head_list.items()},
            "share": _text(_rational("share", share)),
            "spend_slack": spend_slack,
        }
        return cls(name=name, kind="records", mechanism="two-stage", epsilon=epsilon, delta=delta, body=body)

    @classmethod
    def number(
        cls,
        name: str,
        lower: Number,
        upper: Number,
        *,
        epsilon: Number,
        delta: Number = 0,
        mechanism: str = "auto",
        steps: int = DEFAULT_STEPS,
    ) -> Question:
        """A number between two bounds; a number outside becomes the nearest bound.

        `auto` takes the law of least worst-case variance: Duchi's for small epsilon, the piecewise law otherwise.
        "gaussian" needs a delta; it is for means in which the noise of each group protects the other.
        """
        body = {"lower": _text(_rational("lower", lower)), "upper": _text(_rational("upper", upper)), "steps": steps}
        if mechanism == "auto":
            mechanism = best_number_law(_epsilon(epsilon), _check_steps(steps))
        if mechanism == GAUSSIAN:
            body["spread"] = _text(
                _gaussian_law(_check_steps(steps), _epsilon(epsilon), _rational("delta", delta)).spread
            )
        return cls(name=name, kind="number", mechanism=mechanism, epsilon=epsilon, delta=delta, body=body)

    @classmethod
    def cluster(cls, name: str, centres: Sequence[Sequence[float]], *, epsilon: Number) -> Question:
        """The nearest of several centres to a person's point."""
        body = {"centres": [[float(part) for part in centre] for centre in centres]}
        return cls(name=name, kind="cluster", mechanism="kary", epsilon=epsilon, body=body)

    @cached_property
    def id(self) -> str:
        """A hash of everything but the name."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:ID_LENGTH]

    @cached_property
    def law(self) -> Law:
        """The law by which an answer is drawn."""
        if self.mechanism == GAUSSIAN:
            return GaussianResponse(self.body["steps"], Fraction(self.body["spread"]))
        if self.kind == "number":
            return NUMBER_LAWS[self.mechanism](self.body["steps"], self.epsilon)
        if self.kind == "records":
            share, slack = Fraction(self.body["share"]), self.body["spend_slack"]
            sizes = [len(urls) for urls in self.slots.values()]
            return RecordResponse(sizes, self.epsilon, self.delta, share=share, spend_slack=slack)
        if self.mechanism == "unary":
            return UnaryResponse(len(self.options), self.epsilon)
        return KaryResponse(len(self.options), self.epsilon, self.delta)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """The options of a choice, the wildcard last; the centres of a cluster question by number."""
        if self.kind == "cluster":
            return tuple(str(index) for index in range(len(self.body["centres"])))
        return (*self.body["options"], *([WILDCARD] if self.body["other"] else []))

    @cached_property
    def slots(self) -> dict[str, tuple[str, ...]]:
        """The URLs of each query of a records question; every list of URLs, and the list of queries, ends in `*`."""
        listed = {query: (*urls, WILDCARD) for query, urls in self.body["head_list"].items()}
        return listed | {WILDCARD: (WILDCARD,)}

    @cached_property
    def _places(self) -> dict[str, int]:
        names = self.slots if self.kind == "records" else self.options
        return {option: index for index, option in enumerate(names)}

    def encode(self, value: Any, random_bytes: RandomBytes = SYSTEM_BYTES) -> tuple[Any, bool]:
        """A person's value as the law takes it, and whether it was moved to a bound, which only that person may see."""
        if self.kind == "number":
            number = _own_number(value)
            lower, upper = Fraction(self.body["lower"]), Fraction(self.body["upper"])
            inside = min(max(number, lower), upper)
            return step_of(inside, lower, upper, self.body["steps"], random_bytes), inside != number
        if self.kind == "cluster":
            return self._nearest(value), False
        if self.kind == "records":
            return self._record(value), False
        if not isinstance(value, str):
            raise AnswerError("this question takes one of its options, as a text")
        if value not in self._places and not self.body["other"]:
            raise AnswerError("the value is none of the options of this question; nothing is sent")
        return self._places[value if value in self._places else WILDCARD], False

    def distinct(self, value: Any) -> str:
        """A text that is equal for two values exactly if this question treats them as the same value."""
        if self.kind == "number":
            lower, upper = Fraction(self.body["lower"]), Fraction(self.body["upper"])
            return str(min(max(_own_number(value), lower), upper))
        return json.dumps(self.encode(value)[0])

    def _record(self, value: Any) -> tuple[int, int]:
        if not (isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, str) for part in value)):
            raise AnswerError("this question takes a record of two texts, such as a query and a URL")
        query, url = value
        if query not in self._places:
            query = WILDCARD
        urls = self.slots[query]
        return self._places[query], urls.index(url) if url in urls else len(urls) - 1

    def _nearest(self, value: Any) -> int:
        centres = self.body["centres"]
        if not (isinstance(value, tuple | list) and len(value) == len(centres[0])):
            raise AnswerError(f"this question takes a point of {len(centres[0])} numbers")
        if not all(map(_is_float, value)):
            raise AnswerError("this question takes a point of finite numbers, below 1e100")
        point = [float(part) for part in value]
        gaps = [sum((a - b) ** 2 for a, b in zip(point, centre, strict=True)) for centre in centres]
        return gaps.index(min(gaps))

    def as_json(self) -> str:
        """The question as text."""
        return json.dumps({"hush": "question", "id": self.id, "name": self.name, **self._content()}, ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> Question:
        """The question that `as_json` wrote; refuses other versions, unknown fields and an id that does not match."""
        if len(text) > LONGEST_QUESTION:
            raise QuestionError("question: the text is too long for a question; check the file")
        body = _object(text, "question")
        known = {"hush", "version", "id", "name", "kind", "mechanism", "epsilon", "delta"}
        fields = {key: body[key] for key in body if key not in known}
        stated = {"name": "", "kind": "", "mechanism": "", "epsilon": "", "delta": ""} | body
        for name in ("epsilon", "delta"):
            if not isinstance(stated[name], str):
                raise QuestionError(f"question: {name} must be a text such as '1.5', so that no reader rounds it")
        question = cls(
            name=stated["name"],
            kind=stated["kind"] if isinstance(stated["kind"], str) else "",
            mechanism=stated["mechanism"],
            epsilon=stated["epsilon"],
            delta=stated["delta"],
            body=fields,
        )
        if body.get("id") != question.id:
            raise QuestionError("question: its id does not match its content; it was changed after it was written")
        return question

    def _content(self) -> dict[str, Any]:
        return {
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "mechanism": self.mechanism,
            "epsilon": _text(self.epsilon),
            "delta": _text(self.delta),
            **self.body,
        }

    def __repr__(self) -> str:
        promise = f"epsilon={_text(self.epsilon)}" + (f", delta={_text(self.delta)}" if self.delta else "")
        return f"Question({self.name!r}, {self.kind} by {self.mechanism}, {promise})"

    def _check_choice(self, body: dict[str, Any]) -> dict[str, Any]:
        options, other = body["options"], body["other"]
        if not isinstance(other, bool):
            raise QuestionError(f"other={other!r}: expected true or false")
        _check_names("options", options, reserved=other)
        if len(options) + other < 2:
            raise QuestionError("options: one option alone tells nothing; give at least two, or set other=True")
        return body

    def _check_records(self, body: dict[str, Any]) -> dict[str, Any]:
        head_list, slack = body["head_list"], body["spend_slack"]
        if not isinstance(slack, bool):
            raise QuestionError(f"spend_slack={slack!r}: expected true or false")
        if not isinstance(head_list, dict) or not head_list:
            raise QuestionError("head_list: expected at least one query with its URLs; an empty list asks nothing")
        _check_names("head_list", list(head_list), reserved=True)
        for urls in head_list.values():
            _check_names("the URLs of a query", urls, reserved=True)
        if sum(len(urls) + 1 for urls in head_list.values()) > MOST_OPTIONS:
            raise QuestionError(f"head_list: more than {MOST_OPTIONS:,} records; ask for fewer")
        share = _rational("share", body["share"])
        if not 0 < share < 1:
            raise QuestionError(f"share={_text(share)}: expected a number between 0 and 1, such as 0.85")
        return body | {"share": _text(share)}

    def _check_number(self, body: dict[str, Any]) -> dict[str, Any]:
        lower, upper, steps = _rational("lower", body["lower"]), _rational("upper", body["upper"]), body["steps"]
        if not lower < upper:
            raise QuestionError(f"lower={_text(lower)}, upper={_text(upper)}: expected lower below upper")
        if self.mechanism == "laplace" and _check_steps(steps) > MOST_LAPLACE_SPREAD * self.epsilon:
            raise QuestionError(
                f"steps={steps}, epsilon={_text(self.epsilon)}: Laplace noise would spread over too many steps; "
                "use fewer steps or another mechanism"
            )
        checked: dict[str, Any] = {"lower": _text(lower), "upper": _text(upper), "steps": _check_steps(steps)}
        if self.mechanism == GAUSSIAN:
            spread = _rational("spread", body["spread"])
            if not 1 <= spread <= MOST_GAUSSIAN_SPREAD:
                raise QuestionError(_SPREAD_RULE.format(_text(spread)))
            checked["spread"] = _text(spread)
        return checked

    def _check_cluster(self, body: dict[str, Any]) -> dict[str, Any]:
        centres = body["centres"]
        if not isinstance(centres, list) or not 2 <= len(centres) <= MOST_OPTIONS:
            raise QuestionError("centres: expected at least two points; one centre tells nothing")
        width = len(centres[0]) if isinstance(centres[0], list) else 0
        for centre in centres:
            if not (isinstance(centre, list) and width and len(centre) == width and all(map(_is_float, centre))):
                raise QuestionError("centres: expected points of equally many finite numbers, below 1e100")
        return body


class Report:
    """One device's answer: the question's id, an id of its own, and the drawn value; nothing else."""

    __slots__ = ("id", "question", "value")

    def __init__(self, question: str, value: Any, *, id: str | None = None) -> None:
        self.question = question
        self.value = value
        self.id = os.urandom(ID_LENGTH // 2).hex() if id is None else id

    def as_json(self) -> str:
        """The report as one line of text."""
        body = {
            "hush": "report",
            "version": FORMAT_VERSION,
            "question": self.question,
            "id": self.id,
            "value": self.value,
        }
        return json.dumps(body, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `as_json` wrote; refuses other versions and unknown fields."""
        body = _object(text, "report")
        if set(body) != {"hush", "version", "question", "id", "value"}:
            raise QuestionError("report: expected the fields hush, version, question, id and value")
        for name in ("question", "id"):
            if not is_id(body[name]):
                raise QuestionError(f"report: its {name} is not {ID_LENGTH} hexadecimal digits")
        return cls(body["question"], body["value"], id=body["id"])

    def __repr__(self) -> str:
        return f"Report({self.value!r} on question {self.question[:8]})"


def is_id(text: object) -> bool:
    """Whether a text is the id of a question or a report."""
    return isinstance(text, str) and len(text) == ID_LENGTH and set(text) <= set("0123456789abcdef")


def unary_text(bits: int, size: int) -> str:
    """The bits of a unary report as hexadecimal bytes, the first option in the lowest bit of the first byte."""
    return bits.to_bytes((size + 7) // 8, "little").hex()


def kary_is_better(size: int, epsilon: Fraction) -> bool:
    """Whether k-ary response has at most the variance of unary encoding for a rare option: k <= 3 e^epsilon + 2."""
    return (size - 2) * UNIT <= 3 * scaled_exp(epsilon)


def best_number_law(epsilon: Fraction, steps: int = DEFAULT_STEPS) -> str:
    """The law for bounded numbers of least worst-case variance over the grid."""

    def largest(name: str) -> Fraction:
        law = NUMBER_LAWS[name](steps, epsilon)
        return max(law.variance(step) for step in (0, steps // 2, steps))

    return min(NUMBER_LAWS, key=largest)


_SPREAD_RULE = (
    f"Gaussian noise of {{}} steps: expected from 1 to {MOST_GAUSSIAN_SPREAD:,}; change steps, or use another mechanism"
)


def _gaussian_law(steps: int, epsilon: Fraction, delta: Fraction) -> GaussianResponse:
    """The Gaussian law of least spread for a promise."""
    if not 0 < delta <= Fraction(1, 2):
        raise QuestionError(f"delta={_text(delta)}: Gaussian noise needs a delta above 0 and at most 1/2, such as 1e-6")
    spread = steps * continuous_spread(epsilon, delta)
    if not 1 <= spread < MOST_GAUSSIAN_SPREAD:
        raise QuestionError(_SPREAD_RULE.format(f"{spread:.4g}"))
    return GaussianResponse.for_promise(steps, epsilon, delta)


def _object(text: str, what: str) -> dict[str, Any]:
    """The JSON object of a question or report of this version."""

    def refuse(constant: str) -> None:  # NaN and infinity are no JSON
        raise ValueError(constant)

    try:
        body = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise QuestionError(f"{what}: not JSON") from None
    if not isinstance(body, dict) or body.get("hush") != what:
        raise QuestionError(f'{what}: expected a JSON object with "hush": "{what}"')
    if body.get("version") != FORMAT_VERSION or isinstance(body.get("version"), bool):
        raise QuestionError(
            f"{what}: version {str(body.get('version'))[:20]} is not {FORMAT_VERSION}, the version known here; "
            "upgrade the older side"
        )
    return body


def _check_names(what: str, names: object, *, reserved: bool) -> None:
    if not isinstance(names, list) or len(names) > MOST_OPTIONS:
        raise QuestionError(f"{what}: expected a list of at most {MOST_OPTIONS:,} texts")
    if not all(isinstance(name, str) and name for name in names):
        raise QuestionError(f"{what}: expected texts that are not empty")
    if len(set(names)) < len(names):
        raise QuestionError(f"{what}: an entry is listed twice; list each once")
    if reserved and WILDCARD in names:
        raise QuestionError(f"{what}: {WILDCARD!r} stands for everything that is not listed and cannot be an entry")


def _check_steps(steps: object) -> int:
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS:
        raise QuestionError(f"steps={steps!r}: expected a whole number from 1 to {MOST_STEPS:,}")
    return steps


def _rational(name: str, value: Any) -> Fraction:
    """An exact number; a float means the decimal that Python prints, so 0.1 means 1/10."""
    try:
        if isinstance(value, float):
            value = repr(value)
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, str):  # Python would take hours to write out a long exponent
            exponent = value.lower().partition("e")[2]
            if len(value) > 100 or len(exponent) > 4 or abs(int(exponent or 0)) > 60:
                raise ValueError
        number = Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise QuestionError(f"{name}={str(value)[:60]!r}: expected a number, such as 1.5 or '3/2'") from None
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > 256:
        raise QuestionError(f"{name}: the number has too many digits; round it")
    return number


def _epsilon(value: Number) -> Fraction:
    epsilon = _rational("epsilon", value)
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise QuestionError(
            f"epsilon={_text(epsilon)}: expected a number above 0 and at most {LARGEST_EPSILON}; below "
            f"{_text(SMALLEST_EPSILON)} no estimate is possible"
        )
    return epsilon


def _text(value: Fraction) -> str:
    """A number as a short decimal where that is exact, else as a ratio."""
    for digits in range(13):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            whole, rest = divmod(abs(scaled.numerator), 10**digits)
            sign = "-" if value < 0 else ""
            return f"{sign}{whole}" + (f".{rest:0{digits}d}" if digits else "")
    return str(value)


def _own_number(value: Any) -> Fraction:
    """A person's number, exactly; never quoted."""
    if not _is_finite(value):
        raise AnswerError("this question takes a finite number")
    return Fraction(value)


def _is_float(value: object) -> bool:
    """Whether a value is a number small enough for its square to be a finite float."""
    return isinstance(value, int | float) and _is_finite(value) and abs(value) < 1e100


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return False
    return isinstance(value, int | Fraction) or math.isfinite(value)
