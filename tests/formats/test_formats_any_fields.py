"""Fields of any kind, in any record: the next one is read all the same."""

import json
from typing import Any

import pytest
from format_reading import fed
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.encode import encode
from grpo_top.formats import areal, ms_swift, nemo_rl, request_logs, skyrl, tinker
from grpo_top.formats.base import Reader, RunContext
from grpo_top.history import History
from grpo_top.records import Rollout, Skipped

KNOWN: list[tuple[Reader, dict[str, Any]]] = [
    (
        ms_swift.CompletionsReader(RunContext()),
        {
            "step": ["1"],
            "prompt": ["a"],
            "completion": ["b"],
            "R": [1.0],
            "advantages": [0.0],
            "gen_step": [0],
        },
    ),
    (
        ms_swift.LoggingReader(RunContext()),
        {
            "global_step/max_steps": "1/2",
            "iteration": "1/2",
            "reward": 0.5,
            "eval_reward": 1,
            "log_history": [],
        },
    ),
    (
        tinker.SummaryReader(RunContext()),
        {
            "iteration": 1,
            "group_idx": 0,
            "traj_idx": 0,
            "total_reward": 1.0,
            "tags": ["a"],
            "steps": [{"ob_len": 1, "ac_len": 2, "metrics": {"stop/x": 1}, "logs": {"problem": "x"}}],
            "split": "train",
        },
    ),
    (tinker.MetricsReader(), {"step": 1, "progress/done_frac": 0.5, "test/env/all/x": 1.0, "env/all/y": 2}),
    (
        nemo_rl.SampleReader(1, "train"),
        {
            "content": [["a", "b"]],
            "rewards": [1.0],
            "input_lengths": [2],
            "token_loss_mask": [[0, 1]],
            "advantages": [[0.0, 0.0]],
            "generation_logprobs": [[0.0, 0.0]],
            "prev_logprobs": [[0.0, 0.0]],
        },
    ),
    (
        skyrl.SampleReader(1),
        {"input_prompt": "a", "output_response": "b", "score": 1.0, "stop_reason": "stop"},
    ),
    (skyrl.MetricsReader(1), {"trainer/global_step": 1, "eval/all/avg_score": 1.0, "reward/x": 2}),
    (
        areal.TrajectoryReader("train", areal.Schedule()),
        {"task_id": 1, "sample_idx": 0, "seqlen": 9, "prompt_len": 3, "tail_version": 0, "reward": 1.0},
    ),
    (
        request_logs.SglangReader("x"),
        {
            "request_parameters": '{"sampling_params": {"temperature": 1}, "input_ids": [1]}',
            "finish_reason": {"type": "stop"},
            "weight_version": "1",
            "weight_versions": [{"version": "1"}],
            "output_token_logprobs": [[0.0, 1, None]],
        },
    ),
]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["1", "1/2", "NaN", "[]", "{}", '{"sampling_params": 3}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(("reader", "record"), KNOWN, ids=[type(reader).__name__ for reader, _ in KNOWN])
@settings(max_examples=40)
@given(st.data())
def test_any_value_in_any_field_breaks_nothing(
    reader: Reader, record: dict[str, Any], data: st.DataObject
) -> None:
    changed = data.draw(st.dictionaries(st.sampled_from(list(record)), anything, min_size=1))
    lines = b"\n".join(json.dumps(row).encode() for row in (record, record | changed, record))
    found = fed(reader.fresh(), lines)
    assert found
    assert not isinstance(found[0], Skipped)
    rollouts = [row for row in found if isinstance(row, Rollout)]
    if rollouts:
        encode(rollouts, History().names)


@pytest.mark.parametrize(("reader", "record"), KNOWN, ids=[type(reader).__name__ for reader, _ in KNOWN])
def test_a_missing_field_is_unknown_or_skipped(reader: Reader, record: dict[str, Any]) -> None:
    for name in record:
        rest = {key: value for key, value in record.items() if key != name}
        assert fed(reader.fresh(), json.dumps(rest).encode()) is not None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"reward_weights": 3}', b"null", b"\xff"])
def test_config_files_of_any_kind_break_nothing(data: bytes) -> None:
    for reader in (ms_swift.ArgsReader(RunContext()), tinker.ConfigReader(RunContext())):
        assert len(reader.whole(data)) == 1
