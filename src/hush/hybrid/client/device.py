"""Device: answers questions about one person, remembers its answers, and stays within its owner's limit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import MutableMapping
from fractions import Fraction
from typing import Any

from hush.hybrid.client.choice_laws import SYSTEM_BYTES, RandomBytes, UnaryResponse
from hush.hybrid.client.question import AnswerError, Question, Report, unary_text

_SALT, _SPENT, _ANSWER = "salt", "spent", "answer "


class Device:
    """One person's device.

    `memory` is any mapping of texts, stored with the app's data; it holds salted hashes instead of values. Values that
    the question treats as the same get the same report, with the same id. Another value is a new draw and spends
    epsilon again; `limit` is the total that the owner allows.

    Privacy: a report is epsilon-private (with the question's delta) against everybody, including the curator. All
    reports of a device together are private at their sum, `spent`, which never exceeds `limit`.

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
        not_private_bytes: RandomBytes | None = None,
    ) -> None:
        self.memory: MutableMapping[str, str] = {} if memory is None else memory
        self.limit = None if limit is None else Fraction(repr(limit) if isinstance(limit, float) else limit)
        self._random_bytes = SYSTEM_BYTES if not_private_bytes is None else not_private_bytes
        self.memory.setdefault(_SALT, SYSTEM_BYTES(16).hex())

    @property
    def spent(self) -> Fraction:
        """The sum of epsilon over all draws."""
        return Fraction(self.memory.get(_SPENT, "0"))

    def answer(self, question: Question, value: Any) -> Report:
        """The report for a value: the remembered one, or a new draw."""
        place = _ANSWER + self._hash(question, value)
        if place in self.memory:
            return Report.from_json(self.memory[place])
        after = self.spent + question.epsilon
        if self.limit is not None and after > self.limit:
            raise AnswerError(
                f"an answer at epsilon={question.epsilon} would bring this device to {after}, beyond its limit of "
                f"{self.limit}; nothing is sent"
            )
        encoded, _ = question.encode(value, self._random_bytes)
        drawn: Any = question.law.draw(encoded, self._random_bytes)
        if isinstance(question.law, UnaryResponse):
            drawn = unary_text(drawn, question.law.size)
        report = Report(question.id, list(drawn) if isinstance(drawn, tuple) else drawn)
        self.memory[_SPENT] = str(after)
        self.memory[place] = report.as_json()
        return report

    def _hash(self, question: Question, value: Any) -> str:
        text = json.dumps([self.memory[_SALT], question.id, question.distinct(value)])
        return hashlib.sha256(text.encode("ascii")).hexdigest()
