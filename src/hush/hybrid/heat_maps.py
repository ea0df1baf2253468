"""Heat maps of hybrid means: the gain by epsilon and by the share who opt in, and epsilon against outsiders.

Nothing reads data. Each number of a map is a closed form of `mean_errors`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hush.core.errors import DataError
from hush.hybrid.mean_errors import MeanSetting, amplified_epsilon
from hush.render.charts import CHART_WIDTH, TICK_SIZE, WHITE_TEXT_SHADE, picture, swatch
from hush.render.labels import width
from hush.render.markup import Markup, tag

SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
COALITIONS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99)
CELL_HEIGHT, TOP = 24.0, 36.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Numbers over two settings: `rows` down, `columns` across, and a number for each pair."""

    title: str
    down: str
    across: str
    rows: tuple[float, ...]
    columns: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(
        cls,
        title: str,
        down: tuple[str, Sequence[float]],
        across: tuple[str, Sequence[float]],
        value: Callable[[float, float], float],
    ) -> HeatMap:
        """The map of a function of both settings, each given by its name and its values."""
        (row_name, rows), (column_name, columns) = down, across
        if not rows or not columns:
            raise DataError(f"{row_name} and {column_name}: expected at least one value each")
        values = tuple(tuple(value(row, column) for column in columns) for row in rows)
        return cls(
            title=title, down=row_name, across=column_name, rows=tuple(rows), columns=tuple(columns), values=values
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {self.down: list(self.rows), self.across: list(self.columns), self.title: [list(v) for v in self.values]}

    def chart(self, number: int) -> Markup:
        """The map as a picture with its numbers; `number` tells the charts of a page apart."""
        labels = [f"{row:g}" for row in self.rows]
        left = max(width(label, TICK_SIZE) for label in labels) + 20
        wide = (CHART_WIDTH - left) / len(self.columns)
        largest = max(max(row) for row in self.values)
        content = [
            tag("text", self.across, x=left + wide * len(self.columns) / 2, y=12, class_="mark mid"),
            tag("text", self.down, x=left - 6, y=TOP - 6, class_="mark end"),
        ]
        content += [
            tag("text", f"{column:g}", x=left + wide * (j + 0.5), y=TOP - 6, class_="mark mid")
            for j, column in enumerate(self.columns)
        ]
        for i, (label, row) in enumerate(zip(labels, self.values, strict=True)):
            y = TOP + CELL_HEIGHT * i
            content.append(tag("text", label, x=left - 6, y=y + CELL_HEIGHT / 2 + 4, class_="mark end"))
            for j, value in enumerate(row):
                shade = value / largest if largest > 0 else 0.0
                content.append(swatch(left + wide * j, y, wide - 1, CELL_HEIGHT - 1, shade))
                colour = "mid deep" if shade > WHITE_TEXT_SHADE else "mid pale"
                place = {"x": left + wide * (j + 0.5), "y": y + CELL_HEIGHT / 2 + 4}
                content.append(tag("text", f"{value:.3g}", **place, class_=colour))
        ends = f"from {min(map(min, self.values)):.3g} to {largest:.3g}"
        described = f"{self.title}, by {self.down} and {self.across}: {ends}."
        return picture(self.title, described, number, TOP + CELL_HEIGHT * len(self.rows), *content)


def gain_map(
    people: float,
    variance: float,
    *,
    width: float = 1.0,
    shares: Sequence[float] = SHARES,
    epsilons: Sequence[float] = EPSILONS,
    weight: str = "best",
    setting: Callable[[float, float], MeanSetting] | None = None,
) -> HeatMap:
    """How many times smaller the squared error of both groups is than that of the better group alone.

    `weight` is "best" or "privacy". Both groups add Laplace noise, unless `setting` gives another setting for a share
    and an epsilon.

    Reference: [Avent 2023, Figures 2.13 to 2.16].

    >>> found = gain_map(252_540, (53_254 / 2_349_033) ** 2, shares=[0.001, 0.01], epsilons=[1.0, 3.0])
    >>> [[round(gain, 3) for gain in row] for row in found.values]
    [[1.236, 1.159], [1.065, 1.27]]
    """
    if weight not in ("best", "privacy"):
        raise DataError(f"weight={weight!r}: expected 'best' or 'privacy'")

    def gain(share: float, epsilon: float) -> float:
        if setting is None:
            here = MeanSetting.laplace(people=people, share=share, epsilon=epsilon, variance=variance, width=width)
        else:
            here = setting(share, epsilon)
        return here.gain(here.best_weight if weight == "best" else here.privacy_weight)

    return HeatMap.of("gain", ("share", shares), ("epsilon", epsilons), gain)


def amplification_map(
    people: float,
    variance: float,
    *,
    epsilon: float,
    delta: float,
    width: float = 1.0,
    shares: Sequence[float] = SHARES,
    coalitions: Sequence[float] = COALITIONS,
    group: str = "joint",
) -> HeatMap:
    """Epsilon against someone who sees only a mean with Gaussian noise of both groups, at the best weight.

    `group` is "opt_in", "clients" or "joint".

    Reference: [Avent 2023, Figure 2.18].

    >>> found = amplification_map(100_000, 1 / 16, epsilon=1.0, delta=1e-6, shares=[0.01], coalitions=[0.0, 0.99])
    >>> [round(epsilon, 2) for epsilon in found.values[0]]
    [0.56, 0.99]
    """
    if group not in ("opt_in", "clients", "joint"):
        raise DataError(f"group={group!r}: expected 'opt_in', 'clients' or 'joint'")

    def seen(share: float, coalition: float) -> float:
        promised: dict[str, Any] = {"people": people, "share": share, "epsilon": epsilon, "delta": delta}
        best = MeanSetting.gaussian(**promised, variance=variance, width=width).best_weight
        value = getattr(amplified_epsilon(**promised, weight=best, coalition=coalition), group)
        return float(value) if math.isfinite(value) else epsilon

    return HeatMap.of("epsilon seen", ("share", shares), ("coalition", coalitions), seen)
