"""Numbers printed in the references, and how to show ours beside them.

Reference: [HDMM, Tables 3.2 to 3.5], expected RMSE at epsilon = 1, and delta = 10^-6 under Gaussian noise.
"""

from __future__ import annotations

import math

from hush.strategies.strategy import NoiseKind

SIGMA = 4.224678889  # of the analytic Gaussian mechanism at sensitivity 1, epsilon = 1, delta = 10^-6
WORSE = 1.01  # ratios above this are marked

ONE_DIMENSION_COLUMNS = ("Identity", "H2", "Privelet", "HB", "OPT_0", "SVDB")
ONE_DIMENSION: dict[NoiseKind, dict[tuple[str, int], tuple[float, ...]]] = {
    NoiseKind.LAPLACE: {
        ("AllRange", 64): (6.63, 11.28, 10.11, 6.63, 5.55, 3.22),
        ("AllRange", 256): (13.11, 16.27, 14.87, 8.90, 8.07, 4.07),
        ("AllRange", 1024): (26.15, 21.83, 20.26, 12.82, 11.08, 4.94),
        ("AllRange", 4096): (52.27, 27.90, 26.18, 16.19, 14.38, 5.82),
        ("Prefix", 64): (8.06, 9.42, 9.37, 8.06, 5.32, 2.89),
        ("Prefix", 256): (16.03, 13.16, 13.09, 8.97, 7.35, 3.50),
        ("Prefix", 1024): (32.02, 17.29, 17.20, 12.87, 9.58, 4.11),
        ("Prefix", 4096): (64.01, 21.77, 21.67, 14.91, 12.20, 4.74),
        ("Width-32", 64): (8.00, 12.02, 11.09, 8.00, 5.88, 2.75),
        ("Width-32", 256): (8.00, 15.50, 13.57, 7.41, 6.34, 3.26),
        ("Width-32", 1024): (8.00, 18.98, 16.56, 9.50, 6.41, 3.36),
        ("Width-32", 4096): (8.00, 22.45, 19.58, 10.96, 6.46, 3.38),
        ("Permuted", 64): (6.63, 25.02, 18.97, 6.63, 5.55, 3.22),
        ("Permuted", 256): (13.11, 66.25, 49.09, 18.48, 8.06, 4.07),
        ("Permuted", 1024): (26.15, 157.50, 117.06, 37.07, 11.08, 4.94),
        ("Permuted", 4096): (52.27, 374.29, 277.42, 107.83, 14.37, 5.82),
    },
    NoiseKind.GAUSSIAN: {
        ("AllRange", 64): (19.82, 12.74, 11.42, 19.82, 9.73, 9.62),
        ("AllRange", 256): (39.18, 16.20, 14.81, 18.80, 12.26, 12.15),
        ("AllRange", 1024): (78.13, 19.66, 18.24, 27.07, 14.85, 14.75),
        ("AllRange", 4096): (156.14, 23.12, 21.69, 27.92, 17.46, 17.38),
        ("Prefix", 64): (24.08, 10.64, 10.58, 24.08, 8.87, 8.62),
        ("Prefix", 256): (47.89, 13.11, 13.03, 18.95, 10.66, 10.44),
        ("Prefix", 1024): (95.64, 15.57, 15.49, 27.18, 12.49, 12.29),
        ("Prefix", 4096): (191.21, 18.03, 17.95, 25.72, 14.32, 14.15),
        ("Width-32", 64): (23.90, 13.57, 12.52, 23.90, 8.74, 8.23),
        ("Width-32", 256): (23.90, 15.44, 13.52, 15.65, 9.93, 9.73),
        ("Width-32", 1024): (23.90, 17.10, 14.92, 20.08, 10.08, 10.02),
        ("Width-32", 4096): (23.90, 18.60, 16.22, 18.90, 10.11, 10.09),
        ("Permuted", 64): (19.82, 28.26, 21.42, 19.82, 9.73, 9.62),
        ("Permuted", 256): (39.18, 65.97, 48.88, 39.04, 12.26, 12.15),
        ("Permuted", 1024): (78.13, 141.86, 105.44, 78.30, 14.85, 14.75),
        ("Permuted", 4096): (156.14, 310.11, 229.85, 185.98, 17.45, 17.38),
    },
}

