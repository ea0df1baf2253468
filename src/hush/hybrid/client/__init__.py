"""What runs on a person's own device: read a question, answer it at random, remember the answer.

Everything here needs the standard library alone and starts in milliseconds, so that it can be shipped in an app. Every
probability is a ratio of integers, drawn with bits of the operating system; no floating-point number is compared.

>>> question = Question.choice("colour", ["red", "green", "blue"], epsilon=2)
>>> Device().answer(question, "green").question == question.id
True
"""

from hush.hybrid.client.device import Device
from hush.hybrid.client.question import AnswerError, Question, QuestionError, Report

__all__ = ["AnswerError", "Device", "Question", "QuestionError", "Report"]
