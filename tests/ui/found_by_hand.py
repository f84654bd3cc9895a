"""A recording with the findings of its labels set by hand, so that the screens' tests do not follow every rule."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from recorded import lines, snapshot

from grpo_top.snapshot import DetectorTrack, Finding, RolloutRef, Status
from grpo_top.ui.app import GrpoTop

if TYPE_CHECKING:
    from textual.pilot import Pilot
    from textual.screen import Screen

    from grpo_top.snapshot import Snapshot

PROVEN_AT = (51, 51, 51, 79, 79, 109, 109)
"""Steps of the groups that prove the drift, as in the mock-up."""


def track(
    picture: Snapshot, id_: str, stage: int, spans: dict[tuple[int, int], Status], **fields: Any
) -> DetectorTrack:
    """A detector's verdicts: OK, but within the spans."""
    steps = next(iter(picture.tracks.values())).steps
    status = np.full(len(steps), int(Status.OK), np.uint8)
    for (first, last), verdict in spans.items():
        status[(steps >= first) & (steps <= last)] = int(verdict)
    values = np.full(len(steps), fields.pop("value", np.nan))
    return DetectorTrack(
        id_, stage, steps, status, values, fields.pop("threshold", None), fields.pop("needs", ())
    )


def finding(
    id_: str, stage: int, severity: Status, episodes: tuple[tuple[int, int], ...], **fields: Any
) -> Finding:
    """A finding; what is not given is empty."""
    given = {
        "active": True,
        "first_step": episodes[-1][0],
        "last_step": episodes[-1][1],
        "onset": episodes[-1][0],
        "value": None,
        "threshold": None,
        "summary": "",
        "evidence": {},
        "rollouts": (),
        "try_next": (),
    }
    return Finding(id=id_, stage=stage, severity=severity, episodes=episodes, **(given | fields))


def references(picture: Snapshot, steps: tuple[int, ...] = PROVEN_AT) -> tuple[RolloutRef, ...]:
    """The first rollout of the first groups of some steps."""
    table = picture.groups.columns
    found = []
    for place, step in enumerate(steps):
        number = steps[:place].count(step)
        row = int(table["first_row"][table["step"] == step][number])
        found.append(RolloutRef("rollouts.jsonl", step, f"{step}t-{number}", 0, row))
    return tuple(found)


@lru_cache(maxsize=2)
def sampler_cold() -> Snapshot:
    """The cold sampler at step 110: a cause, what it explains, a watch, what has cleared, what cannot be judged."""
    picture = snapshot("sampler_cold")
    drift = finding(
        "SAMPLER_DRIFT",
        4,
        Status.FAIL,
        ((51, 110),),
        value=1.0,
        threshold=0.01,
        summary="temperature 0.15 deployed, 1.0 intended",
        evidence={
            "settings": [
                {
                    "setting": "temperature",
                    "intended": 1.0,
                    "before": None,
                    "deployed": 0.15,
                    "since": 51,
                    "rollouts": 1920,
                    "of": 1920,
                    "heldout_rollouts": 288,
                    "samplers": [],
                }
            ],
            "before": {"steps": [31, 50], "duplicate_frac": 0.409, "distinct_texts_mean": 6.125},
            "now": {"steps": [91, 110], "duplicate_frac": 0.9, "distinct_texts_mean": 2.35},
        },
        rollouts=references(picture),
        try_next=("Ask the server what it resolves", "Pass temperature 1.0 with each request"),
    )
    uniform = finding(
        "UNIFORM_COMPONENT",
        3,
        Status.WARN,
        ((64, 110),),
        value=1.0,
        threshold=0.9,
        summary="format flat in all groups",
        caused_by="SAMPLER_DRIFT",
        evidence={"flattest": "format", "share_of_groups": 1.0, "rows": 20},
        rollouts=references(picture, (110,)),
    )
    diversity = finding(
        "LOW_DIVERSITY",
        4,
        Status.WARN,
        ((69, 74), (80, 80), (87, 87)),
        active=False,
        value=0.91,
        threshold=0.9,
        summary="duplicates 91%, limit 90%",
    )
    parsing = finding(
        "PARSE_FAILURES",
        5,
        Status.WARN,
        ((5, 10),),
        active=False,
        value=0.31,
        threshold=0.2,
        summary="31% of step 4, now 0%",
    )
    tracks = {
        "SAMPLER_DRIFT": track(picture, "SAMPLER_DRIFT", 4, {(51, 110): Status.FAIL}),
        "UNIFORM_COMPONENT": track(
            picture, "UNIFORM_COMPONENT", 3, {(64, 110): Status.WARN}, value=1.0, threshold=0.9
        ),
        "LOW_DIVERSITY": track(
            picture,
            "LOW_DIVERSITY",
            4,
            {(69, 74): Status.WARN, (80, 80): Status.WARN, (87, 87): Status.WARN, (106, 110): Status.WATCH},
            value=0.9,
            threshold=0.9,
        ),
        "DEGENERATE_GROUPS": track(
            picture, "DEGENERATE_GROUPS", 3, {(100, 110): Status.WATCH}, value=0.25, threshold=0.4
        ),
        "PARSE_FAILURES": track(
            picture, "PARSE_FAILURES", 5, {(5, 10): Status.WARN}, value=0.0, threshold=0.2
        ),
        "NONDETERMINISTIC_REPLAY": track(
            picture, "NONDETERMINISTIC_REPLAY", 4, {(0, 110): Status.UNKNOWN}, needs=("seed",)
        ),
    }
    return replace(
        picture,
        findings=(drift, uniform, diversity, parsing),
        first_cause="SAMPLER_DRIFT",
        tracks=tracks,
        unknown=(("NONDETERMINISTIC_REPLAY", ("seed",)),),
        watches=("LOW_DIVERSITY", "DEGENERATE_GROUPS"),
    )


def shown_by(picture: Snapshot, **options: Any) -> GrpoTop:
    """An app that shows a picture, 0.3 seconds after its last record."""
    return GrpoTop(picture, **({"clock": lambda: (picture.last_record_time or 0) + 0.3} | options))


async def opened(pilot: Pilot[int], screen: Screen[None]) -> list[str]:
    """What a screen shows once it is opened and the texts that it asks for are read."""
    pilot.app.push_screen(screen)
    return await settled(pilot)


async def paused_at(pilot: Pilot[int], step: int) -> list[str]:
    """What is shown once the cursor stands on a step, from wherever it was before it."""
    app = pilot.app
    assert isinstance(app, GrpoTop)
    while app.view.step is not None and app.view.step > step:
        await pilot.press("left_curly_bracket" if app.view.step >= step + 10 else "left_square_bracket")
    assert app.view.cursor == step
    return await settled(pilot)


async def settled(pilot: Pilot[int]) -> list[str]:
    """What is shown once nothing is being read any more."""
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return lines(pilot.app)
