"""What must hold of every reader: cuts change nothing, and what is broken costs no more than itself.

The examples are real files of the formats, or records made by hand after their sources. Which reader one is for is the
registry's business; the last test sees to it that none is left out.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import tarfile
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from format_reading import DATA, HEAD, fed
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_top.formats
from grpo_top.formats.base import Reader, RunContext
from grpo_top.formats.framed import FramedReader
from grpo_top.formats.printed_blocks import BlockReader
from grpo_top.formats.registry import choose
from grpo_top.formats.stored import DatabaseReader
from grpo_top.records import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpo_top.formats.base import Claim, Format
    from grpo_top.records import Record

ARCHIVE = DATA / "examples.tar.xz"
"""The first lines of real files, each under the name of its run and its own."""
LINES = 10
FAKE = {
    "prompt": "2+2?",
    "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
}
ART_GROUP = {
    "trajectories": [{"reward": 1.0, "metrics": {}, "metadata": {}, "messages_and_choices": FAKE["messages"]}]
}


def records(*raw: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in raw)


KEPT = [
    ("trainer_state.json", "trl/normal_trainer_state.json.gz"),
    ("completions_00001.parquet", "trl/normal_00001.parquet"),
    ("train.log", "trl/normal_stdout.log.gz"),
    ("metrics.jsonl", "verl/healthy_metrics.jsonl.gz"),
    ("train.log", "verl/healthy_console.log.gz"),
    ("rollout_data/1.jsonl", "verl/v1_1.jsonl.gz"),
    ("vllm.log", "requests/vllm_sampler_cold.log.gz"),
    ("iteration_000003/train_logtree.json", "tinker/train_logtree.json.gz"),
]
BY_HAND = [
    (
        "rollouts.jsonl",
        records(
            *[{"kind": "rollout", "step": n, "group": "g", "reward": 0.5, "prompt": "2+2?"} for n in range(6)]
        ),
    ),
    (
        "other.jsonl",
        records(*[{"step": n, "reward": 0.5, "completion": "4", "prompt": "2+2?"} for n in range(6)]),
    ),
    (
        "list.json",
        json.dumps(
            [{"step": n, "reward": 0.5, "completion": "4", "prompt": "2+2?"} for n in range(6)]
        ).encode(),
    ),
    ("rollouts.parquet", b"PAR1 of no table"),
    ("numbers.csv", "".join(["step,reward,loss\n", *[f"{n},0.5,0.1\n" for n in range(6)]]).encode()),
    (
        "completions.jsonl",
        records(
            *[
                {"step": 3, "prompt": "2+2?", "completion": f"{n}", "accuracy": 0.5, "advantage": 0.1}
                for n in range(6)
            ]
        ),
    ),
    ("trajectories/train/0003.jsonl", records(*[ART_GROUP] * 4)),
    ("trajectories/train/0003.yaml", yaml.dump([ART_GROUP, ART_GROUP]).encode()),
    (
        "evals/metrics.json",
        records({"config_general": {}, "results": {"atropos|gsm8k|0": {"eval/percent_correct": 0.5}}}),
    ),
    ("evals/samples.jsonl", records(*[FAKE | {"score": 1}] * 4)),
    ("config.yaml", b"gconfig: {n_samples: 8, temperature: 0.9}\nactor: {}\n"),
    ("train.log", b"".join(b"(x pid=1) perf %d: {'rollout/raw_reward': 0.5}\n" % n for n in range(6))),
    (
        "rollout_6.jsonl",
        records(
            *[
                {"group_index": 0, "index": n, "response": "4", "status": "completed", "reward": 1}
                for n in range(4)
            ]
        ),
    ),
    (
        "token_exports/step_3/rank_0.jsonl",
        records(
            *[
                {
                    "step": 3,
                    "token_ids": [5, 6],
                    "loss_mask": [False, True],
                    "inference_logprobs": [0.0, -0.5],
                    "trainer_logprobs": [0.0, -0.25],
                    "mismatch_kl": [0.0, 0.25],
                }
            ]
            * 4
        ),
    ),
    (
        "configs/orchestrator.json",
        records({"max_off_policy_steps": 8, "group_size": 8, "sampling": {"temperature": 1.0}}),
    ),
    (
        "host_0.log",
        b"".join(
            b"[2026-11-30 12:00:39] Finish: obj=GenerateReqInput(rid='a', sampling_params={'temperature': 0.7}), "
            b"out={'meta_info': {'id': 'a', 'prompt_tokens': %d, 'weight_version': '44'}}\n" % n
            for n in range(6)
        ),
    ),
    (
        "nemo.log",
        "".join(
            f"===== Step {n}/9 =====\n  • Avg Reward: 0.{n}\n  • Loss: 0.5\n" for n in range(1, 7)
        ).encode(),
    ),
    (
        "generated/3/q1.txt",
        "".join(
            f"idx: {n} / 2, seqlen: 9, reward is 0.5.\nprompt is \n\x1b[33m\x1b[2m2+2?\x1b[0m\nsequence is: \n{n}\n"
            for n in (1, 2)
        ).encode(),
    ),
    (
        "blocks.log",
        "".join(f"=== Step {n}/9 ===\n  reward: 0.{n}\n  kl: 0.5\n" for n in range(1, 7)).encode(),
    ),
    (
        "forge.log",
        "".join(
            f"=== [c] - METRICS STEP {n} ===\n  rl_trainer/avg_loss: 0.{n}\n{'=' * 30}\n" for n in range(1, 7)
        ).encode(),
    ),
    (
        "wandb/offline-run-20261130_120142-y174iocc/files/media/table/completions_10_a.table.json",
        json.dumps(
            {"columns": ["step", "prompt", "completion", "accuracy"], "data": [[3, "2+2?", "4", 1.0]]}
        ).encode(),
    ),
]
SILENT = "dashboard/trajectories/20261130_14.jsonl"
"""A file that only adds to what others say."""


def examples() -> dict[str, tuple[str, bytes]]:
    """Name of each example → the name of its file, and its bytes."""
    found = {f"by hand: {file}": (file, made) for file, made in BY_HAND}
    kept = dict(map(reversed, KEPT))
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            file = kept.get(member.name) or member.name.split(" ", 1)[1]
            found[member.name] = (file, archive.extractfile(member).read())
    return found


EXAMPLES = examples()


def claim_of(name: str) -> tuple[Format, Claim]:
    file, data = EXAMPLES[name]
    chosen = choose(PurePath(file), data[:HEAD])
    assert chosen is not None, f"nothing reads {file}"
    return chosen


def reader_of(name: str) -> Reader:
    """A reader of the example's kind that has read nothing, of a run of which nothing is known."""
    format_, claim = claim_of(name)
    return format_.reader(PurePath(EXAMPLES[name][0]), claim, RunContext())


