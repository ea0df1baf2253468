"""What a device refuses; the messages name the value of a question, never the person's own."""

from hush.core.errors import HushError  # loads the standard library alone


class QuestionError(HushError):
    """A question, or a report on one, that is damaged, of another version, or with settings out of range."""


class AnswerError(HushError):
    """An answer that a device does not give: of the wrong kind, or beyond what its owner allows."""
