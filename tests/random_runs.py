"""Runs as nobody would wish for: gaps, numbers that are not finite, records that come late, steps written again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpo_top.records import Eval, Record, Rollout, Run, Sampling, Skipped, Step

if TYPE_CHECKING:
    from random import Random

TEXTS = (
    "4",
    "5",
    "the answer is 4",
    "no no no no no no no",
    "\ufffd" * 20,
    "a longer answer that counts to 4",
)
METRICS = (
    "reward",
    "reward_std",
    "kl",
    "entropy",
    "loss",
    "grad_norm",
    "frac_reward_zero_std",
    "step_time",
    "completions/mean_length",
    "completions/clipped_ratio",
    "clip_ratio/region_mean",
    "sampling/sampling_logp_difference/mean",
)
NUMBERS = (0.0, 1e-12, 0.01, 0.2, 0.5, 1.0, 3.0, 40.0)
NO_NUMBERS = (math.nan, math.inf, None)
RUNS = (
    Run(framework="trl", group_size=4, sampling={"temperature": 1.0, "max_tokens": 64}),
    Run(framework="trl", reward_range=(0.0, 1.0), reward_version="r1"),
    Run(framework="trl", reward_version="r2", version_lag_tolerance=1.0),
    Run(framework="trl", sampling={"temperature": 0.7}, group_size=2),
)


@dataclass
class Habits:
    """What a stretch of a run has in common, so that rules that ask for many steps are met now and then."""

    rewards: tuple[float | None, ...] = (0.0, 1.0)
    texts: tuple[str, ...] = TEXTS
    terminations: tuple[str, ...] = ("stop",)
    sampling: Sampling | None = None
    cut: float = 0.0
    errors: float = 0.0
    lag: int = 0
    groups: int = 2
    metrics: dict[str, float] = field(default_factory=dict)


def habits(random: Random) -> Habits:
    """Some habits."""
    return Habits(
        rewards=random.choice([(0.0, 1.0), (0.0, 0.5, 1.0), (0.0,), (1.0,), (1.0, None), (0.5, math.nan)]),
        texts=tuple(random.choices(TEXTS, k=random.choice([1, 2, 6]))),
        terminations=random.choice([("stop",), ("stop", "length"), ("stop", "env_error"), ("timeout",)]),
        sampling=random.choice([None, {"temperature": 1.0}, {"temperature": 0.2, "max_tokens": 64}]),
        cut=random.choice([0.0, 0.2, 1.0]),
        errors=random.choice([0.0, 0.0, 0.3]),
        lag=random.choice([0, 1, 5]),
        groups=random.choice([0, 1, 2, 6]),
        metrics={
            name: random.choice(NUMBERS) for name in random.sample(METRICS, random.randint(0, len(METRICS)))
        },
    )


def rollouts_of(random: Random, step: int, of: Habits) -> list[Record]:
    """The train rollouts of a step."""
    return [
        Rollout(
            step,
            f"g{group}",
            reward := random.choice(of.rewards),
            index=index,
            task=f"t{(group + step) % 5}",
            family=f"f{group % 2}",
            tier=random.choice([None, "hard"]),
            prompt=f"{(group + step) % 5} + 2 =",
            completion=random.choice(of.texts),
            completion_tokens=random.choice([1, 8, 64, 300]),
            truncated=random.random() < of.cut,
            termination=random.choice(of.terminations),
            verifier_raw=str(reward),
            verifier_error="timeout" if random.random() < of.errors else None,
            parsed=reward is not None,
            policy_version=max(step - of.lag, 0),
            trainer_version=step,
            sampling=of.sampling,
            seed=random.choice([None, 1, 2]),
            rewards={"correct": reward, "format": 0.5},
        )
        for group in range(of.groups)
        for index in range(random.choice([4, 4, 4, 3, 1]))
    ]


def step_of(random: Random, step: int, of: Habits) -> Step:
    """The trainer's numbers of a step, some of them missing or not finite."""
    noisy = {name: value * random.uniform(0.9, 1.1) for name, value in of.metrics.items()}
    for name in of.metrics:
        if random.random() < 0.05:
            noisy[name] = random.choice(NO_NUMBERS)  # type: ignore[assignment]
    return Step(step, noisy)


def written(random: Random, steps: int) -> list[list[Record]]:
    """A run of so many steps as a list of events: what is read at one time."""
    events: list[list[Record]] = [[random.choice(RUNS)]] if random.random() < 0.7 else []
    step, of = random.randint(0, 3), habits(random)
    for _ in range(steps):
        step += random.choice([1] * 12 + [2, 9])
        if random.random() < 0.03:
            step = max(step - random.randint(1, 6), 0)
        if random.random() < 0.06:
            of = habits(random)
        rollouts = rollouts_of(random, step, of)
        half = random.randint(0, len(rollouts))
        events += [part for part in (rollouts[:half], rollouts[half:]) if part]
        if of.metrics and random.random() < 0.9:
            events.append([step_of(random, step, of)])
        if random.random() < 0.15:
            events.append(
                [Eval(step, {"reward": random.choice(NUMBERS[:6])}, random.choice(["heldout", "math"]))]
            )
        if random.random() < 0.05:
            events.append(
                [Rollout(step + 1, "e", 0.5, index=0, split="eval", prompt="1 + 2 =", completion="3")]
            )
        if random.random() < 0.03:
            events.append([random.choice(RUNS)])
        if random.random() < 0.03:
            events.append([Skipped("no JSON", 0, 1)])
    return events


def shuffled_a_little(random: Random, events: list[list[Record]], late: int) -> list[list[Record]]:
    """The same events, `late` of them moved to a later place."""
    moved = list(events)
    for _ in range(late if events else 0):
        event = moved.pop(random.randrange(len(moved)))
        moved.insert(random.randint(0, len(moved)), event)
    return moved