def of_feed(feed: str) -> list[str]:
    return [name for name in EXAMPLES if claim_of(name)[1].feed == feed]


def plain(found: Iterable[Record]) -> list[str]:
    """The records without where they lie, and without what was skipped; NaN is equal to NaN."""
    return [
        repr(record._replace(location=None)) if "location" in record._fields else repr(record)
        for record in found
        if not isinstance(record, Skipped)
    ]


@pytest.mark.parametrize("name", of_feed("lines"))
@settings(max_examples=6)
@given(cuts=st.sets(st.integers(1, LINES * 2), max_size=8))
def test_any_cut_into_lines_gives_the_same_records(name: str, cuts: set[int]) -> None:
    data = EXAMPLES[name][1]
    whole = fed(reader_of(name), data)
    assert repr(fed(reader_of(name), data, cuts)) == repr(whole)


@pytest.mark.parametrize("name", of_feed("lines"))
def test_every_line_by_itself_gives_the_same_records(name: str) -> None:
    data = EXAMPLES[name][1]
    whole = fed(reader_of(name), data)
    assert plain(whole) or name.endswith(SILENT), "the example says nothing"
    assert repr(fed(reader_of(name), data, range(1, 1000))) == repr(whole)


GARBAGE = (b'{"step": ', b"\xff\x00\x80 nothing", b'["a", 1]', b"}{", b"\x00" * 9, b"1e999", b"")


@pytest.mark.parametrize("name", of_feed("lines"))
@settings(max_examples=6)
@given(place=st.integers(0, LINES * 3), garbage=st.sampled_from(GARBAGE) | st.binary(max_size=30))
def test_garbage_in_the_middle_loses_itself_alone(name: str, place: int, garbage: bytes) -> None:
    data = EXAMPLES[name][1]
    lines = data.rstrip(b"\n").split(b"\n")
    place = min(place, len(lines))
    heading = int(name.endswith(".csv"))  # the columns' names are no record
    place = max(place, heading)
    broken = b"\n".join([*lines[:place], garbage.replace(b"\n", b""), *lines[place:]])
    assert plain(fed(reader_of(name), broken)) == plain(fed(reader_of(name), data.rstrip(b"\n")))


@pytest.mark.parametrize("name", of_feed("whole"))
def test_a_whole_file_that_is_cut_or_damaged_is_skipped_with_a_reason(name: str) -> None:
    data = EXAMPLES[name][1]
    assert isinstance(reader_of(name).whole(data), list)
    for broken in (
        data[: len(data) // 2],
        data[:20],
        b"",
        b"\xff\x00",
        data[: len(data) // 2] + b"\xff{]" * 9,
    ):
        found = reader_of(name).whole(broken)
        assert all(record.reason for record in found if isinstance(record, Skipped))


@pytest.mark.parametrize("name", of_feed("bytes"))
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_any_cut_into_pieces_gives_the_same_records(name: str, data: st.DataObject) -> None:
    content = EXAMPLES[name][1][: 96 << 10]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(content) - 1), max_size=12)))

    def read(places: list[int]) -> list[Record]:
        reader, found = reader_of(name), []
        for start, stop in zip([0, *places], [*places, len(content)], strict=True):
            found += reader.feed_bytes(start, content[start:stop])
        return found + reader.end()

    assert repr(read(cuts)) == repr(read([]))


def all_readers() -> set[type[Reader]]:
    """Every class of reader that is fed, and is not a mere frame of others."""
    for module in pkgutil.iter_modules(grpo_top.formats.__path__):
        importlib.import_module(f"grpo_top.formats.{module.name}")
    found: set[type[Reader]] = set()
    waiting: list[type[Any]] = [Reader]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        is_fed = any(
            getattr(kind, way) is not getattr(Reader, way) for way in ("feed", "whole", "feed_bytes")
        )
        if kind.__module__.startswith("grpo_top.formats.") and is_fed and not kind.__abstractmethods__:
            found.add(kind)
    return found - {BlockReader, FramedReader, DatabaseReader}


def test_no_reader_is_left_out() -> None:
    covered = {type(reader_of(name)) for name in EXAMPLES}
    missing = {f"{kind.__module__}.{kind.__name__}" for kind in all_readers() - covered}
    assert missing == set()
