"""Draws: queries that were drawn because a set of made-up rows answers them badly; and how files keep them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hush.domain import Domain
from hush.errors import ArchiveError
from hush.release.rounds import Round

MOST_TURNS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw(Round):
    """One query that was drawn: a cell of a table, which has more rows than was thought, or fewer.

    `weight` is 1 for more and -1 for fewer, and `penalty` the count that was thought: the score of a cell is
    weight * (count - penalty). No table was measured, so `stddev` and `misfit` are 0.
    """

    turn: int  # of the game
    cell: int  # of the table, in row-major order


def split_draws(entries: Any) -> tuple[list[dict[str, Any]], list[tuple[Any, Any]]]:
    """Stored draws as entries of plain rounds, and the turn and cell of each."""
    if not isinstance(entries, list) or not all(
        isinstance(one, dict) and {"turn", "cell"} <= set(one) for one in entries
    ):
        raise ArchiveError("a draw of the file cannot be read; get the release again")
    plain = [{name: value for name, value in one.items() if name not in ("turn", "cell")} for one in entries]
    return plain, [(one["turn"], one["cell"]) for one in entries]


def join_draws(domain: Domain, rounds: list[Round], places: list[tuple[Any, Any]]) -> list[Draw]:
    """The draws again, refusing cells that their tables do not have and turns out of order."""
    made: list[Draw] = []
    for one, (turn, cell) in zip(rounds, places, strict=True):
        earlier = made[-1].turn if made else 2
        whole = type(turn) is int and type(cell) is int
        if not whole or not earlier <= turn < MOST_TURNS or not 0 <= cell < domain.size(one.clique):
            raise ArchiveError("the file's draws are of cells that it does not have; get the release again")
        if one.weight not in (1.0, -1.0) or not one.epsilon > 0:
            raise ArchiveError("a draw of the file cannot be read; get the release again")
        made.append(Draw(**asdict(one), turn=turn, cell=cell))
    return made
