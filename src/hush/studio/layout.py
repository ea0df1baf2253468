"""Layout: the frame of every page of the studio, and the parts that pages share: fields, messages, "what is this?"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from hush.core.errors import BudgetError, HushError, LedgerError, SchemaError, WorkloadError
from hush.render.html_page import stylesheet
from hush.render.labels import readable
from hush.render.markup import Markup, join, lines, tag
from hush.studio.project import PeopleError

VOID_ELEMENTS = ("input", "link", "meta")
STEPS = (
    ("/data", "Data"),
    ("/columns", "Columns"),
    ("/people", "People"),
    ("/questions", "Questions"),
    ("/budget", "Budget"),
    ("/confirm", "Confirm"),
)
ORDINALS = ("First column", "Second column", "Third column", "Fourth column")  # of a table that is chosen
NO_COLUMN = ("choose a column", "no second column", "no third column", "no fourth column")
OTHER_PAGES = (("/releases", "Releases"), ("/ledger", "Ledger"))
MEANINGS = {
    "epsilon": (
        "What is epsilon?",
        "Epsilon bounds how much all released numbers together can tell about one person. 1 is common, 0.1 is "
        "strict, and above 10 it promises little.",
    ),
    "delta": (
        "What is delta?",
        "Delta is the chance that the promise of epsilon fails. Keep it far below 1 divided by the number of "
        "people; 1e-9, one in a billion, suits most tables. 0 asks for a promise that cannot fail, with more noise.",
    ),
    "unit": (
        "What if people have several rows?",
        "Usually one row is one person. If people have several rows, name the column with their id, and hush "
        "protects all rows of a person at once.",
    ),
    "interval": (
        "What is an interval?",
        "Noise moves every number a little. A 95 % interval contains the true number in 19 of 20 cases.",
    ),
    "levels": (
        "What are levels?",
        "The values that a column may hold. They are published with the release, so write them from public "
        "knowledge, such as a code book or a questionnaire, and not from looking at the rows.",
    ),
    "bins": (
        "What are bins?",
        "Bins are ranges of numbers that are counted together. Every count gets the same noise, so wide bins, "
        "with many people each, are known more exactly.",
    ),
    "discovery": (
        "What is private discovery?",
        "If nobody knows the bounds or the values of a column beforehand, a part of the budget can find them with "
        "noise.",
    ),
    "options": (
        "What do the boxes mean?",
        "May be empty: cells without a value are counted too, on their own. Clamp: a number or date outside the "
        "bounds counts as the nearest bound; otherwise it is refused. Other values: a value that is not listed counts "
        "as other; otherwise it is refused. Discover: hush finds what you do not write, with noise. Further settings: "
        "everything else that a schema file may say, in its spelling, such as points = [0].",
    ),
    "ledger": (
        "What is the ledger?",
        "The ledger is a file that records every charge for good. All releases of the same people share one cap.",
    ),
    "synthetic": (
        "What are synthetic rows?",
        "Synthetic rows are invented people who, all together, resemble the real ones. No row belongs to a real "
        "person.",
    ),
    "tables": (
        "What is a table?",
        "A table counts people by one or more columns, such as age by sex. Fewer and smaller tables have smaller "
        "errors.",
    ),
    "averages": (
        "Why ask for averages?",
        "An average needs the sum of a column, which has noise of its own. Say which averages matter, and by "
        "which groups.",
    ),
    "cap": (
        "What is a cap?",
        "The cap limits what all releases of these people may spend together, now and later.",
    ),
    "mechanism": (
        "What is a mechanism?",
        "The method that decides what is counted, adds the noise and works out the answers. hush chooses the one with "
        "the smallest errors for what you ask.",
    ),
    "adding up": (
        "What are GDP, PLD and pure noise?",
        "GDP, PLD and zCDP are ways to add up charges; hush states the smallest sum that one of them proves. Pure "
        "noise needs no delta.",
    ),
    "rows": (
        "Why this number?",
        "It only serves to say how large an error is compared to the counts. State what is publicly known, "
        "roughly; hush never counts rows for it.",
    ),
}


@cache
def studio_stylesheet() -> str:
    """The style of reports, and that of forms and steps."""
    return stylesheet() + files("hush.studio").joinpath("forms.css").read_text(encoding="utf-8")


@cache
def studio_script() -> str:
    """The script of all pages."""
    return files("hush.studio").joinpath("studio.js").read_text(encoding="utf-8")


def document(
    body: Markup, *, title: str, header: Markup | None = None, script: bool = True, class_: str | None = None
) -> str:
    """A whole page of a server, which serves its style and script."""
    head = lines(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        Markup('<link rel="stylesheet" href="/style.css"><link rel="icon" href="data:,">'),
        Markup('<script src="/studio.js" defer></script>') if script else None,
    )
    skip = tag("a", "Skip to the content", href="#content", class_="skip")
    main = tag("main", body, id="content", tabindex="-1")
    page = tag("html", "\n", tag("head", head), "\n", tag("body", skip, header, main, class_=class_), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def outside_page(body: Markup, *, title: str, onward: bool = False) -> str:
    """A page before the owner has entered, or about a failure."""
    return document(join(tag("h1", title), body), title=title, class_="onward" if onward else None)


def owner_page(
    body: Markup,
    *,
    title: str,
    current: str,
    dataset: str = "",
    done: Iterable[str] = (),
    wide: bool = False,
    message: str | Markup | None = None,
) -> str:
    """A page of the owner: the steps, a message if there is one, and its content."""
    finished = set(done)

    def link(address: str, name: str, number: int | None = None) -> Markup:
        marks = [tag("span", str(number), class_="number", aria_hidden="true")] if number else []
        state = tag("span", " (done)", class_="unseen") if address in finished else None
        here = {"aria_current": "step" if number else "page"} if address == current else {}
        return tag("li", tag("a", *marks, name, state, href=address, class_="done" if state else None, **here))

    steps = tag("ol", *(link(address, name, i) for i, (address, name) in enumerate(STEPS, start=1)), class_="steps")
    others = tag("ul", *(link(address, name) for address, name in OTHER_PAGES), class_="steps")
    data = tag("span", readable(dataset, 40), class_="dataset") if dataset else None
    name = tag("p", tag("strong", "hush studio"), " ", data, class_="brand")
    header = tag("header", name, tag("nav", steps, others, aria_label="Steps"), class_="studio")
    shown = message if isinstance(message, Markup) or message is None else notice(message)
    content = join(tag("h1", title), shown, body)
    return document(content, title=f"{title} - hush studio", header=header, class_="wide" if wide else None)


def notice(text: str | Markup, *, kind: str = "problem") -> Markup:
    """A message that screen readers read at once; `kind` is problem, good or private."""
    shown = text if isinstance(text, Markup) else sentence(text)
    return tag("div", tag("p", shown), class_=f"notice {kind}", role="alert" if kind == "problem" else "status")


def sentence(text: str) -> str:
    """A message as a sentence: with a capital, unless it begins with a name, and with its full stop.

    >>> sentence("the file 'a.csv' does not exist; check the path"), sentence("age: expected a number")
    ("The file 'a.csv' does not exist; check the path.", 'age: expected a number.')
    """
    first = text.split(" ", 1)[0]
    capital = text[:1].upper() + text[1:] if first.isalpha() else text
    return capital if capital.endswith((".", "!", "?")) else f"{capital}."


def missing(error: HushError, *, here: str) -> Markup:
    """What a project still lacks, with a link to the page that asks for it."""
    pages = {SchemaError: "/columns", PeopleError: "/people", WorkloadError: "/questions"}
    address = pages.get(type(error), "/budget" if isinstance(error, BudgetError | LedgerError) else here)
    link = tag("a", f"Go to {dict(STEPS)[address]}", href=address) if address != here else None
    return notice(join(sentence(str(error)), " ", link))


def meaning(term: str) -> Markup:
    """What a term means, folded away beside it."""
    question, answer = MEANINGS[term]
    return tag("details", tag("summary", question), tag("p", answer), class_="what")


def void(name: str, /, **attributes: str | float | None) -> Markup:
    """An element without content, such as an input."""
    return Markup(tag(name, **attributes).removesuffix(f"</{name}>"))


def text_field(
    name: str,
    label: str,
    value: str,
    *,
    term: str | None = None,
    hint: str | None = None,
    kind: str = "text",
    **attributes: str | None,
) -> Markup:
    """A text field with its label, a hint below, and the meaning of its term."""
    described = f"{name}-hint" if hint else None
    return tag(
        "div",
        tag("label", label, for_=name),
        void("input", type=kind, id=name, name=name, value=value, aria_describedby=described, **attributes),
        tag("p", hint, class_="hint", id=described) if hint else None,
        meaning(term) if term else None,
        class_="field",
    )


def select_field(
    name: str, label: str, choices: Iterable[tuple[str, str]], chosen: str, *, hint: str | None = None
) -> Markup:
    """A list to choose from, with its label, and a hint below."""
    described = f"{name}-hint" if hint else None
    return tag(
        "div",
        tag("label", label, for_=name),
        select(name, choices, chosen, id=name, aria_describedby=described),
        tag("p", hint, class_="hint", id=described) if hint else None,
        class_="field",
    )


def select(name: str, choices: Iterable[tuple[str, str]], chosen: str, **attributes: str | None) -> Markup:
    """A list of (value, text) to choose from."""
    options = [
        tag("option", readable(text, 60), value=value, selected="selected" if value == chosen else None)
        for value, text in choices
    ]
    return tag("select", *options, name=name, **attributes)


def check_field(name: str, label: str | Markup, checked: bool, *, value: str = "yes", kind: str = "checkbox") -> Markup:
    """A box to tick, or one of several to choose."""
    mark = void("input", type=kind, name=name, value=value, checked="checked" if checked else None)
    return tag("label", mark, " ", label, class_="choice")


def hidden(name: str, value: str) -> Markup:
    """A field that the page sends back as it is."""
    return void("input", type="hidden", name=name, value=value)


def form(action: str, *content: str | None, **attributes: str | None) -> Markup:
    """A form that is posted."""
    return tag("form", *content, method="post", action=action, **attributes)


def button(text: str, *, name: str | None = None, value: str | None = None, plain: bool = False, **more: str) -> Markup:
    """A button that sends its form."""
    return tag("button", text, type="submit", name=name, value=value, class_="plain" if plain else None, **more)


def bullet_list(items: Sequence[str]) -> Markup:
    """Items one below the other."""
    return tag("ul", *(tag("li", item) for item in items))


def copied(text: str, label: str) -> Markup:
    """A text to copy, with a button that copies it."""
    copy = tag("button", "Copy", type="button", class_="plain copy", aria_label=f"Copy {label}")
    return tag("div", copy, tag("pre", tag("code", text), tabindex="0", aria_label=label), class_="copied")
