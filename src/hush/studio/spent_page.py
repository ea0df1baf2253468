"""The ledger page: what was spent by which release, what is left, what one more like it would cost; raising the cap."""

from __future__ import annotations

from dataclasses import replace

from starlette.datastructures import FormData
from starlette.responses import Response

from hush.core.errors import LedgerError
from hush.privacy.budget import Budget
from hush.privacy.events import compose, price
from hush.privacy.ledger import Ledger
from hush.privacy.ledger.ledger_chain import CHARGE
from hush.privacy.ledger.ledger_view import ledger_tables
from hush.render.html_page import scrolling
from hush.render.labels import readable
from hush.render.markup import Markup, join, tag
from hush.studio.guard import back_to
from hush.studio.layout import button, form, hidden, meaning, notice, text_field
from hush.studio.owner import OwnerStudio
from hush.studio.planned import number, share_words

RAISE_WARNING = (
    "Raising the cap weakens the promise to everyone in the data, for good. The new cap, the time and the reason stay "
    "on record; no cap is ever lowered."
)
FIXED_NOTE = "Spent epsilon assumes noise levels that were set in advance; the cap holds either way."


def show_spent(studio: OwnerStudio, message: str | None = None) -> str:
    """The page."""
    state = studio.state
    path, ledger = studio.ledger_path(state), studio.ledger(state)
    where = tag("p", "The ledger is ", tag("code", str(path)), ".", class_="soft")
    if ledger is None:
        body = join(
            tag("p", "Nothing was spent yet. The first release starts the ledger.", class_="empty"),
            meaning("ledger"),
            where,
        )
    else:
        summary, listing = ledger_tables(ledger, None)
        body = join(
            tag("div", *map(meaning, ("ledger", "cap", "adding up")), class_="meanings"),
            tag(
                "section",
                tag("h2", "What was spent and what is left"),
                scrolling(summary),
                one_more(ledger),
                tag("p", FIXED_NOTE, class_="soft"),
            ),
            tag("section", tag("h2", "By release"), scrolling(replace(listing, notes=()))),
            tag(
                "p",
                "Every entry was checked: none was changed or removed. Head: ",
                tag("code", ledger.head),
                class_="soft",
            ),
            where,
            raise_form(ledger),
        )
    return studio.page(
        body,
        title="Ledger",
        current="/ledger",
        message=message,
    )


def one_more(ledger: Ledger) -> Markup | None:
    """What another release like the last one would cost."""
    charges = [entry for entry in ledger.entries() if entry.action == CHARGE]
    if not charges:
        return None
    name = charges[-1].release
    event = compose(entry.event for entry in charges if entry.release == name) if name else charges[-1].event
    after = ledger.filter().after(event, price(event))
    if not after.kept:
        return tag("p", "The cap has no room for another release like the last one.")
    left = max(after.left, 0 * after.left)
    cost = share_words(ledger.remaining - left, ledger.limit)
    return tag(
        "p",
        f"One more release like {readable(name or 'the last one', 60)} would cost {cost} of the cap, and leave "
        f"{share_words(left, ledger.limit)}.",
    )


def raise_form(ledger: Ledger) -> Markup:
    """Raise the cap, with a reason."""
    cap = ledger.budget
    if cap.epsilon is None:
        return tag("p", f"The cap is {cap}; raise it with `hush budget raise`.", class_="soft")
    return tag(
        "details",
        tag("summary", "Raise the cap"),
        notice(RAISE_WARNING, kind="private"),
        form(
            "/ledger/raise",
            hidden("head", ledger.head),
            text_field(
                "epsilon", f"New cap: epsilon, above {cap.epsilon:g}", "", inputmode="decimal", required="required"
            ),
            text_field("reason", "Reason", "", hint="It is recorded for good.", required="required"),
            button("Raise the cap"),
        ),
        class_="more",
    )


def raise_cap(studio: OwnerStudio, fields: FormData) -> Response:
    """Raise the cap; a second post of the same form finds another head and is refused."""
    ledger = studio.ledger(studio.state)
    if ledger is None:
        raise LedgerError("there is no ledger yet; the first release starts it")
    if str(fields.get("head", "")) != ledger.head:
        raise LedgerError(
            "the ledger changed after this form was opened; look at it again, and raise the cap if you still wish"
        )
    epsilon = number(str(fields.get("epsilon", "")), "epsilon", "3")
    ledger.raise_cap(
        Budget(epsilon=epsilon, delta=ledger.budget.delta), reason=readable(str(fields.get("reason", "")).strip(), 200)
    )
    return back_to("/ledger")
