"""The hybrid trust model: some people trust the curator, most do not, and both count.

People who opt in show the curator their data, and the gate protects what is published. The others are clients: their
own device randomises an answer before it leaves. Both groups get the same promise.

`hush.hybrid.client` is what runs on a device; it needs the standard library alone, so this module loads nothing until
it is asked for.

>>> from hush import hybrid
>>> question = hybrid.Question.choice("colour", ["red", "green", "blue"], epsilon=2)
>>> report = hybrid.Device().answer(question, "green")
>>> report.question == question.id
True
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hush.hybrid.client import Device, Question, Report
else:
    _HOMES = {
        "Device": "hush.hybrid.client",
        "Question": "hush.hybrid.client",
        "Report": "hush.hybrid.client",
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'hush.hybrid' has no attribute {name!r}; known: {', '.join(__all__)}")
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
        return value


__all__ = ["Device", "Question", "Report"]
