"""Compare the hybrid room with the figures it was built to: head lists, means, K-means, and the rate of estimation.

(a) An invented log of 519,371 people, 5 % opt-in, delta 1e-5: our blend, opt-in people and clients alone, the
    document's form (95 % of opt-in people find the list, clients answer in two stages with the budget split), and
    LDPMiner, by which clients alone find and count a list.
(b) Means: gains under Beta laws beside those recomputed apart from this code by the document's formulas, and with
    better client laws.
(c) K-means: four clusters of 40,000 points at epsilon 7, beside the figures of an earlier run of the same design.
(d) Reports estimated in one second.

Run: python -m benchmarks.hybrid [a b c d] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

from benchmarks.head_list_scores import scores as scores_of
from benchmarks.local_miner import mined_shares
from hush.hybrid import Promise, Question, collect, estimate
from hush.hybrid.blender_simulation import l1_distance, search_log, simulate_blender
from hush.hybrid.kmeans import OptInPoints, SimulatedClients, hybrid_kmeans, wcss
from hush.hybrid.mean_errors import MeanSetting, client_noise
from hush.hybrid.simulated_reports import generator_of, unary_reports

EPSILONS = (1, 2, 3, 4, 6)
EARLIER_L1 = {
    50: dict(zip(EPSILONS, (0.086, 0.057, 0.029, 0.0174, 0.0053), strict=True)),
    10: dict(zip(EPSILONS, (0.0172, 0.0090, 0.0044, 0.0023, 0.0010), strict=True)),
}
EARLIER_NDCG = {
    10: dict(zip(EPSILONS, (0.825, 0.905, 0.917, 0.940, 0.953), strict=True)),
    50: dict(zip(EPSILONS, (0.519, 0.782, 0.907, 0.973, 0.994), strict=True)),
}
EARLIER_WCSS = {
    (0.001, 1): (351, 258, 260),
    (0.001, 3): (954, 319, 308),
    (0.001, 5): (2817, 695, 556),
    (0.001, 8): (6124, 2106, 1351),
    (0.01, 1): (253, 258, 253),
    (0.01, 3): (259, 319, 261),
    (0.01, 5): (279, 695, 286),
    (0.01, 8): (303, 2106, 308),
}
RECOMPUTED_GAINS = {  # (law, share, epsilon): best weight and privacy weight, each at 1e3, 1e4 and 1e5 people
    (10, 0.005, 0.1): ((1.020, 1.244, 1.410), (1.020, 1.244, 1.410)),
    (10, 0.005, 1.0): ((1.020, 1.190, 1.634), (1.020, 1.178, 1.124)),
    (10, 0.05, 0.1): ((1.381, 1.039, 1.005), (1.381, 1.039, 1.005)),
    (10, 0.05, 1.0): ((1.499, 1.157, 1.123), (1.479, 1.070, 1.008)),
    (1, 0.005, 0.1): ((1.020, 1.240, 1.481), (1.020, 1.240, 1.471)),
    (1, 0.005, 1.0): ((1.017, 1.083, 1.120), (1.017, 0.889, 0.222)),
    (1, 0.05, 0.1): ((1.388, 1.046, 1.012), (1.388, 1.045, 1.007)),
    (1, 0.05, 1.0): ((1.856, 1.871, 1.837), (1.451, 1.080, 1.008)),
    (0.1, 0.005, 0.1): ((1.020, 1.233, 1.606), (1.020, 1.233, 1.550)),
    (0.1, 0.005, 1.0): ((1.015, 1.044, 1.052), (1.012, 0.623, 0.092)),
    (0.1, 0.05, 0.1): ((1.401, 1.059, 1.025), (1.400, 1.052, 1.007)),
    (0.1, 0.05, 1.0): ((1.454, 1.546, 1.557), (0.776, 0.535, 0.508)),
}
DOCUMENT = {"form": "two-stage", "spend_slack": False, "discovery_share": 0.95}


def head_lists(console: Console, runs: int) -> None:
    table = Table("M", "epsilon", "found", "l1", "earlier", "l1 with missed", "opt-in", "clients", "document's form",
                  "LDPMiner with missed",
                  "NDCG 10", "earlier", "at best", "opt-in", "document's form",
                  title=f"(a) head lists, means of {runs} runs")  # fmt: skip
    logs = [search_log(seed=seed) for seed in range(runs)]
    for most in (10, 50, 500):
        for epsilon in EPSILONS:
            promise = Promise.of(epsilon, 1e-5)
            settings = {"opt_in_share": 0.05, "most_queries": most}
            ours = [simulate_blender(log, promise, seed=seed, **settings) for seed, log in enumerate(logs)]
            theirs = [
                simulate_blender(log, promise, seed=seed, **settings, **DOCUMENT) for seed, log in enumerate(logs)
            ]
            mine = [scores_of(run) for run in ours]
            other = [scores_of(run) for run in theirs]
            mean = {key: float(np.mean([scores[key] for scores in mine])) for key in mine[0]}
            document = {key: float(np.mean([scores[key] for scores in other])) for key in other[0]}
            found = np.mean([len(run.blended.queries) for run in ours])
            missed = []
            for seed, log in enumerate(logs):
                shares, true = mined_shares(log, epsilon, most_queries=most, seed=seed), log.true_shares(5000)
                head = {*shares, *list(true)[:most]}
                missed.append(l1_distance(shares, {query: sum(true.get(query, {}).values()) for query in head}))
            table.add_row(
                str(most), str(epsilon), f"{found:.0f}", f"{mean['l1']:.4f}",
                str(EARLIER_L1.get(most, {}).get(epsilon, "")), f"{mean['l1 head']:.4f}", f"{mean['l1 opt-in']:.4f}",
                f"{mean['l1 clients']:.4f}", f"{document['l1']:.4f}", f"{np.mean(missed):.4f}", f"{mean['NDCG']:.3f}",
                str(EARLIER_NDCG.get(most, {}).get(epsilon, "")), f"{mean['NDCG at best']:.3f}",
                f"{mean['NDCG opt-in']:.3f}", f"{document['NDCG']:.3f}",
            )  # fmt: skip
    console.print(table)
    console.print(
        "at best: the list that was found, in perfect order. What it lacks to 1 was found by nobody: at epsilon"
    )
    console.print(
        "1 a record needs about 24 of the people who look for it, and second URLs of most queries have fewer."
    )


def means(console: Console) -> None:
    headings = (
        "law",
        "share",
        "epsilon",
        "people",
        "best weight",
        "recomputed",
        "privacy weight",
        "recomputed",
        "better law",
    )
    table = Table(
        *headings, title="(b) means: times less error than the better baseline; last: with Laplace over with ours"
    )
    for (a, share, epsilon), recomputed in RECOMPUTED_GAINS.items():
        variance = 1 / (4 * (2 * a + 1))
        for i, people in enumerate((1e3, 1e4, 1e5)):
            s = MeanSetting.laplace(people=people, share=share, epsilon=epsilon, variance=variance)
            laws = [
                replace(s, client_noise=client_noise(epsilon, mechanism=law, variance=variance))
                for law in ("duchi", "piecewise")
            ]
            least = min(one.error(one.best_weight).total for one in laws)
            gains = (s.gain(s.best_weight), recomputed[0][i], s.gain(s.privacy_weight), recomputed[1][i])
            ratio = s.error(s.best_weight).total / least
            cells = (f"Beta({a:g})", f"{share:g}", f"{epsilon:g}", f"{people:g}")
            table.add_row(*cells, *(f"{gain:.3f}" for gain in gains), f"{ratio:.3f}")
    console.print(table)


def clusters(console: Console, runs: int) -> None:
    centres = np.array([[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]])
    table = Table("opt-in", "rounds", "curator", "earlier", "clients", "earlier", "hybrid", "earlier",
                  title=f"(c) K-means: mean WCSS of {runs} runs at epsilon 7")  # fmt: skip
    for (share, rounds), (curator, alone, both) in EARLIER_WCSS.items():
        scores: list[tuple[float, ...]] = []
        for seed in range(runs):
            generator = generator_of(seed)
            points = np.concatenate([centre + 0.028 * generator.normal(size=(40_000, 2)) for centre in centres])
            points = generator.permutation(points).clip(0, 1)
            start = centres + generator.uniform(-0.1, 0.1, (4, 2))
            cut = int(share * len(points))
            promise, epsilon = Promise.of(7), Fraction(7, rounds + 1)
            opt_in = OptInPoints(points[:cut], 0, 1)
            clients = SimulatedClients(points[cut:], 0, 1, epsilon=epsilon, generator=generator)
            everybody = SimulatedClients(points, 0, 1, epsilon=epsilon, generator=generator)
            groups: list[dict[str, object]] = [
                {"opt_in": opt_in},
                {"clients": everybody},
                {"opt_in": opt_in, "clients": clients},
            ]
            scores.append(tuple(wcss(points, hybrid_kmeans(start, rounds, promise, **one)) for one in groups))
        a, b, c = np.mean(scores, axis=0)
        table.add_row(
            f"{share:.1%}", str(rounds), f"{a:.0f}", str(curator), f"{b:.0f}", str(alone), f"{c:.0f}", str(both)
        )
    console.print(table)


def rate(console: Console) -> None:
    table = Table("reports", "source", "cells", "seconds", title="(d) a million reports, checked and estimated")
    people = 1_000_000
    ids = [os.urandom(16).hex() for _ in range(people)]
    with tempfile.TemporaryDirectory() as folder:
        for question in (
            Question.choice("list", [f"q{i}" for i in range(500)], epsilon=8, other=True, mechanism="kary"),
            Question.choice("list", [f"q{i}" for i in range(512)], epsilon=1, mechanism="unary"),
            Question.number("number", 0, 1, epsilon=1),
        ):
            generator = generator_of(1)
            if question.mechanism == "unary":
                held = generator.integers(0, 512, people)
                packed = np.concatenate(
                    [unary_reports(question.law, part, generator) for part in np.array_split(held, 40)]
                )
                hexed = packed.tobytes().hex()
                values = [hexed[i : i + 128] for i in range(0, len(hexed), 128)]
            else:
                values = generator.integers(0, 2, people).tolist()
            columns = {"version": [1] * people, "question": [question.id] * people, "id": ids, "value": values}
            path = Path(folder, f"{question.mechanism}.parquet")
            pa.parquet.write_table(pa.table(columns), path)
            lines = Path(folder, f"{question.mechanism}.jsonl")
            with lines.open("w") as file:
                for identifier, value in zip(ids, values, strict=True):
                    file.write(
                        f'{{"hush":"report","version":1,"question":"{question.id}","id":"{identifier}",'
                        f'"value":{json.dumps(value)}}}\n'
                    )
            for source in (pa.table(columns), path, lines):
                collect(question, pa.table({name: column[:10] for name, column in columns.items()}))  # warm-up
                start = time.perf_counter()
                found = estimate(collect(question, source))
                seconds = time.perf_counter() - start
                assert found is not None
                cells = 512 if question.mechanism == "unary" else 501
                name = source.suffix if isinstance(source, Path) else "Arrow table"
                table.add_row(f"{people:,} {question.mechanism}", name, str(cells), f"{seconds:.2f}")
                if question.mechanism == "unary" and not isinstance(source, Path):
                    ours, theirs = people * 512 / seconds, 5000 * 512 / 1.7
                    console.print(
                        f"unary: {ours:.3g} cells/s, {ours / theirs:,.0f} times multi-freq-ldpy (5,000 x 512 in 1.7 s)"
                    )
            del values, columns
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["a", "b", "c", "d"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="means and K-means alone, one run")
    options = parser.parse_args()
    if options.quick:
        options.parts, options.runs = ["b", "c"], 1
    console = Console(width=max(150, Console().width))
    start = time.perf_counter()
    for part in options.parts:
        if part == "a":
            head_lists(console, options.runs)
        elif part == "b":
            means(console)
        elif part == "c":
            clusters(console, options.runs)
        else:
            rate(console)
    console.print(f"{math.ceil(time.perf_counter() - start)} s")


if __name__ == "__main__":
    main()
