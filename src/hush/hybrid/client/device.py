"""Device: answers questions about one person, remembers its answers, and stays within its owner's limit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import MutableMapping, Sequence
from fractions import Fraction
from typing import Any

from hush.hybrid.client.choice_laws import SYSTEM_BYTES, RandomBytes, UnaryResponse
from hush.hybrid.client.question import WILDCARD, AnswerError, Question, Report, unary_text

_SALT, _SPENT, _SPENT_DELTA, _ANSWER = "salt", "spent", "spent delta", "answer "
DELTA_LIMIT = Fraction(1, 10_000)  # of a device with a limit, whose epsilon alone would limit nothing


class Device:
    """One person's device.

    `memory` is any mapping of texts, stored with the app's data; it holds salted hashes instead of values. Values that
    the question treats as the same get the same report, with the same id. Another value is a new draw and spends
    epsilon again; `limit` is the total that the owner allows. With a limit, the deltas of all draws add up to at most
    `delta_limit` too: a question of a large delta could read the value for hardly any epsilon.

    Privacy: a report is epsilon-private (with the question's delta) against everybody, including the curator. All
    reports of a device together are private at their sums, `spent` and `spent_delta`, which never exceed the limits.

    >>> device = Device(limit=3)
    >>> question = Question.yes_no("a smoker", epsilon=2)
    >>> device.answer(question, "no").id == device.answer(question, "no").id
    True
    >>> device.spent
    Fraction(2, 1)
    """

    def __init__(
        self,
        memory: MutableMapping[str, str] | None = None,
        *,
        limit: int | float | Fraction | None = None,
        delta_limit: int | float | Fraction = DELTA_LIMIT,
        not_private_bytes: RandomBytes | None = None,
    ) -> None:
        self.memory: MutableMapping[str, str] = {} if memory is None else memory
        self.limit = None if limit is None else Fraction(repr(limit) if isinstance(limit, float) else limit)
        self.delta_limit = Fraction(repr(delta_limit) if isinstance(delta_limit, float) else delta_limit)
        self._random_bytes = SYSTEM_BYTES if not_private_bytes is None else not_private_bytes
        self.memory.setdefault(_SALT, SYSTEM_BYTES(16).hex())

    @property
    def spent(self) -> Fraction:
        """The sum of epsilon over all draws."""
        return Fraction(self.memory.get(_SPENT, "0"))

    @property
    def spent_delta(self) -> Fraction:
        """The sum of delta over all draws."""
        return Fraction(self.memory.get(_SPENT_DELTA, "0"))

    def answer(self, question: Question, value: Any) -> Report:
        """The report for a value: the remembered one, or a new draw."""
        return self._answers(question, [(value, "")])[0]

    def answer_places(self, question: Question, values: Sequence[Any], places: int) -> list[Report]:
        """Exactly `places` reports, one for each of the first different values, and for "*" where there are fewer.

        So the number of reports says nothing about the number of values. Each report spends the question's epsilon,
        also if two places hold the same value. The question needs `other=True`, or records.
        """
        if isinstance(places, bool) or not isinstance(places, int) or places < 1:
            raise AnswerError(f"places={places!r}: expected a whole number of at least 1")
        if isinstance(values, str | bytes):
            raise AnswerError("values: expected a list; put a single value in a list")
        if not question.body.get("other", question.kind == "records"):
            raise AnswerError("a place may be empty, so the question needs other=True; nothing is sent")
        empty = (WILDCARD, WILDCARD) if question.kind == "records" else WILDCARD
        held = list({question.distinct(value): value for value in values}.values())[:places]
        held += [empty] * (places - len(held))
        return self._answers(question, [(value, f"place {place}") for place, value in enumerate(held)])

    def _answers(self, question: Question, held: Sequence[tuple[Any, str]]) -> list[Report]:
        """The reports for values in their places; all of them stay within the limit, or none is drawn."""
        keys = [_ANSWER + self._hash(question, value, place) for value, place in held]
        draws = sum(key not in self.memory for key in keys)
        after, delta = self.spent + question.epsilon * draws, self.spent_delta + question.delta * draws
        if self.limit is not None and after > self.limit:
            raise AnswerError(
                f"an answer at epsilon={question.epsilon} would bring this device to {after}, beyond its limit of "
                f"{self.limit}; nothing is sent"
            )
        if self.limit is not None and delta > self.delta_limit:
            raise AnswerError(
                f"an answer at delta={float(question.delta):g} would bring this device to {float(delta):g}, beyond its "
                f"limit of {float(self.delta_limit):g}; nothing is sent"
            )
        return [self._answer(question, value, key) for (value, _), key in zip(held, keys, strict=True)]

    def _answer(self, question: Question, value: Any, key: str) -> Report:
        if key in self.memory:
            return Report.from_json(self.memory[key])
        encoded, _ = question.encode(value, self._random_bytes)
        drawn: Any = question.law.draw(encoded, self._random_bytes)
        if isinstance(question.law, UnaryResponse):
            drawn = unary_text(drawn, question.law.size)
        report = Report(question.id, list(drawn) if isinstance(drawn, tuple) else drawn)
        self.memory[_SPENT] = str(self.spent + question.epsilon)
        if question.delta:
            self.memory[_SPENT_DELTA] = str(self.spent_delta + question.delta)
        self.memory[key] = report.as_json()
        return report

    def _hash(self, question: Question, value: Any, place: str) -> str:
        text = json.dumps([self.memory[_SALT], question.id, question.distinct(value), *([place] if place else [])])
        return hashlib.sha256(text.encode("ascii")).hexdigest()
