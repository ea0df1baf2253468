"""Bayesian choice: the settings that are expected to move the front most, as a Gaussian process predicts their error.

Epsilon is exact, so it is a feature of the process beside the settings. Where the privacy oracle is slow, a second
process without noise predicts log epsilon, and the oracle itself is asked only about the few best candidates.

Differs from [DPareto, Alg. 3.2]: epsilon, which is known, is not modelled; the score is the expected improvement of the
hypervolume itself, in closed form; the current front consists of predicted means at the evaluated settings, so that a
lucky run does not hide better settings; and a point on the front that owes its place to luck is evaluated again.
`method="hvpoi"` is the paper's rule: two processes, log epsilon and logit error, and HVPoI.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SearchError, shown
from hush.core.validation import check_choice
from hush.pareto.evaluation import Evaluation, PrivacyOracle, epsilon_of, merged
from hush.pareto.gaussian_process import GaussianProcess, Hyperparameters
from hush.pareto.hypervolume import expected_improvement, front_indices, hvpoi, step_values
from hush.pareto.space import ChoiceSetting, Settings, Space

Method: TypeAlias = Literal["improvement", "hvpoi"]


@dataclass(frozen=True)
class CandidateCounts:
    """How many candidates are compared for one choice, and at which distances from each other."""

    anywhere: int = 384  # drawn from the whole space
    near_front: int = 256  # drawn around points of the front
    front_steps: tuple[float, ...] = (0.015, 0.05, 0.15)  # standard deviations of their distance
    best: int = 8  # kept in each round of refinement
    around_best: int = 16  # drawn around each of them
    refinement_steps: tuple[float, ...] = (0.1, 0.03)  # standard deviation of their distance, in each round
    exact: int = 3  # whose epsilon is computed exactly, where that is slow


CANDIDATES = CandidateCounts()
POOL, QUICK_POOL = 8, 16  # points drawn for each initial one; those within the reference are used
LEAST_ERROR = 1e-6  # logit errors are clipped to this and to 1 minus this
INITIAL_EPSILON_RATIO = (
    10.0  # initial epsilons lie between the reference and a tenth of it: there, settings matter most
)
LARGEST_EXCESS = 0.5  # errors are capped this far above the front, as a share of the range of the front
LEAST_SPREAD = 0.03  # settings are assumed to move the error by at least this share of the least error
REPEAT_SHARE = 0.15  # the share of choices that may be spent on running points again
PRIOR_RUNS = 5.0  # the pooled variance of runs weighs as much as this many runs of an evaluation
ALWAYS_REFIT = 24  # up to this many evaluations, hyperparameters are fitted each time; then every other time


class BayesianChoice:
    """Chooses initial settings that spread over log epsilon, then by expected improvement."""

    def __init__(
        self,
        space: Space,
        privacy: PrivacyOracle,
        reference: tuple[float, float],
        *,
        initial: int | Sequence[Settings] | None = None,
        method: Method = "improvement",
        seed: int = 0,
    ) -> None:
        check_choice(SearchError, "method", method, ("improvement", "hvpoi"))
        self.space, self.privacy, self.reference = space, privacy, reference
        self.method, self.seed = method, seed
        self.quick = bool(getattr(privacy, "quick", False))
        given = initial if isinstance(initial, Sequence) else ()
        if not all(isinstance(settings, Mapping) for settings in given):
            raise SearchError(f"initial={shown(initial)}: expected a number, or settings such as {{'noise': 1.0}}")
        self.given = [dict(settings) for settings in given]
        for settings in self.given:
            space.places_of(settings)
        default = min(2 * len(space) + 4, 16)
        self.initial: int = default if initial is None else initial if isinstance(initial, int) else len(given)
        if self.initial < 2:
            raise SearchError(f"initial={shown(initial)}: expected at least 2 points to learn from")
        self._pool: tuple[Floats, Floats] | None = None
        self._epsilon_fit: Hyperparameters | None = None
        self._fits: dict[tuple[str, int], Hyperparameters] = {}

    def describe(self) -> dict[str, Any]:
        return {"method": self.method, "initial": self.initial, "given": self.given, "reference": [*self.reference]}

    def next(self, evaluations: Sequence[Evaluation], count: int) -> list[Settings]:
        generator = np.random.Generator(np.random.PCG64([self.seed, 1, len(evaluations)]))
        if len(evaluations) < self.initial:
            return self._initial()[len(evaluations) : min(self.initial, len(evaluations) + count)]
        different = merged(evaluations)
        repeats, chosen = len(evaluations) - len(different), len(evaluations) - self.initial
        may_repeat = repeats < REPEAT_SHARE * chosen and evaluations[-1] in different
        seen = [e for e in different if math.isfinite(e.epsilon)]
        if len(seen) < 2:
            return self.space.settings_at(self.space.draw(count, generator))
        if self.method == "hvpoi":
            return self._by_hvpoi(seen, count, generator)
        return self._by_improvement(seen, count, generator, may_repeat=may_repeat)

    def _initial(self) -> list[Settings]:
        """The given settings; or points of a Latin hypercube within the reference, at equal steps of log epsilon."""
        if self.given:
            return self.given
        drawn, epsilons = self._drawn()
        order = np.argsort(epsilons)
        least = self.reference[0] / INITIAL_EPSILON_RATIO
        within = order[(epsilons[order] < self.reference[0]) & (epsilons[order] >= least)]
        ranked = within if len(within) >= self.initial else order[: self.initial]
        chosen = ranked[np.linspace(0, len(ranked) - 1, self.initial).astype(np.int64)]
        shuffled = np.random.Generator(np.random.PCG64([self.seed, 2])).permutation(chosen)
        return self.space.settings_at(drawn[shuffled])

    def _drawn(self) -> tuple[Floats, Floats]:
        """The points drawn before any evaluation, and their epsilons."""
        if self._pool is None:
            count = (QUICK_POOL if self.quick else POOL) * self.initial
            drawn = self.space.draw(count, np.random.Generator(np.random.PCG64([self.seed, 0])))
            self._pool = drawn, self._exact_epsilons(drawn)
        return self._pool

    def _exact_epsilons(self, places: Floats) -> Floats:
        return np.array([epsilon_of(self.privacy, settings) for settings in self.space.settings_at(places)])

    def _by_improvement(
        self, seen: list[Evaluation], count: int, generator: np.random.Generator, *, may_repeat: bool
    ) -> list[Settings]:
        """The settings of largest expected improvement; or, if it may repeat, those of a doubtful point."""
        # fit a process to the errors and, where the privacy oracle is slow, one to log epsilon
        places = np.array([self.space.places_of(e.settings) for e in seen])
        epsilons = np.array([e.epsilon for e in seen])
        noise = relative_noise(seen)
        features = self._features(places, epsilons)
        values = self._capped_errors(seen)
        process = self._process("error", features, values, noise, LEAST_SPREAD * max(float(values.min()), 0.0))
        epsilon_process = None if self.quick else self._epsilon_process(places, epsilons)
        standard_errors = np.sqrt(min(process.noise, usual_noise(seen)) * noise)
        pairs = np.column_stack([epsilons, process.predict(features)[0]])
        chosen: list[Settings] = []
        for _ in range(count):
            # narrow candidates down: the best of many, then the best of others around them
            candidates = self._candidates(places[front_indices(pairs[: len(places)])], generator)
            for step in CANDIDATES.refinement_steps:
                best = self._ranked(process, epsilon_process, pairs, candidates)[: CANDIDATES.best]
                middles = candidates[best]
                shape = (CANDIDATES.around_best, *middles.shape)
                moved = middles + step * generator.standard_normal(shape) * (generator.random(shape) < 0.5)
                candidates = np.vstack([middles, np.clip(moved, 0.0, 1.0).reshape(-1, middles.shape[1])])
            if epsilon_process is not None:
                candidates = candidates[self._ranked(process, epsilon_process, pairs, candidates)[: CANDIDATES.exact]]
            # the best candidate by exact epsilons; a lucky point of the front may deserve another run instead
            exact = self._exact_epsilons(candidates)
            gains, means = self._gains(process, pairs, candidates, exact)
            winner = int(np.argmax(gains))
            if may_repeat and not chosen:
                doubtful = self._doubtful(seen, pairs[: len(seen)], standard_errors, float(gains[winner]))
                if doubtful is not None:
                    chosen.append(doubtful)
                    continue
            chosen += self.space.settings_at(candidates[[winner]])
            # within a batch, go on as if the prediction had come true
            if len(chosen) < count:
                process = process.believing(self._features(candidates[[winner]], exact[[winner]]), float(means[winner]))
                pairs = np.vstack([pairs, [exact[winner], means[winner]]])
        return chosen

    def _candidates(self, front: Floats, generator: np.random.Generator) -> Floats:
        """Points anywhere, and points near the front, some of whose settings are drawn anew."""
        near = (CANDIDATES.near_front, len(self.space))
        anywhere = generator.random((CANDIDATES.anywhere, len(self.space)))
        middles = front[generator.integers(len(front), size=near[0])]
        steps = generator.choice(CANDIDATES.front_steps, size=(near[0], 1)) * generator.standard_normal(near)
        jump = generator.random(near)
        moved = np.where(jump < 0.1, generator.random(near), middles + steps)
        return np.vstack([anywhere, np.clip(moved, 0.0, 1.0)])

    def _ranked(
        self, process: GaussianProcess, epsilon_process: GaussianProcess | None, pairs: Floats, candidates: Floats
    ) -> Any:
        """Indices of candidates, best first, with epsilons that are predicted where computing them is slow."""
        if epsilon_process is None:
            epsilons = self._exact_epsilons(candidates)
        else:
            epsilons = np.asarray(np.exp(epsilon_process.predict(self._epsilon_features(candidates))[0]))
        return np.argsort(-self._gains(process, pairs, candidates, epsilons)[0])

    def _gains(
        self, process: GaussianProcess, pairs: Floats, candidates: Floats, epsilons: Floats
    ) -> tuple[Floats, Floats]:
        """The expected improvement and the predicted error of each candidate."""
        finite = np.where(np.isfinite(epsilons), epsilons, 10 * self.reference[0])
        mean, deviation = process.predict(self._features(candidates, finite))
        return expected_improvement(pairs, self.reference, finite, mean, deviation), mean

    def _doubtful(self, seen: list[Evaluation], pairs: Floats, errors: Floats, gain: float) -> Settings | None:
        """A point of the observed front whose luck outweighs the improvement expected of a new point.

        Luck is how far the mean of its runs lies below the prediction, at most its standard error, times its width on
        the front. Twice the runs halve the luck.
        """
        observed = np.array([(e.epsilon, e.error if e.usable else math.nan) for e in seen])
        front = front_indices(observed)
        front = front[observed[front, 0] < self.reference[0]]
        if not len(front):
            return None
        widths = np.diff(np.append(observed[front, 0], self.reference[0]))
        luck = widths * np.clip(pairs[front, 1] - observed[front, 1], 0.0, errors[front])
        luckiest = int(np.argmax(luck))
        return dict(seen[front[luckiest]].settings) if luck[luckiest] / 2 > gain else None

    def _by_hvpoi(self, seen: list[Evaluation], count: int, generator: np.random.Generator) -> list[Settings]:
        """The settings of largest HVPoI, with processes for log epsilon and logit error."""
        places = np.array([self.space.places_of(e.settings) for e in seen])
        features = self.space.features(places)
        epsilons = np.log([max(e.epsilon, 1e-12) for e in seen])
        errors = _logit(self._errors(seen))
        processes = self._process("epsilon", features, epsilons), self._process("error", features, errors)
        front = np.column_stack([epsilons, errors])
        reference = (math.log(self.reference[0]), float(_logit(np.array([self.reference[1]]))[0]))
        chosen = []
        for _ in range(count):
            candidates = self._candidates(places[front_indices(front[: len(places)])], generator)
            means, deviations = zip(*(p.predict(self.space.features(candidates)) for p in processes), strict=True)
            best = int(np.argmax(hvpoi(front, reference, (means[0], means[1]), (deviations[0], deviations[1]))))
            chosen += self.space.settings_at(candidates[[best]])
            front = np.vstack([front, [means[0][best], means[1][best]]])
        return chosen

    def _errors(self, seen: list[Evaluation]) -> Floats:
        """The errors to learn from; a failed evaluation has the worst."""
        return np.array([e.error if e.usable else self.reference[1] for e in seen])

    def _capped_errors(self, seen: list[Evaluation]) -> Floats:
        """Errors, capped at `LARGEST_EXCESS` of the front's range above the front at their epsilon.

        How bad hopeless settings are does not matter, and would dominate the scale on which the model compares good
        ones.
        """
        values, epsilons = self._errors(seen), np.array([e.epsilon for e in seen])
        pairs = np.column_stack([epsilons, values])
        front = pairs[front_indices(pairs)]
        best = step_values(front, epsilons)
        return np.minimum(values, best + LARGEST_EXCESS * max(float(np.ptp(front[:, 1])), 1e-9))

    def _features(self, places: Floats, epsilons: Floats) -> Floats:
        """The features of the error process: the settings, and log epsilon with a factor of 1000 as one unit."""
        unit = np.log(np.maximum(epsilons, 1e-12) / self.reference[0]) / math.log(1000.0)
        return np.column_stack([self.space.features(places), unit])

    def _process(
        self, objective: str, features: Floats, values: Floats, noise: Floats | None = None, least_scale: float = 0.0
    ) -> GaussianProcess:
        """A process of these values; beyond `ALWAYS_REFIT` values, hyperparameters are fitted every other time."""
        count = len(values) if len(values) <= ALWAYS_REFIT else len(values) - len(values) % 2
        if (objective, count) not in self._fits:
            fitted = GaussianProcess.fit(
                features[:count],
                values[:count],
                noise=None if noise is None else noise[:count],
                noiseless=objective == "epsilon",
                least_scale=least_scale,
            )
            self._fits[objective, count] = fitted.chosen
        return GaussianProcess(features, values, self._fits[objective, count], noise, least_scale)

    def _epsilon_process(self, places: Floats, epsilons: Floats) -> GaussianProcess:
        """A process for log epsilon, from the points drawn before any evaluation and the evaluated ones."""
        drawn, drawn_epsilons = self._drawn()
        points, values = np.vstack([drawn, places]), np.append(drawn_epsilons, epsilons)
        finite = np.isfinite(values) & (values > 0)
        features, logs = self._epsilon_features(points[finite]), np.log(values[finite])
        if self._epsilon_fit is None:  # from the drawn points alone, so that a resumed search goes on identically
            first = int(finite[: len(drawn)].sum())
            self._epsilon_fit = GaussianProcess.fit(features[:first], logs[:first], noiseless=True).chosen
        return GaussianProcess(features, logs, self._epsilon_fit)

    def _epsilon_features(self, places: Floats) -> Floats:
        """The features of the epsilon process: logarithms of settings, since epsilon is nearly a product of powers."""
        columns = []
        for index, setting in enumerate(self.space):
            if isinstance(setting, ChoiceSetting) or setting.low <= 0:
                columns.append(setting.features(places[:, index]))
            else:
                logs = np.log(setting.values_at(places[:, index]))
                columns.append(((logs - math.log(setting.low)) / math.log(setting.high / setting.low))[:, None])
        return np.concatenate(columns, axis=1)


def relative_noise(seen: Sequence[Evaluation]) -> Floats:
    """The variance of each mean error, relative to a usual one; shrunk to the pooled variance where runs are few."""
    counts = np.array([max(len(e.errors), 1) for e in seen], dtype=np.float64)
    variances = np.array([e.deviation**2 if len(e.errors) > 1 else math.nan for e in seen])
    pooled = float(np.nanmean(variances)) if np.isfinite(variances).any() else 1.0
    if pooled <= 0:
        return np.asarray(np.median(counts) / counts)
    observed = np.where(np.isfinite(variances), variances, pooled)
    shrunk = (counts * observed + PRIOR_RUNS * pooled) / (counts + PRIOR_RUNS) / pooled
    return np.asarray(shrunk * np.median(counts) / counts)


def usual_noise(seen: Sequence[Evaluation]) -> float:
    """The variance of the mean of a usual number of runs, as runs show it; infinite if no point has two runs."""
    variances = [e.deviation**2 for e in seen if len(e.errors) > 1]
    return float(np.mean(variances) / np.median([max(len(e.errors), 1) for e in seen])) if variances else math.inf


def _logit(errors: Floats) -> Floats:
    clipped = np.clip(errors, LEAST_ERROR, 1 - LEAST_ERROR)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
