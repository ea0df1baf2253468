"""Markup: HTML and SVG as text in which everything is escaped unless it was made here."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

Attribute: TypeAlias = str | float | None


class Markup(str):
    """Text that is HTML already; anything else is escaped when it becomes part of an element."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: Attribute) -> Markup:
    """An element; texts are escaped, None is left out, `class_` is class and `data_x` is data-x.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{join(*children)}</{name}>")


def shape(name: str, /, *children: str | None, **attributes: Attribute) -> Markup:
    """An SVG element, closed in itself where it has no children.

    >>> shape("rect", x=1.26, width=10.0)
    '<rect x="1.3" width="10"/>'
    """
    return tag(name, *children, **attributes) if children else Markup(f"<{name}{_attributes(attributes)}/>")


def join(*children: str | None) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(text if isinstance(text, Markup) else escape(text) for text in children if text is not None))


def lines(*children: str | None) -> Markup:
    """Elements one to a line, so that the page can be read as a file too."""
    return Markup("\n".join(join(child) for child in children if child is not None))


def coordinate(number: float) -> str:
    """A coordinate with one decimal at most: 1/10 of a pixel is finer than any screen or printer needs.

    >>> coordinate(3.0), coordinate(-0.01), coordinate(2.26)
    ('3', '0', '2.3')
    """
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _attributes(attributes: dict[str, Attribute]) -> str:
    written = []
    for name, value in attributes.items():
        if value is not None:
            text = value if isinstance(value, str) else coordinate(value)
            written.append(f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return "".join(written)
