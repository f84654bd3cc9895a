"""Pages that no detector owns: the triage chart, symptoms, what to log, and what to do around a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.detectors import ALL
from grpo_top.flowchart import QUESTIONS
from grpo_top.hints import IN_RECORDS
from grpo_top.triage import TEN_THINGS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Part(NamedTuple):
    """A heading and the lines under it."""

    heading: str
    lines: tuple[str, ...]
    ordered: bool = False


class Topic(NamedTuple):
    """A page that no detector owns."""

    name: str
    what: str
    """What it holds, in one sentence."""
    parts: tuple[Part, ...]


_REMEDIES = (
    "mend the log first: until then no answer below can be relied on.",
    (
        "take an easier tier, or warm up with supervised training: GRPO makes successes more frequent, and "
        "cannot make the first one. Stop here first. See too that a person or a script can solve the tasks "
        "through the model's own interface."
    ),
    (
        "repair the extraction, the verifier and what it falls back on; count verifier errors as errors and "
        "never as a reward of 0. Then run again: what was learned from a wrong reward is not worth keeping."
    ),
    (
        "rebalance the difficulty first, then the mixture, and then raise the diversity of sampling, in this "
        "order. Well under half of the groups without variance is healthy; past half, most of the batch "
        "teaches nothing."
    ),
    (
        "repair the environment or the sampler: copies, loops, a sampling config that is not the intended "
        "one, episodes that end for the wrong reason. Replay the odd ones from their seeds."
    ),
    (
        "mend what reads the answers, and the token budget, before anything is tuned: a parse failure or a "
        "truncated completion says nothing about the task."
    ),
    (
        "where KL runs away while reward rises and held-out falls it is reward hacking: harden the verifier, "
        "then resume from before it. Touch the KL coefficient last, once reward, variance and rollouts are "
        "cleared."
    ),
    (
        "mend the weight sync, or the way log-probabilities take from the sampler to the trainer. Lag within "
        "the tolerance that you chose on purpose is fine."
    ),
    (
        "held-out tasks have leaked into training, or the policy has learned what is particular to its train "
        "tasks: mend the splits, and select checkpoints on held-out results alone."
    ),
)
"""By stage: what to do where its question is answered with yes."""


def _triage() -> Iterator[Part]:
    for stage, question in enumerate(QUESTIONS):
        ids = ", ".join(detector.id for detector in ALL if detector.stage == stage)
        yield Part(f"{stage} {question}", (f"Yes: {_REMEDIES[stage]}", f"Checks: {ids}"))


_SYMPTOMS = (
    Part(
        "In the reward",
        (
            "It is next to 0 from the first step on: BASE_SUCCESS_ZERO; later SPARSE_REWARD",
            "Every rollout earns the same, 0.0 perhaps, and the loop runs green: REWARD_STREAK",
            "It falls from one step to the next, or sinks slowly, and stays down: REWARD_COLLAPSE",
            "It sits at the top of its range: SATURATED_REWARD; over the whole batch: REWARD_STD_DEATH",
            "It does not rise any more: REWARD_PLATEAU",
            "It rises, and held-out does not: HELDOUT_FLAT, LEAKAGE",
            "One answer earns now this, now that: REWARD_INCONSISTENT",
            "Right answers earn nothing when you read them: HAND_SCORE_MISMATCH, PARSE_FAILURES",
            "The verifier times out or crashes: VERIFIER_ERRORS",
            "The trainer prints another mean than the rollouts have: LOGGED_REWARD_MISMATCH",
            "One component never differs: UNIFORM_COMPONENT; two of them part: COMPONENT_DIVERGENCE",
        ),
    ),
    Part(
        "In the groups",
        (
            "Many groups whose rollouts all earn the same: DEGENERATE_GROUPS",
            "`train: 0it [00:02, ?it/s]`, a step without one trainable group: NO_TRAINABLE_GROUPS",
            (
                "Few groups trainable of those submitted (5 of 28, as `num_groups_trainable` counts them): "
                "LOW_TRAINABILITY"
            ),
            "Fewer and fewer of them as the policy gets better: TRAINABILITY_DECLINE",
            "Advantages next to 0: ADV_COLLAPSE",
            "Groups of one, of several prompts, or of uneven size: GROUP_INTEGRITY",
        ),
    ),
    Part(
        "In the completions",
        (
            "They are copies of each other: LOW_DIVERSITY; since the sampler changed: SAMPLER_DRIFT",
            "One strategy is all that is left, and KL climbs: KL_RATCHET",
            "They repeat one span to the end: REPETITION_LOOPS",
            "They are noise, or one character over and over: GIBBERISH",
            "They hit the token budget: TRUNCATION",
            "They grow, and the longest earn most: LENGTH_HACKING; they shrink: LENGTH_COLLAPSE",
            "The answer is there and is not read: PARSE_FAILURES",
            "The form is perfect and the content is not: FORMAT_EXPLOIT",
            "Episodes crash, hang or are aborted: TERMINATION_SHIFT",
            "A replay from its seed comes out otherwise: NONDETERMINISTIC_REPLAY",
        ),
    ),
    Part(
        "In the trainer's numbers",
        (
            "A NaN: NONFINITE_METRIC; a gradient norm of exactly 0: NO_UPDATE",
            "KL that runs away: KL_EXPLODING; KL that stays at 0 with a flat reward: KL_PINNED",
            "Entropy that falls to nothing: ENTROPY_COLLAPSE; that climbs: ENTROPY_EXPLOSION",
            "A clip fraction that stays high: CLIP_SATURATION; gradients that jump: GRAD_SPIKES",
            "Curves that are flat or unsteady without a cause: STALE_ROLLOUTS, WEIGHT_SYNC_STUCK, MIXED_VERSIONS",
            "An importance ratio away from 1, after an upgrade perhaps: LOGPROB_MISMATCH",
        ),
    ),
    Part(
        "In the log",
        (
            "Lines that cannot be read: UNREADABLE_LINES; steps that come again: STEP_RESTART",
            "Nothing new comes: LOG_STALLED; steps take longer and longer: STEP_TIME_ROT",
            "Another version of the reward or the environment in the middle: RUN_RECORD_CHANGED",
        ),
    ),
)

_WHY = {
    "reward per family, with raw verifier output beside it": (
        "A default that was silently put in place of a score shows only where raw output stands beside the "
        "reward; a family that fails alone shows only by family."
    ),
    "zero-variance fraction": "It is how much of the batch teaches nothing.",
    "success per tier": "It shows whether the difficulty fits the policy as it is now.",
    "parse-failure and truncation rate": "Both turn a right answer into a failure that is not about the task.",
    "length distribution, and reward against length": (
        "They show a budget that is too small, and a judge that pays for length."
    ),
    "KL and entropy": (
        "They show where the policy goes, and whether it has a choice left. Their course counts, not one value."
    ),
    "termination reasons per family": "They tell an episode that failed from one that crashed, hung or was stopped.",
    "policy version and lag": "They show which policy said a rollout, and how old it is when it is trained on.",
    "held-out evaluation at a fixed cadence": "With fixed seeds it is the only number to select a checkpoint by.",
    "environment version, reward version and sampler config": (
        "What changed in the middle of a run can be seen only where it is written down."
    ),
}
"""Thing to log → what it is for."""


_READ_BESIDE = {
    TEN_THINGS[0].name: ("VERIFIER_ERRORS", "HAND_SCORE_MISMATCH"),
    TEN_THINGS[-1].name: ("RUN_RECORD_CHANGED", "REWARD_INCONSISTENT"),
}
"""Thing to log → checks that read it beside any series."""


def _logging() -> Iterator[Part]:
    shown: set[str] = set()
    for number, item in enumerate(TEN_THINGS, 1):
        fields = "; ".join(IN_RECORDS[field.name] for field in item.fields)
        lines = [_WHY[item.name], f"In grpo-top/1: {fields}"]
        carried = {name.removeprefix("column:") for field in item.fields for name in field.series}
        new, also = carried - shown, _READ_BESIDE.get(item.name, ())
        ids = [one.id for one in ALL if one.id in also or new & {*one.series, *one.needs}]
        shown |= carried
        if ids:
            lines.append(f"Checks that read it: {', '.join(ids)}")
        yield Part(f"{number}. {item.name}", tuple(lines))


_PRACTICE = (
    Part(
        "Before a run",
        (
            "Sample the base policy on the training tasks: some should succeed, and not all",
            "Have a person or a script solve a few tasks through the interface that the model uses",
            "Score 20 rollouts by hand, and compare them with the pipeline's scores one by one",
            "Look at how rewards are distributed in a pilot of a few steps: groups should disagree",
            "See that held-out tasks are in no path into training, and fix their seeds and cadence",
            "Log the ten things from the first experiment on: `grpo-top explain logging`",
            "Ask the samplers what they really sample with, and write down what you intend",
        ),
    ),
    Part(
        "In its first steps, and then now and again",
        (
            (
                "Healthy: 5 to 10% of groups without variance (15 to 35% where the reward has two values), "
                "more than 30% of all groups trainable, a spread of rewards above 0.1 of their range, a "
                "reward that rises"
            ),
            "Read rollouts, regularly: no number shows what reading three of them does",
            "Stop where next to nothing is trainable: further steps cost, and teach nothing",
            "Change one thing at a time; weights and components in the middle of a run need a new reward version",
        ),
    ),
    Part(
        "When time is short",
        (
            "Three steps are too few to learn from; go from 3 to 20 rather than from 3 to 50",
            "Move weight to what lags behind most, by amounts that have worked before",
            "Try nothing new: keep to what you have seen work",
        ),
    ),
    Part(
        "After a run",
        (
            "Select the checkpoint on held-out results alone; training reward is for finding faults",
            "`grpo-top check` ends with the share of trainable groups and with the component that told nothing apart",
            "Write down which weights worked, for the next run",
        ),
    ),
)

TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        Topic(
            "triage",
            "The chart: nine questions in the order of cause, and what to do at the first yes",
            tuple(_triage()),
        ),
        Topic("symptoms", "What you see, and which page it belongs to", _SYMPTOMS),
        Topic("logging", "The ten things to log, and what each of them lets be judged", tuple(_logging())),
        Topic("practice", "What to do before a run, in its first steps, and after it", _PRACTICE),
    )
}
"""Name → page."""
