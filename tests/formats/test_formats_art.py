import json
import sys
from pathlib import PurePath

import pytest
import runs
import yaml
from format_reading import fed, of, opened, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.art import GroupsReader, HistoryReader, Place
from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.registry import choose
from grpo_top.records import NOWHERE, Eval, Location, Rollout, Run, Skipped, Step

MODEL = ".art/arith/models/tiny-001"
TABLE = f"{MODEL}/trajectories/train/{{:04d}}.parquet"


def lines(*records: object) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def table(step: int) -> list[Rollout]:
    return of(Rollout, read(TABLE.format(step), packed("openpipe-art-run", TABLE.format(step))))


# Tables


def test_a_row_is_a_rollout_under_the_step_that_the_file_is_named_after():
    found = table(3)
    assert len(found) == 48
    assert {(rollout.step, rollout.split) for rollout in found} == {(3, "train")}
    assert [rollout.location for rollout in found[:2]] == [Location(0, 0), Location(1, 0)]


def test_a_failed_rollout_is_missing_from_its_group():
    found = table(7)
    sizes = [sum(rollout.group == str(group) for rollout in found) for group in range(6)]
    assert sizes == [8, 7, 8, 8, 8, 8]


def test_columns_that_hold_json_in_strings_are_opened():
    rollout = table(7)[1]
    assert rollout.rewards == {"correct": 0.0, "format": 0.0}
    assert (rollout.completion_tokens, rollout.truncated, rollout.finish_reason) == (256, True, "length")
    assert (rollout.tier, rollout.task.split(" ")[0]) == ("easy", "s7_0")


def test_trainable_turns_are_what_was_sampled():
    rollout = table(7)[1]
    assert [message.role for message in rollout.messages] == ["system", "user", "assistant"]
    assert rollout.prompt == "Answer briefly.\nWhat is 96 + 82?"
    assert rollout.completion == "96+82: carry the one. and then"


def test_the_folder_says_the_split():
    name = f"{MODEL}/trajectories/val/0010.parquet"
    found = of(Rollout, read(name, packed("openpipe-art-run", name)))
    assert {(rollout.step, rollout.split) for rollout in found} == {(10, "eval")}


def test_discarded_groups_are_groups_of_the_step_without_variance(tmp_path):
    directory = runs.unpack_sample("openpipe-art-run", tmp_path)
    trained = directory / TABLE.format(9)
    discarded = trained.parent.parent / "discarded" / trained.name
    discarded.parent.mkdir()
    trained.rename(discarded)
    snapshot = runs.read(directory)
    assert runs.values(snapshot, "groups")[9] == 6
    assert snapshot.batch(9).group_label(0) == "discarded 0"


def test_a_table_of_another_name_is_known_by_its_columns():
    data = packed("openpipe-art-run", TABLE.format(1))
    assert choose(PurePath("renamed.parquet"), data)[0].name == "art"
    (found,) = {type(record) for record in read("renamed.parquet", data)}
    assert found is Skipped


def test_a_large_table_is_known_by_its_place():
    assert choose(PurePath(TABLE.format(1)), b"PAR1" + bytes(100))[0].name == "art"


def test_a_damaged_table_is_skipped_with_a_reason():
    (found,) = read(TABLE.format(1), packed("openpipe-art-run", TABLE.format(1))[:-100])
    assert found.reason.startswith("not a readable parquet file: ")


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (found,) = read(TABLE.format(1), packed("openpipe-art-run", TABLE.format(1)))
    assert found == Skipped("parquet files need the extra: pip install 'grpo-top[parquet]'", 0)


def test_a_rollout_is_replayed_from_its_row():
    data = packed("openpipe-art-run", TABLE.format(2))
    reader = opened(TABLE.format(2), data)
    found = of(Rollout, reader.whole(data))
    assert [reader.replay(data, rollout.location) for rollout in found] == found
    assert reader.replay(data, Location(48, 0)) is None


# History


def history(*records: object) -> list[object]:
    return read(f"{MODEL}/history.jsonl", lines(*records))


def test_a_row_of_each_step_and_the_evaluations_between_them():
    found = read(f"{MODEL}/history.jsonl", packed("openpipe-art-run", f"{MODEL}/history.jsonl"))
    assert found[0] == Run(run="tiny-001", framework="art")
    assert [step.step for step in of(Step, found)] == list(range(1, 11))
    (evaluation,) = of(Eval, found)
    assert (evaluation.step, evaluation.suite, heldout_value(evaluation.metrics)) == (10, "val", 0.8125)


def test_counts_of_an_evaluation_are_not_those_of_its_step(tmp_path):
    directory = runs.unpack_sample("openpipe-art-run", tmp_path)
    for path in (directory / MODEL / "trajectories" / "train").iterdir():
        path.unlink()
    snapshot = runs.read(directory)
    assert snapshot.series["zero_variance_group_frac"].origin == "trainer"
    assert runs.values(snapshot, "zero_variance_group_frac")[10] == 0.0


def test_groups_without_variance_are_those_that_were_submitted_and_not_trained_on():
    row = {"data/step_num_groups_submitted": 6.0, "data/step_num_groups_trainable": 4.0}
    assert canonical_values("art", row)["zero_variance_group_frac"] == pytest.approx(1 / 3)


