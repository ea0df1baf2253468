"""Bayesian choice: the settings whose error, as a Gaussian process predicts it, is expected to move the front most.

Epsilon is exact, so it is a feature of the process beside the settings. Where the privacy oracle is slow, a second
process without noise predicts log epsilon, and the oracle itself is asked about the few best candidates alone.

Differs from [DPareto, Alg. 3.2]: no process stands for what is known; the improvement is that of the hypervolume
itself, in closed form; the current front is the predicted mean at what was evaluated, so that a lucky run does not
hide better settings; and a point on the front that owes its place to luck is evaluated again. `method="hvpoi"` is the
document's rule: two processes, log epsilon and logit error, and HVPoI.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SearchError, shown
from hush.pareto.evaluation import Evaluation, PrivacyOracle, epsilon_of, merged
from hush.pareto.gaussian_process import GaussianProcess, Hyperparameters
from hush.pareto.hypervolume import front_indices, step_values
from hush.pareto.improvement import expected_improvement, hvpoi
from hush.pareto.space import ChoiceSetting, Settings, Space

Method: TypeAlias = Literal["improvement", "hvpoi"]
SPREAD, NEAR, STEPS = 384, 256, (0.015, 0.05, 0.15)  # candidates anywhere, candidates near the front, and how near
NEARER, AROUND = (0.1, 0.03), 16  # then how near the best candidates others are tried, and how many around each
SCREENED, EXACT = 8, 3  # the best candidates, and those whose epsilon is computed exactly where that is slow
POOL, QUICK_POOL = 8, 16  # points drawn for each initial one; those within the reference are kept
LEAST_ERROR = 1e-6  # and 1 minus it are the ends of logit
SPAN = 10.0  # initial points have epsilons from the reference down to it over this: there, settings matter most
EXCESS = 0.5
DOUBT = 0.03  # settings are taken to move the error by this share of the least one, even if none did so far
REPEATS = 0.15  # the share of choices that may be spent on running points again
PRIOR_RUNS = 5.0  # runs that the usual spread counts for, beside those of an evaluation
REFIT = 24  # up to so many evaluations hyperparameters are fitted each time, then every other time


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
        if method not in ("improvement", "hvpoi"):
            raise SearchError(f"method={shown(method)}: expected 'improvement' or 'hvpoi'")
        self.space, self.privacy, self.reference = space, privacy, reference
        self.method, self.seed = method, seed
        self.quick = bool(getattr(privacy, "quick", False))
        given = initial if isinstance(initial, Sequence) else ()
        if not all(isinstance(settings, Mapping) for settings in given):
            raise SearchError(f"initial={shown(initial)}: expected a number, or settings such as {{'noise': 1.0}}")
        self.given = [dict(settings) for settings in given]
        for settings in self.given:
            space.places_of(settings)
        count = default_initial(space) if initial is None else initial if isinstance(initial, int) else len(given)
        if count < 2:
            raise SearchError(f"initial={shown(initial)}: expected at least 2 points to learn from")
        self.initial = count
        self._pool: tuple[Floats, Floats] | None = None
        self._powers: Hyperparameters | None = None
        self._fits: dict[tuple[str, int], Hyperparameters] = {}

    def describe(self) -> dict[str, Any]:
        return {"method": self.method, "initial": self.initial, "given": self.given, "reference": [*self.reference]}

    def next(self, evaluations: Sequence[Evaluation], count: int) -> list[Settings]:
        generator = np.random.Generator(np.random.PCG64([self.seed, 1, len(evaluations)]))
        if len(evaluations) < self.initial:
            return self._initial()[len(evaluations) : min(self.initial, len(evaluations) + count)]
        different = merged(evaluations)
        repeats, chosen = len(evaluations) - len(different), len(evaluations) - self.initial
        may_repeat = repeats < REPEATS * chosen and evaluations[-1] in different
        seen = [e for e in different if math.isfinite(e.epsilon)]
        if len(seen) < 2:
            return self.space.settings_at(self.space.draw(count, generator))
        if self.method == "hvpoi":
            return self._by_hvpoi(seen, count, generator)
        return self._best(seen, count, generator, may_repeat=may_repeat)

    def _initial(self) -> list[Settings]:
        """Given settings; or those of a Latin hypercube within the reference, at equal steps of log epsilon."""
        if self.given:
            return self.given
        drawn, epsilons = self._drawn()
        order = np.argsort(epsilons)
        least = self.reference[0] / SPAN
        within = order[(epsilons[order] < self.reference[0]) & (epsilons[order] >= least)]
        ranked = within if len(within) >= self.initial else order[: self.initial]
        chosen = ranked[np.linspace(0, len(ranked) - 1, self.initial).astype(np.int64)]
        shuffled = np.random.Generator(np.random.PCG64([self.seed, 2])).permutation(chosen)
        return self.space.settings_at(drawn[shuffled])

    def _drawn(self) -> tuple[Floats, Floats]:
        """Points drawn before anything is known, and their epsilons."""
        if self._pool is None:
            count = (QUICK_POOL if self.quick else POOL) * self.initial
            drawn = self.space.draw(count, np.random.Generator(np.random.PCG64([self.seed, 0])))
            self._pool = drawn, self._exact(drawn)
        return self._pool

    def _exact(self, places: Floats) -> Floats:
        return np.array([epsilon_of(self.privacy, settings) for settings in self.space.settings_at(places)])

    def _best(
        self, seen: list[Evaluation], count: int, generator: np.random.Generator, *, may_repeat: bool
    ) -> list[Settings]:
        places = np.array([self.space.places_of(e.settings) for e in seen])
        epsilons = np.array([e.epsilon for e in seen])
        noise = relative_noise(seen)
        features = self._features(places, epsilons)
        values = self._capped(seen)
        process = self._process("error", features, values, noise, DOUBT * max(float(values.min()), 0.0))
        by_model = None if self.quick else self._epsilon_process(places, epsilons)
        chosen: list[Settings] = []
        spread = np.sqrt(min(process.noise, usual_noise(seen)) * noise)  # the standard error of each mean
        pairs = np.column_stack([epsilons, process.predict(features)[0]])
        for _ in range(count):
            candidates = self._candidates(places[front_indices(pairs[: len(places)])], generator)
            for step in NEARER:
                guessed = self._guessed(by_model, candidates)
                likely = np.argsort(-self._gains(process, pairs, candidates, guessed)[0])
                candidates = self._around(candidates[likely[:SCREENED]], step, generator)
            if by_model is not None:
                guessed = self._guessed(by_model, candidates)
                likely = np.argsort(-self._gains(process, pairs, candidates, guessed)[0])
                candidates = candidates[likely[:EXACT]]
            exact = self._exact(candidates)
            gains, means = self._gains(process, pairs, candidates, exact)
            best = int(np.argmax(gains))
            again = (
                None
                if chosen or not may_repeat
                else self._doubtful(seen, pairs[: len(seen)], spread, float(gains[best]))
            )
            if again is not None:
                chosen.append(again)
                continue
            chosen += self.space.settings_at(candidates[[best]])
            if len(chosen) < count:
                process = process.believing(self._features(candidates[[best]], exact[[best]]), float(means[best]))
                pairs = np.vstack([pairs, [exact[best], means[best]]])
        return chosen

    def _guessed(self, by_model: GaussianProcess | None, candidates: Floats) -> Floats:
        """The epsilons of candidates: exact where that is quick, by the model elsewhere."""
        if by_model is None:
            return self._exact(candidates)
        return np.asarray(np.exp(by_model.predict(self._for_epsilon(candidates))[0]))

    def _around(self, middles: Floats, step: float, generator: np.random.Generator) -> Floats:
        """Some points, and others near each of them."""
        shape = (AROUND, *middles.shape)
        moved = middles + step * generator.standard_normal(shape) * (generator.random(shape) < 0.5)
        return np.vstack([middles, np.clip(moved, 0.0, 1.0).reshape(-1, middles.shape[1])])

    def _gains(
        self, process: GaussianProcess, pairs: Floats, candidates: Floats, epsilons: Floats
    ) -> tuple[Floats, Floats]:
        known = np.where(np.isfinite(epsilons), epsilons, 10 * self.reference[0])
        mean, deviation = process.predict(self._features(candidates, known))
        return expected_improvement(pairs, self.reference, known, mean, deviation), mean

    def _doubtful(self, seen: list[Evaluation], pairs: Floats, errors: Floats, gain: float) -> Settings | None:
        """A point of the observed front whose luck weighs more than what a new point is expected to add.

        Luck is how far the mean lies below the prediction, at most its standard error: more runs make up for it.
        """
        observed = np.array([(e.epsilon, e.error if e.usable else math.nan) for e in seen])
        front = front_indices(observed)
        front = front[observed[front, 0] < self.reference[0]]
        if not len(front):
            return None
        widths = np.diff(np.append(observed[front, 0], self.reference[0]))
        luck = widths * np.clip(pairs[front, 1] - observed[front, 1], 0.0, errors[front])
        worst = int(np.argmax(luck))
        return dict(seen[front[worst]].settings) if luck[worst] / 2 > gain else None  # twice the runs halve the luck

    def _by_hvpoi(self, seen: list[Evaluation], count: int, generator: np.random.Generator) -> list[Settings]:
        places = np.array([self.space.places_of(e.settings) for e in seen])
        features = self.space.features(places)
        epsilons = np.log([max(e.epsilon, 1e-12) for e in seen])
        errors = _logit(self._values(seen))
        first = self._process("epsilon", features, epsilons)
        second = self._process("error", features, errors)
        front = np.column_stack([epsilons, errors])
        reference = (math.log(self.reference[0]), float(_logit(np.array([self.reference[1]]))[0]))
        chosen = []
        for _ in range(count):
            candidates = self._candidates(places[front_indices(front[: len(places)])], generator)
            means, deviations = zip(*(p.predict(self.space.features(candidates)) for p in (first, second)), strict=True)
            best = int(np.argmax(hvpoi(front, reference, (means[0], means[1]), (deviations[0], deviations[1]))))
            chosen += self.space.settings_at(candidates[[best]])
            front = np.vstack([front, [means[0][best], means[1][best]]])
        return chosen

    def _values(self, seen: list[Evaluation]) -> Floats:
        """Errors to learn from; a failed evaluation counts as the worst."""
        return np.array([e.error if e.usable else self.reference[1] for e in seen])

    def _capped(self, seen: list[Evaluation]) -> Floats:
        """Errors, no further above the front at their epsilon than `EXCESS` of what the front spans.

        How bad hopeless settings are does not matter, and would set the scale by which the model tells good ones apart.
        """
        values, epsilons = self._values(seen), np.array([e.epsilon for e in seen])
        pairs = np.column_stack([epsilons, values])
        front = pairs[front_indices(pairs)]
        best = step_values(front, epsilons)
        return np.minimum(values, best + EXCESS * max(float(np.ptp(front[:, 1])), 1e-9))

    def _features(self, places: Floats, epsilons: Floats) -> Floats:
        """What the process sees: the settings, and log epsilon with a factor of 1000 as one unit."""
        unit = np.log(np.maximum(epsilons, 1e-12) / self.reference[0]) / math.log(1000.0)
        return np.column_stack([self.space.features(places), unit])

    def _process(
        self, what: str, features: Floats, values: Floats, noise: Floats | None = None, least_scale: float = 0.0
    ) -> GaussianProcess:
        """A process of these values; from `REFIT` on, its hyperparameters are fitted to every other value more."""
        count = len(values) if len(values) <= REFIT else len(values) - len(values) % 2
        if (what, count) not in self._fits:
            some = None if noise is None else noise[:count]
            fitted = GaussianProcess.fit(
                features[:count], values[:count], noise=some, noiseless=what == "epsilon", least_scale=least_scale
            )
            self._fits[what, count] = fitted.chosen
        return GaussianProcess(features, values, self._fits[what, count], noise, least_scale)

    def _epsilon_process(self, places: Floats, epsilons: Floats) -> GaussianProcess:
        """A process for log epsilon, through what was evaluated and what was drawn first."""
        drawn, known = self._drawn()
        where, values = np.vstack([drawn, places]), np.append(known, epsilons)
        finite = np.isfinite(values) & (values > 0)
        features, logs = self._for_epsilon(where[finite]), np.log(values[finite])
        if self._powers is None:  # by what was drawn first alone, so that a search that is resumed goes on as it would
            first = int(finite[: len(drawn)].sum())
            self._powers = GaussianProcess.fit(features[:first], logs[:first], noiseless=True).chosen
        return GaussianProcess(features, logs, self._powers)

    def _for_epsilon(self, places: Floats) -> Floats:
        """What the process of epsilon sees: logarithms of settings, for epsilon is nearly a product of powers."""
        columns = []
        for index, setting in enumerate(self.space):
            if isinstance(setting, ChoiceSetting) or setting.low <= 0:
                columns.append(setting.features(places[:, index]))
            else:
                logs = np.log(setting.values_at(places[:, index]))
                columns.append(((logs - math.log(setting.low)) / math.log(setting.high / setting.low))[:, None])
        return np.concatenate(columns, axis=1)

    def _candidates(self, front: Floats, generator: np.random.Generator) -> Floats:
        anywhere = generator.random((SPREAD, len(self.space)))
        middles = front[generator.integers(len(front), size=NEAR)]
        steps = generator.choice(STEPS, size=(NEAR, 1)) * generator.standard_normal((NEAR, len(self.space)))
        jump = generator.random((NEAR, len(self.space)))
        moved = np.where(jump < 0.1, generator.random(jump.shape), middles + steps)
        return np.vstack([anywhere, np.clip(moved, 0.0, 1.0)])


def relative_noise(seen: Sequence[Evaluation]) -> Floats:
    """The variance of each mean error beside a usual one: that of its runs, drawn towards all of them where few."""
    counts = np.array([max(len(e.errors), 1) for e in seen], dtype=np.float64)
    spreads = np.array([e.deviation**2 if len(e.errors) > 1 else math.nan for e in seen])
    pooled = float(np.nanmean(spreads)) if np.isfinite(spreads).any() else 1.0
    if pooled <= 0:
        return np.asarray(np.median(counts) / counts)
    own = np.where(np.isfinite(spreads), spreads, pooled)
    drawn = (counts * own + PRIOR_RUNS * pooled) / (counts + PRIOR_RUNS) / pooled
    return np.asarray(drawn * np.median(counts) / counts)


def usual_noise(seen: Sequence[Evaluation]) -> float:
    """The variance that runs show in the mean of as many as usual; infinite if no point was run twice."""
    spreads = [e.deviation**2 for e in seen if len(e.errors) > 1]
    return float(np.mean(spreads) / np.median([max(len(e.errors), 1) for e in seen])) if spreads else math.inf


def default_initial(space: Space) -> int:
    """How many points are evaluated before a model chooses."""
    return min(2 * len(space) + 4, 16)


def _logit(errors: Floats) -> Floats:
    clipped = np.clip(errors, LEAST_ERROR, 1 - LEAST_ERROR)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
