r"""Column chances: how often people ask for each column, how that drifts, and sets of columns drawn from it.

A set S of k columns has the probability proportional to prod_{i in S} p_i. It is drawn column by column: with
e_j(m) the sum of such products over sets of m columns from the j-th on, column j is in with the probability
p_j e_{j+1}(m - 1) / e_j(m), so that no list of sets is made.

Drift gamma reorders the masses and leaves their sizes. With columns sorted by mass, i = 1 .. d, and u_i uniform,

    key_i = (1 - 2 gamma) (d - i) / (d - 1) + (1 - |1 - 2 gamma|) u_i,

the column in place j gets the mass of the column with the j-th largest key: drift 0 changes nothing, 1/2 is a random
order, 1 the reverse.

Reference: [Avent 2023, sec. 4.5]. Differs from it: sets are drawn by the product law. Drawing one column after the
other without replacement follows another law, which is offered too; the paper does not distinguish the two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.domain import Clique
from hush.core.errors import WorkloadError, shown
from hush.core.validation import check_choice, check_number, check_whole, is_number

DRAW_LAWS = ("product", "successive")
MOST_LISTED = 200_000  # sets that are listed to draw different ones


@dataclass(frozen=True, slots=True)
class ColumnChances:
    """How likely each column is to be asked for; the masses add up to one.

    >>> chances = ColumnChances.geometric(("age", "sex", "region", "income"))
    >>> [round(mass, 3) for mass in chances.masses]
    [0.366, 0.274, 0.206, 0.154]
    >>> chances.drifted(1.0, seed=0).masses == chances.masses[::-1], round(chances.distance(chances.drifted(1.0)), 3)
    (True, 0.28)
    """

    columns: Clique
    masses: tuple[float, ...]

    def __post_init__(self) -> None:
        masses = tuple(float(mass) if is_number(mass) else math.nan for mass in self.masses)
        if len(self.columns) != len(masses) or len(set(self.columns)) != len(masses) or not masses:
            raise WorkloadError(f"{len(masses)} masses for the columns {shown(self.columns)}: expected one for each")
        if not all(math.isfinite(mass) and mass > 0 for mass in masses):
            raise WorkloadError(f"masses {shown(self.masses)}: expected finite numbers above 0")
        total = math.fsum(masses)
        object.__setattr__(self, "masses", tuple(mass / total for mass in masses))

    @classmethod
    def uniform(cls, columns: Iterable[str]) -> ColumnChances:
        """Every column equally likely."""
        names = _shuffled(columns, None)
        return cls(names, (1.0,) * len(names))

    @classmethod
    def zipf(cls, columns: Iterable[str], exponent: float = 1.0, *, seed: int | None = None) -> ColumnChances:
        """Mass 1 / i^exponent for the i-th column, in the order given, or in a random one with a seed."""
        check_number(WorkloadError, "exponent", exponent, least=0, below=100)
        names = _shuffled(columns, seed)
        return cls(names, tuple(i**-exponent for i in range(1, len(names) + 1)))

    @classmethod
    def geometric(cls, columns: Iterable[str], chance: float = 0.25, *, seed: int | None = None) -> ColumnChances:
        """Mass (1 - chance)^i for the i-th column, in the order given, or in a random one with a seed."""
        check_number(WorkloadError, "chance", chance, above=0, below=1)
        names = _shuffled(columns, seed)
        return cls(names, tuple((1 - chance) ** i for i in range(len(names))))

    @classmethod
    def given(cls, masses: Mapping[str, float]) -> ColumnChances:
        """The masses of a mapping, which need not add up to one."""
        if not isinstance(masses, Mapping):
            raise WorkloadError(f"masses {shown(masses)}: expected one for each column, such as {{'age': 2, 'sex': 1}}")
        return cls(tuple(masses), tuple(masses.values()))

    @classmethod
    def of_history(cls, columns: Iterable[str], asked: Iterable[tuple[Clique, float]]) -> ColumnChances:
        """How often each column was asked for, by cliques with their weights, plus a half for each column.

        >>> ColumnChances.of_history(("a", "b"), [(("a",), 1.0)]).masses
        (0.75, 0.25)
        """
        masses = dict.fromkeys(columns, 0.5)
        for clique, times in asked:
            for name in clique:
                if name not in masses:
                    raise WorkloadError(
                        f"the history asks for {shown(name)}, which is none of the columns; list it too"
                    )
                masses[name] += times
        return cls.given(masses)

    def drifted(self, gamma: float, *, seed: int = 0) -> ColumnChances:
        """The chances after a drift: the same masses on other columns; see the module."""
        check_number(WorkloadError, "drift", gamma, least=0, most=1, hint=": 0 changes nothing, 1 is the reverse")
        d = len(self.columns)
        if d == 1:
            return self
        order = sorted(range(d), key=lambda index: (-self.masses[index], index))
        u = _generator(seed).random(d)
        keys = (1 - 2 * gamma) * (d - np.arange(1, d + 1)) / (d - 1) + (1 - abs(1 - 2 * gamma)) * u
        moved = [0.0] * d
        for place, source in enumerate(np.argsort(-keys, kind="stable").tolist()):
            moved[order[place]] = self.masses[order[source]]
        return ColumnChances(self.columns, tuple(moved))

    def distance(self, other: ColumnChances) -> float:
        """The total variation 1/2 sum |p - q|: 0 for the same chances, at most 1."""
        theirs = dict(zip(other.columns, other.masses, strict=True))
        if set(theirs) != set(self.columns):
            raise WorkloadError("chances of other columns cannot be compared; give both over the same columns")
        return math.fsum(abs(p - theirs[name]) for name, p in zip(self.columns, self.masses, strict=True)) / 2

    def sets(
        self, size: int, draws: int, *, seed: int = 0, different: bool = False, law: str = "product"
    ) -> list[Clique]:
        """Sets of columns in the order drawn; `different` draws each at most once.

        `law="successive"` draws one column after the other from those that are left.
        """
        d = len(self.columns)
        check_whole(WorkloadError, "size", size, least=1, most=d, hint=", the columns that have chances")
        check_whole(WorkloadError, "draws", draws, least=1)
        check_choice(WorkloadError, "law", law, DRAW_LAWS)
        if different and draws > math.comb(d, size):
            raise WorkloadError(
                f"{draws:,} different sets of {size} of {d} columns: there are {math.comb(d, size):,}; draw fewer"
            )
        random = _generator(seed)
        if different and math.comb(d, size) <= MOST_LISTED and law == "product":
            # Drawing without replacement takes the largest log probabilities plus Gumbel noise.
            listed = np.array(list(itertools.combinations(range(d), size)))
            keys = np.log(self.masses)[listed].sum(axis=1) + random.gumbel(size=len(listed))
            return [tuple(self.columns[i] for i in listed[row]) for row in np.argsort(-keys)[:draws].tolist()]
        # sums[j, m] is e_j(m), the sum of products over sets of m columns from the j-th on.
        sums = np.zeros((d + 1, size + 1))
        sums[:, 0] = 1.0
        for index in range(d - 1, -1, -1):
            sums[index, 1:] = sums[index + 1, 1:] + self.masses[index] * sums[index + 1, :-1]
        drawn: list[Clique] = []
        seen: set[Clique] = set()
        while len(drawn) < draws:
            chosen: list[int] = []
            if law == "product":
                for index, mass in enumerate(self.masses):
                    left = size - len(chosen)
                    if left and random.random() * sums[index, left] < mass * sums[index + 1, left - 1]:
                        chosen.append(index)
            else:
                chosen = sorted(random.choice(d, size, replace=False, p=self.masses, shuffle=False).tolist())
            columns = tuple(self.columns[index] for index in chosen)
            if not (different and columns in seen):
                drawn.append(columns)
            seen.add(columns)
        return drawn


def checked_seed(seed: int) -> int:
    """The seed; WorkloadError if it is not a whole number of at least 0."""
    return check_whole(WorkloadError, "seed", seed, least=0)


def _shuffled(columns: Iterable[str], seed: int | None) -> Clique:
    if isinstance(columns, str):
        raise WorkloadError(f"columns={shown(columns)}: expected a list of names, such as ['age', 'sex']")
    names: Sequence[str] = tuple(columns)
    return tuple(names) if seed is None else tuple(names[i] for i in _generator(seed).permutation(len(names)))


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(checked_seed(seed)))