SEARCHED_COLUMNS = {NoiseKind.LAPLACE: ("GreedyH", "LRM"), NoiseKind.GAUSSIAN: ("GreedyH", "COA")}
SEARCHED: dict[NoiseKind, dict[tuple[str, int], tuple[float, float]]] = {  # strategies that others search for
    NoiseKind.LAPLACE: {
        ("AllRange", 64): (6.34, 7.02),
        ("AllRange", 256): (9.72, 15.73),
        ("AllRange", 1024): (14.70, math.nan),
        ("Prefix", 64): (6.04, 7.67),
        ("Prefix", 256): (9.13, 12.64),
        ("Prefix", 1024): (14.32, 15.43),
        ("Width-32", 64): (7.32, 9.44),
        ("Width-32", 256): (8.00, 25.81),
        ("Width-32", 1024): (8.00, 16.98),
        ("Permuted", 64): (6.83, 7.02),
        ("Permuted", 256): (13.02, 15.73),
        ("Permuted", 1024): (23.94, math.nan),
    },
    NoiseKind.GAUSSIAN: {
        ("AllRange", 64): (14.64, 9.73),
        ("AllRange", 256): (23.34, 12.26),
        ("AllRange", 1024): (36.20, 14.89),
        ("Prefix", 64): (14.04, 8.87),
        ("Prefix", 256): (22.11, 10.70),
        ("Prefix", 1024): (35.59, 16.29),
        ("Width-32", 64): (17.30, 8.79),
        ("Width-32", 256): (23.90, 12.24),
        ("Width-32", 1024): (23.90, 16.00),
        ("Permuted", 64): (16.13, 9.73),
        ("Permuted", 256): (35.22, 12.26),
        ("Permuted", 1024): (60.60, 14.89),
    },
}

MANY_DIMENSIONS_COLUMNS = ("Identity", "direct", "OPT_kron", "OPT_+", "OPT_M", "HDMM", "SVDB")
MANY_DIMENSIONS: dict[NoiseKind, dict[str, tuple[float, ...]]] = {
    NoiseKind.LAPLACE: {
        "SF1": (23.20, 70.71, 7.30, 30.55, 9.56, 7.30, math.nan),
        "SF1+": (32.50, 141.42, 10.23, 42.31, 12.88, 10.23, math.nan),
        "CPS all marginals": (5.38, 45.25, 4.85, 4.85, 4.84, 4.84, 2.63),
        "CPS prefix": (98.06, 56568.54, 40.59, 40.59, 69.38, 40.59, 9.32),
        "Adult <=3D": (5352117.26, 664.68, 872.58, 306.33, 225.35, 225.35, 15.08),
        "Adult 2D prefix": (475602516.60, 138602.83, 1119.16, 484.07, 553.56, 484.07, math.nan),
        "Loans small": (3330650.46, 265.87, 654.35, 204.17, 100.92, 100.92, 11.61),
        "Loans small prefix": (15340082.96, 11013.90, 1707.67, 485.67, 288.29, 288.29, math.nan),
    },
    NoiseKind.GAUSSIAN: {
        "SF1": (69.33, 29.87, 9.80, 75.66, 14.31, 9.80, math.nan),
        "SF1+": (97.08, 42.25, 10.90, 84.16, 15.88, 10.90, math.nan),
        "CPS all marginals": (16.08, 23.90, 7.85, 7.85, 7.86, 7.85, 7.85),
        "CPS prefix": (292.93, 844.94, 29.48, 29.49, 104.09, 29.48, 27.85),
        "Adult <=3D": (15988375.02, 91.59, 82.42, 899.04, 46.44, 46.44, 45.06),
        "Adult 2D prefix": (1420766966.19, 1322.58, 126.17, 639.43, 296.12, 126.17, math.nan),
        "Loans small": (9949649.11, 57.92, 81.51, 631.40, 34.91, 34.91, 34.67),
        "Loans small prefix": (45825415.90, 372.83, 132.43, 994.04, 99.72, 99.72, math.nan),
    },
}


def rmse(noise: NoiseKind, error: float, queries: float) -> float:
    """sqrt(2 E / m) at epsilon = 1, or sigma sqrt(E / m)."""
    return math.sqrt(error / queries) * (SIGMA if noise is NoiseKind.GAUSSIAN else math.sqrt(2))


def number(value: float) -> str:
    """Two decimals, or six digits for large values; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if abs(value) < 1e5 else f"{value:.6g}"


def beside(printed: float, ours: float) -> str:
    """printed / ours, their ratio, and a mark if ours is more than 1 % above."""
    if math.isnan(printed) or math.isnan(ours):
        return f"{number(printed)} / {number(ours)}"
    ratio = ours / printed
    return f"{number(printed)} / {number(ours)} ({ratio:.3f}){' **above**' if ratio > WORSE else ''}"


def line(*cells: object) -> None:
    """One row of a table in Markdown."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(title: str, *columns: str) -> None:
    """A title and the first rows of a table in Markdown."""
    print(f"\n{title}\n")
    line(*columns)
    line(*("---" for _ in columns))
