"""`hush hybrid`: ask clients a question, answer it, estimate from the reports, and find head lists of opt-in people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hush.cli.long_work import long_work
from hush.cli.options import PATH, OutputOptions, format_option, output_options
from hush.core.errors import DataError, HushError, printable

epsilon_option = click.option("--epsilon", required=True, help="What each person is promised, such as 1.5.")
delta_option = click.option("--delta", default="0", show_default=True, help="Delta of the promise.")
ledger_option = click.option("--ledger", type=PATH, help="Ledger where the promise is recorded first.")
to_file = output_options("File to write; standard output if none.")


@click.group()
def hybrid() -> None:
    """Ask people who trust you, and people who do not.

    Opt-in people show the curator their data; clients randomise their answers on their own devices.
    """


@hybrid.command()
@click.argument("kind", type=click.Choice(["choice", "yes-no", "number", "records"]))
@click.option("--name", required=True, help="What the question is called.")
@click.option("--option", "options", multiple=True, help="An option of a choice; repeat it.")
@click.option("--options-file", type=PATH, help="File with one option on each line.")
@click.option("--other", is_flag=True, help="Let all that is not listed count as *.")
@click.option("--lower", help="Lower bound of a number.")
@click.option("--upper", help="Upper bound of a number.")
@click.option("--head-list", type=PATH, help="Head list of records, from `hush hybrid head-list`.")
@click.option(
    "--mechanism", default="auto", show_default=True, help="kary, unary, laplace, duchi, piecewise, gaussian or auto."
)
@epsilon_option
@delta_option
@ledger_option
@to_file
def question(
    kind: str,
    name: str,
    options: tuple[str, ...],
    options_file: Path | None,
    other: bool,
    lower: str | None,
    upper: str | None,
    head_list: Path | None,
    mechanism: str,
    epsilon: str,
    delta: str,
    ledger: Path | None,
    output: OutputOptions,
) -> None:
    """Write a question for clients, of one KIND.

    With --ledger the promise is recorded before the question is written. A question is public, and its id changes with
    whatever decides an answer.
    """
    from hush.hybrid.client import Question
    from hush.hybrid.promises import Promise

    output.check(options_file, head_list, stdout=True)
    if kind == "number":
        if lower is None or upper is None:
            raise click.UsageError("a number needs --lower and --upper")
        asked = Question.number(name, lower, upper, epsilon=epsilon, delta=delta, mechanism=mechanism)
    elif kind == "records":
        if head_list is None:
            raise click.UsageError("records need --head-list")
        asked = Question.records(name, _head_list(head_list), epsilon=epsilon)
    elif kind == "yes-no":
        asked = Question.yes_no(name, epsilon=epsilon, delta=delta)
    else:
        listed = [*options, *(_lines(options_file) if options_file else [])]
        asked = Question.choice(name, listed, epsilon=epsilon, delta=delta, other=other, mechanism=mechanism)

    # Record the promise before the question is written.
    if ledger is not None:
        Promise(epsilon=asked.epsilon, delta=asked.delta, ledger=str(ledger)).record_question(asked)
    output.write(asked.as_json() + "\n")
    click.echo(printable(f"{asked!r}, id {asked.id}"), err=True)


@hybrid.command()
@click.argument("question", type=PATH)
@click.argument("value", nargs=-1)
@click.option("--memory", type=PATH, help="File in which the device remembers what it answered.")
@click.option("--limit", type=float, help="Epsilon that the device's owner allows in all.")
@click.option("--values", type=PATH, help="File with one value on each line: a device of its own answers each.")
@to_file
def report(
    question: Path,
    value: tuple[str, ...],
    memory: Path | None,
    limit: float | None,
    values: Path | None,
    output: OutputOptions,
) -> None:
    """Answer a QUESTION as a device does: randomised.

    VALUE is an option, a number, or a query and a URL. The same value gets the same report if --memory is given. With
    --values many devices answer, which is for trying things out.
    """
    from hush.files.atomic_write import write_whole
    from hush.hybrid.client import Device

    asked = _question(question)
    if (values is None) == (not value):
        raise click.UsageError("give a VALUE, or --values and a file")
    output.check(question, values, memory, stdout=True)
    if values is not None:
        if memory is not None:
            raise click.UsageError("--memory is that of one device; leave it out with --values")
        held = [
            _typed(asked, tuple(line.split("\t")), f"{values}, line {i}: ") for i, line in enumerate(_lines(values), 1)
        ]
        reports = [Device(limit=limit).answer(asked, answer) for answer in held]
    else:
        kept = _memory(memory)
        held = [_typed(asked, value, "")]
        reports = [Device(kept, limit=limit).answer(asked, held[0])]
        if memory is not None:
            write_whole(memory, json.dumps(kept).encode())
    output.write("".join(answer.as_json() + "\n" for answer in reports))
    if values is None and asked.encode(held[0])[1]:
        click.echo("outside the bounds: moved to the nearest bound before it was randomised", err=True)


@hybrid.command()
@click.argument("question", type=PATH)
@click.argument("reports", type=PATH)
@click.option("--skip-refused", is_flag=True, help="Leave out reports that do not fit, and list them.")
@click.option("--head-list", type=PATH, help="Blend with what opt-in people say about this list; for records.")
@click.option("--opt-in", type=PATH, help="Blend with the numbers of opt-in people, one on each line; for numbers.")
@ledger_option
@format_option
def estimate(
    question: Path,
    reports: Path,
    skip_refused: bool,
    head_list: Path | None,
    opt_in: Path | None,
    ledger: Path | None,
    as_json: bool,
) -> None:
    """Estimate from REPORTS (.jsonl, .parquet, .arrow) what clients hold, with intervals.

    A report is refused by its line if it is on another question, of another version, holds a value that no device
    sends, or an id that was counted before.

    With --head-list or --opt-in, clients and opt-in people are put together. Numbers of opt-in people are charged at
    the epsilon of the question; --ledger records that.
    """
    from rich.console import Console

    from hush.hybrid.collection import collect
    from hush.hybrid.frequency_estimates import estimate as estimate_counts

    asked = _question(question)
    if head_list is not None and asked.kind != "records":
        raise click.UsageError(f"--head-list goes with a question of records, not of kind {asked.kind}")
    if opt_in is not None and asked.kind != "number":
        raise click.UsageError(f"--opt-in goes with a question of a number, not of kind {asked.kind}")
    if ledger is not None and opt_in is None:
        raise click.UsageError("--ledger is for opt-in people's numbers; clients were recorded with their question")

    # Collect the reports of clients, and put them together with what opt-in people say.
    counts = collect(asked, reports, refused="skip" if skip_refused else "raise")
    found: Any
    if head_list is not None:
        found = _blended(head_list, asked, counts)
    elif opt_in is not None:
        found = _mean(opt_in, asked, counts, ledger)
    else:
        found = estimate_counts(counts)

    # Print the estimates, and which reports were refused.
    if as_json:
        refused = [{"line": line, "reason": reason} for line, reason in counts.refused]
        click.echo(json.dumps({**found.to_dict(), "refused": refused, "refusals": counts.refusals}, indent=2))
        return
    Console().print(found.table())
    for line, reason in counts.refused[:20]:
        click.echo(printable(f"refused: line {line}: {reason}"), err=True)
    if counts.refusals > 20:
        click.echo(f"refused: {counts.refusals:,} reports in all", err=True)


@hybrid.command("head-list")
@click.argument("log", type=PATH)
@click.option("--most", type=int, default=50, show_default=True, help="Largest number of queries.")
@epsilon_option
@click.option("--delta", required=True, help="Delta of the promise: a list that nobody knows beforehand needs one.")
@ledger_option
@to_file
def head_list_command(
    log: Path, most: int, epsilon: str, delta: str, ledger: Path | None, output: OutputOptions
) -> None:
    """Find the records that many opt-in people of LOG hold, and count them.

    LOG is a tab-separated file with the columns person, query and url. One record of each person counts. What is
    written is public: ask clients about it with `hush hybrid question records --head-list FILE`.
    """
    from hush.hybrid.blender import blend, find_head_list, head_list_questions
    from hush.hybrid.opt_in import OptInRecords, read_search_log
    from hush.hybrid.promises import Promise

    output.check(log, ledger, stdout=True)
    try:
        promise = Promise.of(epsilon, delta, ledger=None if ledger is None else str(ledger))
    except (ValueError, ZeroDivisionError):
        raise click.UsageError(f"--epsilon {epsilon} --delta {delta}: expected numbers") from None
    people = OptInRecords(read_search_log(log).values())
    counted = find_head_list(people, promise, most_queries=most)
    blended = blend(counted, head_list_questions(counted.head_list, promise))
    body = {"hush": "head list", "version": 1, "epsilon": epsilon, "delta": delta, **blended.to_dict()}
    body["opt-in"] = counted.to_dict()
    output.write(json.dumps(body, indent=1) + "\n")
    click.echo(f"{len(blended.queries)} queries found", err=True)


@hybrid.command()
@click.option("--people", type=int, default=100_000, show_default=True, help="How many people there are.")
@click.option("--share", type=float, default=0.05, show_default=True, help="Share of them who opt in.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="What each person is promised.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="Delta of the promise.")
@click.option("--width", type=float, default=1.0, show_default=True, help="Width of the range of numbers.")
@click.option("--stddev", type=float, default=0.25, show_default=True, help="Standard deviation of the numbers.")
@click.option("--searchers", type=int, default=400_000, show_default=True, help="Invented people who search.")
@output_options("HTML file to write; - for standard output.", required=True)
@format_option
def simulate(
    people: int,
    share: float,
    epsilon: float,
    delta: float,
    width: float,
    stddev: float,
    searchers: int,
    output: OutputOptions,
    as_json: bool,
) -> None:
    """Write a page and print its main figures: errors against epsilon and against the share who opt in.

    Nobody is asked and nothing is spent: means are exact formulas, head lists are simulated on invented people.
    """
    from rich.console import Console

    from hush.hybrid.simulated_errors import SimulateOptions, simulate_errors, simulate_html

    output.check(stdout=True)
    if output.stdout and as_json:
        raise click.UsageError("--format json prints to standard output, as -o - does; give -o a file")
    options = SimulateOptions(
        people=people, share=share, epsilon=epsilon, delta=delta, width=width, stddev=stddev, log_people=searchers
    )
    with long_work("simulating", "usually seconds, longer for many searchers") as progress:
        found = simulate_errors(options, progress)
    output.write(simulate_html(found))
    if as_json:
        click.echo(json.dumps({**found.to_dict(), "page": str(output.path)}, indent=2))
        return
    console = Console(stderr=output.stdout)
    for table in found.tables():
        console.print(table, "")
    if not output.stdout:
        click.echo(printable(f"Nobody was asked: these errors are predicted. Charts are in {output.path}"))


@hybrid.command()
def demo() -> None:
    """Find a head list and a mean of invented people, with both groups."""
    from rich.console import Console

    from hush.hybrid.blender_simulation import search_log, simulate_blender
    from hush.hybrid.client import Question
    from hush.hybrid.mean_estimates import hybrid_mean
    from hush.hybrid.opt_in import OptInNumbers
    from hush.hybrid.promises import Promise
    from hush.hybrid.simulated_reports import generator_of, simulate_reports

    console = Console()
    promise = Promise.of(4, 1e-5)
    click.echo("200,000 invented people searched; 5 % of them opted in. Everybody is promised epsilon 4, delta 1e-5.\n")
    run = simulate_blender(search_log(200_000, seed=1), promise, opt_in_share=0.05, most_queries=10, seed=1)
    console.print(run.blended.table())
    click.echo("\n20,000 invented people slept 7.1 hours on average; 2 % opted in. Everybody is promised epsilon 1.\n")
    generator = generator_of(2)
    hours = generator.normal(7.1, 1.2, 20_000).clip(0, 12)
    asked = Question.number("hours of sleep", 0, 12, epsilon=1, mechanism="piecewise")
    reports = simulate_reports(asked, hours[400:], generator)
    console.print(hybrid_mean(OptInNumbers(hours[:400], 0, 12), reports, Promise.of(1)).table())


def _question(path: Path) -> Any:
    from hush.hybrid.client import Question

    return Question.from_json(_text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None


def _lines(path: Path) -> list[str]:
    return [line for line in _text(path).splitlines() if line.strip()]


def _memory(path: Path | None) -> dict[str, str]:
    if path is None or not path.exists():
        return {}
    try:
        kept = json.loads(_text(path))
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not all(isinstance(text, str) for text in kept.values()):
        raise HushError(f"{path} is not the memory of a device; give another file")
    return kept


def _head_list(path: Path) -> dict[str, list[str]]:
    try:
        body = json.loads(_text(path))
        return {str(entry["query"]): [str(url) for url in entry["urls"]] for entry in body["queries"]}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is no head list; write one with `hush hybrid head-list`") from None


def _blended(path: Path, asked: Any, counts: Any) -> Any:
    """Clients' reports on a list together with what opt-in people say about it."""
    from hush.hybrid.blender import HeadListQuestions, blend
    from hush.hybrid.head_list import OptInEstimates

    try:
        counted = OptInEstimates.from_dict(json.loads(_text(path))["opt-in"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is no head list; write one with `hush hybrid head-list`") from None
    listed = {query: list(urls) for query, urls in asked.body["head_list"].items()}
    if {query: set(urls) for query, urls in listed.items()} != {q: set(u) for q, u in counted.head_list.items()}:
        raise DataError(f"{path} is another head list than that of the question")
    questions = HeadListQuestions(head_list=counted.head_list, two_stage=asked)
    return blend(counted, questions, {asked.id: counts})


def _mean(path: Path, asked: Any, counts: Any, ledger: Path | None) -> Any:
    """Clients' reports on a number together with the numbers of opt-in people."""
    from fractions import Fraction

    from hush.hybrid.mean_estimates import hybrid_mean
    from hush.hybrid.opt_in import OptInNumbers
    from hush.hybrid.promises import Promise

    try:
        numbers = [float(line) for line in _lines(path)]
    except ValueError:
        raise DataError(f"{path}: expected one number on each line") from None
    bounds = (float(Fraction(asked.body[name])) for name in ("lower", "upper"))
    path_of = None if ledger is None else str(ledger)
    promise = Promise(epsilon=asked.epsilon, delta=asked.delta, ledger=path_of, release=asked.name)
    return hybrid_mean(OptInNumbers(numbers, *bounds), counts, promise)


def _typed(asked: Any, value: tuple[str, ...], where: str) -> Any:
    """A value as the question takes it; never quoted in a message."""
    if asked.kind == "records":
        return value
    if len(value) != 1 and asked.kind != "cluster":
        raise HushError(f"{where}this question takes one value")
    if asked.kind == "choice":
        return value[0]
    try:
        numbers = [float(part) for part in value]
    except ValueError:
        raise HushError(f"{where}this question takes numbers") from None
    return numbers if asked.kind == "cluster" else numbers[0]
