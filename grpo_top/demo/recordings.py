"""The recorded runs: real GRPO runs of a tiny model that learns to add, healthy and with one fault each.

They were made with TRL 1.16 on a CPU: 120 steps of 4 groups of 8 rollouts, 12 held-out groups every 20 steps.
Each lies in `data/NAME.jsonl.gz` in grpo-top's own log format, as it was written while the run went on.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import NamedTuple

from grpo_top.spelling import meant


class Recording(NamedTuple):
    """One recorded run, and what is known of it from outside its log."""

    name: str
    title: str
    what: str
    """What was done to the run, in one sentence."""
    onset: int | None
    """First step at which the fault exists; None where there is none."""

    def lines(self) -> list[bytes]:
        """The log, one record a line, without newlines."""
        packed = files(__package__).joinpath("data", f"{self.name}.jsonl.gz").read_bytes()
        return gzip.decompress(packed).splitlines()


RECORDINGS: tuple[Recording, ...] = (
    Recording("healthy", "A healthy run", "nothing was done to it", None),
    Recording(
        "sampler_cold",
        "A sampler that is too cold",
        "from step 51 on the sampler ran at temperature 0.15 where 1.0 was intended",
        51,
    ),
    Recording(
        "verifier_broken",
        "A reward that went silent",
        "from step 51 on the scorer gave every answer 0 and reported no error",
        51,
    ),
    Recording(
        "stale_weights",
        "A sampler with old weights",
        "from step 51 on the sampler took new weights only every 40 steps, where a lag of 2 is tolerated",
        53,
    ),
    Recording(
        "truncation",
        "A token budget that is too small",
        "the budget was 8 tokens from the start, so that nearly every completion was cut off",
        1,
    ),
)


def find(name: str) -> Recording:
    """The recording of that name. ValueError, with the nearest name and all names, where there is none."""
    by_name = {recording.name: recording for recording in RECORDINGS}
    if name in by_name:
        return by_name[name]
    near = meant(name, by_name, cutoff=0.4)
    hint = f"did you mean {near}? " if near else ""
    raise ValueError(f"no recording is called {name!r}; {hint}the recordings are {', '.join(by_name)}")
