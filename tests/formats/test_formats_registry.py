import json
import subprocess
import sys
import tarfile
from pathlib import PurePath

import pytest
from format_reading import DATA, HEAD, sample
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.late import Late
from grpo_top.formats.registry import FORMATS, choose
from grpo_top.sources.access import read_head

ROLLOUT = b'{"kind": "rollout", "step": 1, "group": "a", "reward": 0.5}\n'


def chosen(name: str, data: bytes) -> tuple[str, str] | None:
    found = choose(PurePath(name), data[:HEAD])
    return found and (found[0].name, found[1].role)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("trl/normal_trainer_state.json.gz", ("trl", "metrics")),
        ("trl/normal_stdout.log.gz", ("trl", "console")),
        ("trl/normal_stderr.log.gz", None),
        ("verl/healthy_metrics.jsonl.gz", ("verl", "metrics")),
        ("verl/healthy_console.log.gz", ("verl", "console")),
        ("verl/healthy_1.jsonl.gz", ("verl", "rollouts")),
        ("verl/v1_1.jsonl.gz", ("verl", "rollouts")),
    ],
)
@pytest.mark.parametrize("name", ["renamed", "renamed.json", "renamed.jsonl", "renamed.log"])
def test_a_file_is_known_by_its_content_and_not_by_its_name(file, expected, name):
    assert chosen(name, sample(file)) == expected


def test_grpo_top_lines_are_known_with_and_without_the_run_record():
    run = b'{"kind": "run", "schema": "grpo-top/1", "framework": "trl"}\n'
    assert chosen("x", run + ROLLOUT) == chosen("x", ROLLOUT) == ("grpo-top", "rollouts")


def test_a_head_that_is_cut_in_a_line_is_enough():
    assert chosen("x", ROLLOUT + ROLLOUT[:20]) == ("grpo-top", "rollouts")
    assert chosen("completions_00001.parquet", sample("trl/normal_00001.parquet")[:100]) == (
        "trl",
        "rollouts",
    )


def test_a_completions_table_of_another_name_is_known_by_its_columns():
    assert chosen("table.parquet", sample("trl/normal_00001.parquet")) == ("trl", "rollouts")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("package.json", '{\n  "name": "x",\n  "version": "1.0.0"\n}\n'),
        ("tokenizer_config.json", '{"bos_token": "<s>", "chat_template": "{% for m in messages %}"}'),
        ("config.json", '{"hidden_size": 64, "vocab_size": 640}'),
        ("requirements.txt", "torch==2.13.0\ntrl==1.16.0\n"),
        ("README.md", "# A model\ntags:\n- trl\n- grpo\n\nTrained with GRPO, step by step.\n"),
        ("train.jsonl", '{"question": "2+2?", "answer": "4"}\n{"question": "1+2?", "answer": "3"}\n'),
        ("data.jsonl", '{"step": 1, "note": "x"}\n'),
        ("merges.txt", "#version: 0.2\na b\n"),
        ("main.py", "config = {'lr': 0.1, 'steps': 10}\nprint(config)\n"),
        ("empty", ""),
        ("cities.csv", "city,people\nA,3\n"),
    ],
)
def test_what_is_no_log_is_left_alone(name, content):
    assert chosen(name, content.encode()) is None


def test_the_state_of_another_kind_of_training_is_claimed_only_faintly():
    state = json.dumps({"global_step": 5, "log_history": [{"loss": 0.5, "step": 5}], "max_steps": 5}).encode()
    assert choose(PurePath("trainer_state.json"), state)[1].confidence < 30


def test_the_named_format_alone_may_claim():
    assert choose(PurePath("x"), ROLLOUT, "grpo-top")[0].name == "grpo-top"
    assert choose(PurePath("x"), ROLLOUT, "trl") is None


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"no format is called 'vrl'; did you mean verl\?"):
        choose(PurePath("x"), ROLLOUT, "vrl")
    with pytest.raises(ValueError, match="there are: grpo-top, trl, verl"):
        choose(PurePath("x"), ROLLOUT, "zzzzzz")


def test_config_is_read_before_metrics_before_rollouts_before_console():
    files = [
        "trl/normal_trainer_state.json.gz",
        "verl/v1_metrics.jsonl.gz",
        "verl/v1_1.jsonl.gz",
        "trl/normal_stdout.log.gz",
    ]
    orders = [choose(PurePath("x"), sample(file)[:HEAD])[1].order for file in files]
    assert orders == sorted(orders) == [1, 2, 3, 4]


def test_no_format_is_surer_than_it_says_it_can_be():
    files = [(PurePath(str(path).removesuffix(".gz")), read_head(path, HEAD)) for path in DATA.rglob("*.*")]
    with tarfile.open(DATA / "examples.tar.xz") as archive:
        files += [
            (PurePath(member.name), file.read(HEAD))
            for member in archive
            if (file := archive.extractfile(member)) is not None
        ]
    assert len(files) > 50
    for path, head in files:
        claims = [(found, claim) for found in FORMATS if (claim := found.claim(path, head))]
        assert [(found.name, claim) for found, claim in claims if claim.confidence > found.surest] == []
        assert choose(path, head) == max(claims, key=lambda pair: pair[1].confidence, default=None)


def test_formats_have_names_of_their_own():
    assert len({found.name for found in FORMATS}) == len(FORMATS)


def test_what_the_registry_says_of_a_format_is_what_the_format_says():
    late = [found for found in FORMATS if isinstance(found, Late)]
    assert len(late) > 20
    assert [(found.name, found.surest) for found in late] == [
        (found.itself.name, found.itself.surest) for found in late
    ]


def test_a_log_of_anybodys_names_loads_no_trainers_format():
    code = (
        "import sys; from pathlib import PurePath; from grpo_top.formats.registry import choose\n"
        """print(choose(PurePath('metrics.jsonl'), b'{"step": 1, "reward": 0.5}\\n')[0].name)\n"""
        "print([name for name in ('trl', 'verl', 'wandb', 'miles') if f'grpo_top.formats.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "jsonl\n[]\n"


def test_choosing_a_format_imports_no_heavy_library():
    code = "import sys, grpo_top.formats.registry; print({'pyarrow', 'numpy', 'textual', 'httpx'} & {*sys.modules})"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )


@given(
    st.binary(max_size=400), st.sampled_from(["a.jsonl", "completions_00001.parquet", "trainer_state.json"])
)
def test_no_bytes_make_a_claim_fail(head, name):
    choose(PurePath(name), head)
    choose(PurePath(name), b"PAR1" + head)
    choose(PurePath(name), b'{"step": 1, ' + head)
