"""What is measured on: runs as a trainer would write them, the same for the same seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = 7
GROUPS, GROUP_SIZE = 32, 8
TASKS = 20_000
FAMILIES, TIERS = ("add", "carry", "plain", "word"), ("easy", "medium", "hard")
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 1024}
RUN = {
    "kind": "run",
    "schema": "grpo-top/1",
    "run": "bench",
    "framework": "trl",
    "algorithm": "grpo",
    "group_size": GROUP_SIZE,
    "sampling": SAMPLING,
    "reward_range": [0.0, 1.2],
    "success": {"of": "accuracy", "at_least": 1.0},
    "env_version": "arith-3",
    "reward_version": "exact-2",
}
METRICS = (
    *(
        "loss",
        "grad_norm",
        "learning_rate",
        "reward",
        "reward_std",
        "kl",
        "entropy",
        "step_time",
        "num_tokens",
    ),
    *("clip_ratio/region_mean", "completions/clipped_ratio", "completion_length", "frac_reward_zero_std"),
)


class Texts:
    """Completions of some 1,500 characters: words, lines, formulas, tags, and now and then more than ASCII."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        letters = "etaoinshrdlucmfwypvbgk"
        self._words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(3000)]
        self._lines = [self._line() for _ in range(6000)]

    def completion(self, answer: int) -> str:
        """A thought of several lines and an answer."""
        thought = "\n".join(self._chance.choices(self._lines, k=self._chance.randint(14, 20)))
        return f"<think>\n{thought}\n</think>\n\n<answer> {answer} </answer>"

    def prompt(self, task: int) -> str:
        """What is asked in a task."""
        return f"Task {task}: what is {task % 97} + {task % 89}? " + self._lines[task % len(self._lines)]

    def _line(self) -> str:
        chance = self._chance
        words = chance.choices(self._words, k=chance.randint(8, 18))
        line = " ".join(words) + chance.choice((".", ",", ":", ".\n", " \\[ x = 17 \\]", " = 3 * (4 + x[0])"))
        return f"  - {line} “so” — 5 ≤ 7" if chance.random() < 0.03 else line


def rollout_records(steps: int, *, with_texts: bool = True, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """The records of a healthy run, 256 rollouts and one row of the trainer's a step."""
    chance = random.Random(seed)
    texts = Texts(chance) if with_texts else None
    for step in range(1, steps + 1):
        for group in range(GROUPS):
            task = chance.randrange(TASKS)
            answer = task % 97 + task % 89
            for index in range(GROUP_SIZE):
                right = chance.random() < 0.3 + 0.4 * (task % 5) / 5
                parsed = chance.random() < 0.97
                given = answer if right else answer + chance.randint(1, 9)
                accuracy, form = float(right and parsed), 0.2 * parsed
                record: dict[str, Any] = {
                    "kind": "rollout",
                    "step": step,
                    "split": "train",
                    "group": f"{step}-{group}",
                    "index": index,
                    "task": f"arith/{task}",
                    "family": FAMILIES[task % 4],
                    "tier": TIERS[task % 3],
                    "reward": accuracy + form,
                    "rewards": {"accuracy": accuracy, "format": form},
                    "verifier": {"raw": str(given) if parsed else "no answer", "error": None},
                    "parsed": parsed,
                    "completion_tokens": min(1024, int(chance.gauss(420, 120))),
                    "finish_reason": "stop" if chance.random() < 0.98 else "length",
                    "policy_version": step - 1,
                    "trainer_version": step - 1,
                    "sampling": SAMPLING,
                    "sampler": f"engine-{group % 4}",
                    "env_version": "arith-3",
                    "reward_version": "exact-2",
                }
                if texts is not None:
                    record |= {"prompt": texts.prompt(task), "completion": texts.completion(given)}
                yield record
        yield {"kind": "step", "step": step, "metrics": metrics(chance, step)}
        if step % 50 == 0:
            yield {"kind": "eval", "step": step, "metrics": {"accuracy": 0.5 + chance.gauss(0, 0.02)}}


def metrics(chance: random.Random, step: int) -> dict[str, float]:
    """One row of a trainer's log, under TRL's names."""
    values = {name: abs(chance.gauss(0.3, 0.02)) for name in METRICS}
    return values | {"kl": 0.01 + abs(chance.gauss(0.01, 0.002)), "learning_rate": 1e-6, "epoch": step / 1000}


def write_run(path: Path, rollouts: int, *, with_texts: bool = True) -> None:
    """A grpo-top/1 log of about so many rollouts, 2 kB each with texts."""
    with path.open("wb") as log:
        log.write(orjson.dumps(RUN) + b"\n")
        for record in rollout_records(rollouts // (GROUPS * GROUP_SIZE), with_texts=with_texts):
            log.write(orjson.dumps(record) + b"\n")


def write_metrics(path: Path, steps: int) -> None:
    """A log of a trainer's rows alone, as verl's file logger writes it but under TRL's names."""
    chance = random.Random(SEED)
    with path.open("wb") as log:
        log.write(orjson.dumps(RUN) + b"\n")
        for step in range(1, steps + 1):
            log.write(orjson.dumps({"kind": "step", "step": step, "metrics": metrics(chance, step)}) + b"\n")