def test_means_of_a_pipeline_leave_out_flat_groups_and_are_not_the_rollouts():
    row = {"train/reward": 0.5, "train/steps_off_policy": 1.0}
    assert canonical_values("art", row) == {"reward_mean": 0.5, "version_lag_mean": 1.0}
    pipeline = row | {"train/discarded_stale_groups": 2.0}
    assert canonical_values("art", pipeline) == {"version_lag_mean": 1.0, "stale_dropped": 2.0}


def test_a_key_that_was_not_a_number_is_missing_and_unknown():
    found = of(Step, read(f"{MODEL}/history.jsonl", packed("openpipe-art-run", f"{MODEL}/history.jsonl")))
    known = ["learning_rate" in canonical_values("art", step.metrics) for step in found]
    assert known == [True, False] * 5


def test_the_state_of_the_metrics_is_known_and_not_read():
    name = f"{MODEL}/state.json"
    assert choose(PurePath(name), packed("openpipe-art-run", name))[1].feed == "none"


# Groups a line, before 0.5

GROUP = {
    "trajectories": [
        {
            "reward": reward,
            "metrics": {"correct": reward > 0},
            "metadata": {"scenario_id": "s1"},
            "messages_and_choices": [
                {"role": "user", "content": "2+2?"},
                {"finish_reason": reason, "index": 0, "message": {"role": "assistant", "content": answer}},
            ],
            "tools": None,
            "additional_histories": [],
            "logs": [],
        }
        for reward, answer, reason in ((1.0, "4", "stop"), (0.0, "I think", "length"))
    ]
}


def test_a_line_of_old_is_a_group_and_the_last_one_has_no_newline():
    found = of(Rollout, read("trajectories/train/0007.jsonl", lines(GROUP, GROUP)))
    assert [(rollout.step, rollout.group, rollout.location.part) for rollout in found] == [
        (7, "0", 0),
        (7, "0", 1),
        (7, "1", 0),
        (7, "1", 1),
    ]
    assert [(rollout.finish_reason, rollout.completion) for rollout in found[:2]] == [
        ("stop", "4"),
        ("length", "I think"),
    ]
    assert found[0].rewards == {"correct": 1.0}


def test_each_rollout_of_a_group_is_replayed():
    data = lines(GROUP, GROUP)
    reader = opened("trajectories/train/0007.jsonl", data)
    for found in of(Rollout, fed(reader, data)):
        where = found.location
        again = reader.replay(data[where.offset : where.offset + where.length], where)
        assert again.completion == found.completion


def old_yaml(*groups: object) -> bytes:
    return yaml.dump(list(groups)).encode()


def test_the_first_versions_wrote_groups_as_yaml():
    data = old_yaml(GROUP, "no group", GROUP)
    name = "trajectories/train/0007.yaml"
    found = read(name, data)
    again = of(Rollout, read("trajectories/train/0007.jsonl", lines(GROUP, "no group", GROUP)))
    rollouts = of(Rollout, found)
    assert [rollout._replace(location=NOWHERE, group=None) for rollout in rollouts] == [
        rollout._replace(location=NOWHERE, group=None) for rollout in again
    ]
    assert [rollout.group for rollout in rollouts] == ["0", "0", "2", "2"]
    assert [skipped.reason for skipped in of(Skipped, found)] == ["group without trajectories"]
    for rollout in rollouts:
        assert opened(name, data).replay(data, rollout.location) == rollout
    (skipped,) = read(name, data[:-40] + b"\n: [")
    assert "not YAML" in skipped.reason


def test_what_a_trajectorys_metadata_says_beside_its_scenario_is_taken():
    said = {"finish_reason": "abort", "policy_version": 4, "seed": 7, "data_source": "gsm8k"}
    one = GROUP["trajectories"][0] | {"metadata": said}
    (rollout,) = of(Rollout, read("trajectories/train/0007.jsonl", lines({"trajectories": [one]})))
    assert (rollout.policy_version, rollout.seed, rollout.family) == (4, 7, "gsm8k")


def test_history_of_any_section_is_read_and_what_is_summed_up_keeps_its_name():
    first = {"costs/step": 0.5, "step": 1, "training_step": 1, "recorded_at": "2026-11-30T10:14:44"}
    second = first | {"data/cum/num_groups_trainable": 9.0, "data/cum/num_groups_submitted": 12.0}
    found = of(Step, history(first, second))
    assert found[1].metrics["data/cum/num_groups_trainable"] == 9.0


LINES = [
    lines(GROUP),
    lines({"train/reward": 0.5, "step": 1, "training_step": 1, "recorded_at": "2026-11-30T10:14:44"}),
    lines({"val/reward": 0.5, "step": 1, "recorded_at": "2026-11-30T10:14:44"}),
    b'{"trajectories": [{"reward": "x"}, 3, {"messages_and_choices": 4}]}',
    b'{"trajectories": 3}',
    b"[]",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=8), st.sets(st.integers(1, 7)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (GroupsReader(Place(3, "train")), HistoryReader("m")):
        assert fed(reader.fresh(), data, cuts) == fed(reader.fresh(), data)


def test_garbage_between_groups_loses_itself_alone():
    good = lines(GROUP)
    found = read("trajectories/train/0007.jsonl", b"\n".join([good, good[:40], good]))
    assert [type(record) for record in found] == [Rollout, Rollout, Skipped, Rollout, Rollout]


def test_a_hidden_folder_is_looked_into(tmp_path):
    runs.unpack_sample("openpipe-art-run", tmp_path)
    assert (tmp_path / ".art").is_dir()
    assert runs.read(tmp_path).run.steps == 10
