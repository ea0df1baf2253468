"""The pages of budget and confirmation: what a budget buys, before anything is spent, and what is charged, in words."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace
from starlette.datastructures import FormData, QueryParams
from starlette.responses import HTMLResponse, Response

from hush.core.errors import BudgetError, HushError
from hush.core.unit import Unit
from hush.mechanisms.plan_errors import noise_text
from hush.privacy.account import used_up
from hush.privacy.budget import Budget, number_text
from hush.privacy.events import price
from hush.privacy.gaussian_filter import new_filter
from hush.privacy.ledger import Ledger
from hush.render.html_page import fact_list, page_table
from hush.render.labels import readable
from hush.render.markup import Markup, join, tag
from hush.render.text_table import counted
from hush.report.page import cases_right, success
from hush.studio.guard import back_to
from hush.studio.layout import (
    button,
    check_field,
    form,
    hidden,
    meaning,
    missing,
    notice,
    sentence,
    text_field,
)
from hush.studio.owner import OwnerStudio
from hush.studio.planned import Effect, Planned, budget_words, number, share_words
from hush.studio.project import ProjectFile, TypedBudget, digest
from hush.studio.same_work import same_commands, same_script
from hush.studio.spending import free_name, project_digest, release_spending

STARTED_LEDGER = "The first release starts the ledger, which then holds the cap for all releases of these people."


def show_budget(studio: OwnerStudio, message: str | None = None) -> str:
    """The page of the budget; its effect is loaded by the script, since planning may take seconds."""
    state = studio.state
    typed, several = state.budget, bool(state.people.unit) and state.people.max_rows != "1"
    way = tag(
        "fieldset",
        tag("legend", "Set the budget by"),
        check_field(
            "way", "accuracy: how exact the numbers must be", typed.way == "accuracy", value="accuracy", kind="radio"
        ),
        check_field("way", "epsilon: how strong the promise is", typed.way == "epsilon", value="epsilon", kind="radio"),
    )
    body = form(
        "/budget",
        hidden("seen", digest(typed)),
        way,
        tag(
            "div",
            text_field(
                "accuracy",
                f"Accuracy: ± this many {'rows' if several else 'people'}, 19 times in 20",
                typed.accuracy,
                term="interval",
                inputmode="decimal",
            ),
            text_field("epsilon", "Epsilon", typed.epsilon, term="epsilon", inputmode="decimal"),
            text_field("delta", "Delta", typed.delta, term="delta", inputmode="decimal"),
            class_="fields",
        ),
        tag(
            "section",
            effect_markup(studio, None),
            id="effect",
            aria_live="polite",
            aria_label="The effect of this budget",
        ),
        tag("noscript", tag("p", tag("a", "Show the effect", href="/budget/effect"))),
        cap_markup(studio, state),
        meaning("ledger"),
        ledger_field(studio, typed),
        button("Save and continue"),
        id="budget-form",
    )
    return studio.page(
        body,
        title="Set the budget",
        current="/budget",
        message=message,
    )


def cap_markup(studio: OwnerStudio, state: ProjectFile) -> Markup:
    """What the ledger allows, the cap that a new one will have, or why the ledger cannot be used."""
    try:
        ledger = studio.ledger(state)
    except HushError as error:
        return notice(str(error))
    if ledger is None:
        return text_field(
            "cap",
            "Cap: epsilon of all releases together (optional)",
            state.budget.cap,
            term="cap",
            hint=f"{STARTED_LEDGER} If you leave this empty, this release uses up the cap.",
            inputmode="decimal",
        )
    return tag(
        "p",
        f"The ledger {readable(ledger.path.name)} allows {budget_words(ledger.budget)} for all releases together; "
        f"{share_words(ledger.remaining, ledger.limit)} of it is left. ",
        tag("a", "See the ledger", href="/ledger"),
    )


def ledger_field(studio: OwnerStudio, typed: TypedBudget) -> Markup:
    """Where the ledger is, and what it calls these people."""
    return tag(
        "details",
        tag("summary", "Which ledger is charged"),
        text_field(
            "ledger",
            "File",
            typed.ledger or str(studio.ledger_path(studio.state)),
            hint="If another ledger has releases of these people already, name that ledger: charges in two ledgers add "
            "up, and neither shows the sum.",
        ),
        text_field("dataset", "Name of these people in the ledger", typed.dataset),
        class_="more",
    )


def effect_markup(studio: OwnerStudio, typed: TypedBudget | None) -> Markup:
    """What a budget would buy; while it is not known yet, that it is being planned."""
    if typed is None:
        return tag("p", "Planning, which may take some seconds ...", class_="loading")
    try:
        ledger = studio.ledger(studio.state)
        planned = studio.planner.planned(studio.state, typed, ledger)
    except HushError as error:
        return missing(error, here="/budget")
    plan = planned.plan
    facts = [
        ("Accuracy", planned.headline),
        ("Costs", budget_words(plan.budget)),
        ("The promise", promise_words(planned)),
    ]
    if ledger is not None and not plan.payable(ledger):
        facts.append(("Ledger", "The ledger has less than that left. Spend less, or raise the cap on its page."))
    warnings = [notice(readable(warning, 500)) for warning in planned.warnings]
    return join(fact_list(facts), *warnings, effect_table(planned))


def promise_words(planned: Planned) -> str:
    """What one person is promised, together with the discovery of the columns if there was one."""
    discovered = planned.schema.discovery is not None
    if planned.promised is None:
        return "The columns were discovered under another promise. No promise covers the discovery and the release."
    return (
        "Suppose somebody knows everybody else in the table and guesses whether one person is in it. With this release"
        f"{' and the discovery of its columns' if discovered else ''} they are right in "
        f"{cases_right(success(*planned.promised))}; a coin is right in 50."
    )


def effect_table(planned: Planned) -> Markup | None:
    """The effect on each table and average."""
    if planned.plan.strategy is None:
        words = f"how exact each table will be depends on the data; {planned.plan.settings.states}"
        return tag("p", sentence(words), class_="soft")
    averages = planned.averages
    rows = [
        (
            Markup(effect.name),
            f"{effect.cells:,}",
            "" if effect.margin is None else f"{'at best ' * effect.average}± {noise_text(effect.margin)}",
            typical(effect),
        )
        for effect in [*planned.effects, *averages]
    ]
    heads = ("table", "counts in it", "95 % interval", "compared with a typical count")
    note = f"Intervals of counts are in {planned.counted}, those of averages in the unit of the column."
    return join(page_table(heads, rows, numbers=(1, 2, 3)), tag("p", note, class_="soft") if averages else None)


def typical(effect: Effect) -> str:
    """An error relative to the count of a typical cell; of an average, how many people a typical group has."""
    if effect.margin is None or effect.typical_count is None:
        return ""
    count = noise_text(effect.typical_count)
    if effect.average:
        return f"for a group of {count}"
    share = effect.margin / effect.typical_count
    return f"{share:.0%} of {count}".replace("%", " %") if share <= 1 else f"larger than {count}"


def typed_budget(fields: FormData | QueryParams, before: TypedBudget) -> TypedBudget:
    """The budget of a form; what it does not have stays."""

    def text(name: str) -> str:
        return str(fields.get(name, getattr(before, name))).strip()

    way = text("way")
    return TypedBudget(
        way="epsilon" if way == "epsilon" else "accuracy",
        epsilon=text("epsilon"),
        delta=text("delta"),
        accuracy=text("accuracy"),
        cap=text("cap"),
        ledger=text("ledger"),
        dataset=text("dataset") or "default",
        reviewed=before.reviewed,
    )


def show_effect(studio: OwnerStudio, query: QueryParams) -> Response:
    """The effect of a budget that is being typed, as a part of the page."""
    return HTMLResponse(effect_markup(studio, typed_budget(query, studio.state.budget)))


def save_budget(studio: OwnerStudio, fields: FormData) -> Response:
    """Save the page of the budget."""
    before = studio.state.budget
    typed = typed_budget(fields, before)
    default = str(studio.ledger_path(studio.state.replaced(budget=TypedBudget(dataset=typed.dataset))))
    typed = replace(typed, ledger="" if typed.ledger == default else typed.ledger, reviewed=True)
    state = studio.project.replace_checked(str(fields.get("seen", "")), "budget", typed)
    number(typed.delta, "delta", "1e-9")
    number(typed.epsilon if typed.way == "epsilon" else typed.accuracy, typed.way, "1")
    if typed.cap and "cap" in fields:
        number(typed.cap, "cap", "3")
    path = studio.ledger_path(state)
    if not path.parent.is_dir():
        raise BudgetError(f"{path.parent} is no folder; name another place for the ledger")
    return back_to("/confirm")


def cap_of(studio: OwnerStudio, state: ProjectFile, budget: Budget) -> Budget | None:
    """The cap that a new ledger would get; None if the ledger knows these people already."""
    if studio.ledger(state) is not None:
        return None
    if not state.budget.cap:
        return budget
    cap = Budget(epsilon=number(state.budget.cap, "cap", "3"), delta=budget.delta)
    if (cap.epsilon or 0.0) < (budget.epsilon or 0.0):
        raise BudgetError(
            f"the cap of epsilon {number_text(cap.epsilon or 0.0)} is below what this release spends, "
            f"{budget_words(budget)}; raise the cap, or spend less"
        )
    return cap


def protected_words(unit: Unit) -> str:
    """Who is protected."""
    if unit.column is None:
        return "one row"
    return f"one person (column {readable(unit.column, 60)}), with at most {counted(unit.max_rows, 'row')}"


def show_confirm(studio: OwnerStudio, message: str | None = None) -> str:
    """The page that says in words what would be charged, with the button that charges it."""
    state = studio.state
    try:
        planned = studio.planner.planned(state, ledger=studio.ledger(state))
        cap = cap_of(studio, state, planned.plan.budget)
    except HushError as error:
        return _confirm_page(studio, state, missing(error, here="/confirm"), message)
    plan, ledger = planned.plan, studio.ledger(state)
    folder = studio.project.path.absolute().parent
    name = free_name(state, studio.stem, folder)
    shown = release_spending(
        planned,
        partial(studio.open_table, state, planned.schema),
        name=name,
        output=folder / name,
        ledger=studio.ledger_path(state),
        dataset=state.budget.dataset,
        cap=cap,
        left=None if ledger is None else ledger.remaining,
        seen=project_digest(state),
        script=same_script(studio, state, planned, name, cap),
        commands=same_commands(studio, state, planned, name, cap),
    )
    unit = planned.schema.unit
    whom = protected_words(unit)
    after, room = after_words(ledger, planned, cap)
    facts = [
        ("You will spend", f"{budget_words(plan.budget)}, once and for good"),
        ("Protects", f"{whom}: being in the table or not barely changes what is released"),
        ("Releases", released_words(planned)),
        ("Accuracy", planned.headline),
        ("Ledger", f"{shown.ledger.name}, dataset {readable(shown.dataset, 60)}. {after}"),
        ("File", str(shown.output)),
        ("Mechanism", f"{plan.mechanism}; {plan.work}"),
    ]
    warnings = [notice(readable(warning, 500)) for warning in planned.warnings]
    if studio.password_needed:
        words = "The password of the database was in memory only, and is gone since the server ended. "
        spend = notice(join(words, tag("a", "Type it again", href="/data")))
    elif room:
        spend = form(
            "/spend",
            hidden("token", studio.spending.show(shown)),
            tag("p", "When you confirm, hush charges the ledger, reads the rows, and releases noisy numbers."),
            button(f"Spend {budget_words(plan.budget)} and release", id="spend"),
            class_="spend",
        )
    else:
        spend = notice(
            join(
                "The ledger has less than that left, so nothing can be spent. ",
                tag("a", "Open the ledger", href="/ledger"),
            )
        )
    terms = tag("div", *map(meaning, ("epsilon", "delta", "ledger", "mechanism", "interval")), class_="meanings")
    return _confirm_page(studio, state, join(fact_list(facts), terms, *warnings, spend, effect_table(planned)), message)


def _confirm_page(studio: OwnerStudio, state: ProjectFile, body: Markup, message: str | None) -> str:
    return studio.page(
        body,
        title="Confirm what is spent",
        current="/confirm",
        message=message,
    )


def released_words(planned: Planned) -> str:
    """What a release consists of."""
    about = f"about {counted(len(planned.schema.domain), 'column')}"
    if planned.goal == "rows":
        purpose = f", made for predicting the column {readable(planned.label, 60)}," if planned.label else ""
        return f"synthetic rows{purpose} and all tables behind them, {about}"
    sums = f" and {counted(len(planned.averages), 'average')}" if planned.averages else ""
    return f"{counted(len(planned.plan.workload), 'table')}{sums}, {about}"


def after_words(ledger: Ledger | None, planned: Planned, cap: Budget | None) -> tuple[str, bool]:
    """What is left after a release, and whether there is room for it."""
    plan, new = planned.plan, ""
    if ledger is None:
        cap = cap or plan.budget
        if cap == plan.budget:
            return "It is new, and this release uses all of its cap.", True
        new, charged = f"It is new; its cap is {budget_words(cap)}. ", new_filter(cap)
    elif not plan.payable(ledger) or (plan.strategy is None and used_up(ledger.remaining, plan.budget.limit)):
        return "It has less than that left.", False
    else:
        charged = ledger.filter()
    if plan.strategy is not None:
        left = max(charged.after(plan.event, price(plan.event)).left, 0 * charged.left)
        return f"{new}After this release, {share_words(left, charged.limit)} of its cap is left.", True
    left = max(charged.left - plan.budget.limit, 0 * charged.left)
    words = f"{new}After this release, about {share_words(left, charged.limit)} of its cap is left."
    return words, charged.left >= plan.budget.limit


def spend(studio: OwnerStudio, fields: FormData) -> Response:
    """Charge what was shown, once, and go to its progress."""
    name = studio.spending.confirm(str(fields.get("token", "")))
    return back_to(f"/releases/{name}/progress")
