"""Fields of any kind, in any record: the next one is read all the same."""

import json
from pathlib import PurePath
from typing import Any

import pytest
from format_reading import fed
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.bundle import bundled
from grpo_top.encode import encode
from grpo_top.formats import (
    areal,
    art,
    atropos,
    atropos_evals,
    miles_samples,
    ms_swift,
    nemo_rl,
    plain,
    prime_rl_exports,
    sglang_requests,
    skyrl,
    tinker,
    trl,
    verifiers,
    verl,
)
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
        tinker.SummaryReader(PurePath("train_rollout_summaries.jsonl"), RunContext()),
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
        sglang_requests.MetricsReader("x"),
        {
            "request_parameters": '{"sampling_params": {"temperature": 1}, "input_ids": [1]}',
            "finish_reason": {"type": "stop"},
            "weight_version": "1",
            "weight_versions": [{"version": "1"}],
            "output_token_logprobs": [[0.0, 1, None]],
        },
    ),
    (
        sglang_requests.LogReader("x"),
        {
            "timestamp": "2026-11-30T12:00:39",
            "event": "request.finished",
            "obj": {"sampling_params": {"temperature": 1}},
            "out": {"text": "4", "meta_info": {"weight_version": "1", "prompt_tokens": 2}},
        },
    ),
    (
        verl.DumpReader(1, "train"),
        {"input": "a", "output": "b", "gts": "c", "score": 1.0, "step": 1, "uid": "a_1_0", "acc": 1}
        | {"extra_info": {"task_id": 1}, "sampling_params": {"top_p": 1}, "finish_reason": "stop"},
    ),
    (
        trl.CompletionLinesReader(RunContext()),
        {"step": 1, "prompt": "a", "completion": "b", "accuracy": 1.0, "advantage": 0.5, "seed": 3},
    ),
    (
        miles_samples.SamplesReader(1, "train"),
        {"group_index": 0, "index": 1, "response": "b", "status": "completed", "reward": {"score": 1}}
        | {"weight_versions": ["1"], "finish_reasons": ["stop"], "tokens": [1, 2], "response_length": 1}
        | {
            "rollout_log_probs": [-0.5],
            "prompt": [{"role": "user", "content": "a"}],
            "metadata": {"tier": "x"},
        },
    ),
    (
        art.GroupsReader(art.Place(1, "train")),
        {
            "trajectories": [
                {"reward": 1.0, "metrics": {"a": 1}, "metadata": {"seed": 1}, "messages_and_choices": []}
            ]
        },
    ),
    (
        atropos.GroupsReader("g", RunContext()),
        {"tokens": [[1]], "masks": [[1]], "scores": [1.0], "messages": [[{"role": "user", "content": "a"}]]},
    ),
    (
        atropos_evals.SamplesReader(RunContext()),
        {"messages": [{"role": "user", "content": "a"}], "score": 1.0, "category": "x"},
    ),
    (
        prime_rl_exports.ExportReader(PurePath("rank_0.jsonl"), {}),
        {"step": 1, "token_ids": [1], "loss_mask": [True], "inference_logprobs": [-0.5]}
        | {"trainer_logprobs": [-0.25], "mismatch_kl": [0.1], "importance_ratio": [1.0]},
    ),
    (
        plain.PlainReader(RunContext()),
        {
            "step": 1,
            "prompt": "a",
            "completions": ["b", "c"],
            "rewards": [1, 0],
            "lengths": [1, 2],
            "meta": {"x": 1},
        },
    ),
    (
        plain.PlainReader(RunContext()),
        {
            "step": 1,
            "groups": [{"samples": [{"text": "b", "reward": 1}]}, {"rewards": [1], "completions": ["x"]}],
        },
    ),
    (
        plain.PlainReader(RunContext()),
        {"step": 1, "metrics": {"kl": {"mean": 0.5}}, "name": "kl", "value": 1},
    ),
    (
        verifiers.ResultsReader(0),
        {"example_id": 1, "prompt": "a", "completion": "b", "reward": 1.0, "task": "x", "error": "E('x')"}
        | {"info": {"tier": "x"}, "metrics": {"a": 1}, "trajectory": [{"tokens": {}}], "timing": {}},
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
@settings(max_examples=25)
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
        encode(bundled(rollouts), History().names)


@pytest.mark.parametrize(("reader", "record"), KNOWN, ids=[type(reader).__name__ for reader, _ in KNOWN])
def test_a_missing_field_is_unknown_or_skipped(reader: Reader, record: dict[str, Any]) -> None:
    for name in record:
        rest = {key: value for key, value in record.items() if key != name}
        assert fed(reader.fresh(), json.dumps(rest).encode()) is not None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"reward_weights": 3}', b"null", b"\xff"])
def test_config_files_of_any_kind_break_nothing(data: bytes) -> None:
    for reader in (ms_swift.ArgsReader(RunContext()), tinker.ConfigReader(RunContext())):
        assert len(reader.whole(data)) == 1
