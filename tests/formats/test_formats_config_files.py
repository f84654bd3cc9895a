"""Settings that frameworks write down when a run starts. The files are made by hand after each framework's names."""

import json

import pytest
from format_reading import of, opened, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.base import RunContext
from grpo_top.formats.config_files import ConfigReader
from grpo_top.formats.yaml_values import parse_yaml
from grpo_top.records import Run, Skipped

AREAL = b"""\
experiment_name: gsm8k
trial_name: t0
total_train_epochs: 10
allocation_mode: sglang:d4+d4
rollout:
  max_concurrent_rollouts: 64
  max_head_offpolicyness: 2
  dump_to_file: true
gconfig:
  n_samples: 8
  max_new_tokens: 1024
  max_tokens: 32768
  greedy: false
  top_p: 1.0
  top_k: 100000000
  temperature: 0.9
  stop: null
actor:
  group_size: 8
  mode: !!python/object/apply:areal.api.Mode
  - disabled
stats_logger:
  tensorboard: {path: null}
"""
VERL = b"""\
data:
  max_response_length: 512
  train_batch_size: 64
actor_rollout_ref:
  actor:
    use_kl_loss: true
  rollout:
    name: vllm
    n: 5
    temperature: 1.0
    top_k: -1
    response_length: ${data.max_response_length}
    val_kwargs: {temperature: 0, n: 1}
algorithm:
  adv_estimator: grpo
trainer:
  total_training_steps: 200
"""
NEMO = b"""\
grpo:
  num_prompts_per_step: 32
  num_generations_per_prompt: 16
  max_num_steps: 1000
  async_grpo: {enabled: true, max_trajectory_age_steps: 1}
policy:
  model_name: "Qwen/Qwen2.5-1.5B"
  generation: {backend: vllm, max_new_tokens: 512, temperature: 1.0, top_p: 1.0, top_k: null}
"""


def run_of(name: str, data: bytes) -> Run:
    (run,) = of(Run, read(name, data))
    return run


def test_areals_config_gives_what_it_means_to_sample_and_how_old_a_rollout_may_be():
    run = run_of("logs/me/gsm8k/t0/config.yaml", AREAL)
    assert (run.framework, run.group_size, run.version_lag_tolerance) == ("areal", 8, 2.0)
    assert run.sampling == {"max_tokens": 1024, "top_p": 1.0, "top_k": 0, "temperature": 0.9}


def test_greedy_sampling_is_meant_at_temperature_0():
    run = run_of("config.yaml", AREAL.replace(b"greedy: false", b"greedy: true"))
    assert run.sampling is not None
    assert run.sampling["temperature"] == 0.0


def test_verls_config_as_hydra_keeps_it():
    run = run_of("outputs/2026-11-30/12-00-00/.hydra/config.yaml", VERL)
    assert (run.framework, run.algorithm, run.group_size, run.total_steps) == ("verl", "grpo", 5, 200)
    assert run.sampling == {"max_tokens": 512, "temperature": 1.0, "top_k": 0}


def test_nemo_rls_config():
    run = run_of("renamed", NEMO)
    assert (run.framework, run.group_size, run.total_steps) == ("nemo-rl", 16, 1000)
    assert run.sampling == {"max_tokens": 512, "temperature": 1.0, "top_p": 1.0}
    assert run.version_lag_tolerance == 1.0


def test_the_same_settings_as_json():
    settings = json.dumps(parse_yaml(NEMO), indent=2).encode()
    assert run_of("config.json", settings) == run_of("config.yaml", NEMO)


def test_the_config_that_wandb_keeps_beside_a_run_wraps_each_value():
    wrapped = {name: {"desc": None, "value": value} for name, value in parse_yaml(VERL).items()}
    assert run_of("config.json", json.dumps(wrapped).encode()) == run_of("config.yaml", VERL)


def test_a_recipe_of_trl():
    recipe = b"num_generations: 8\nmax_completion_length: 256\ntemperature: 0.7\nlogging_steps: 5\n"
    context = RunContext()
    (run,) = of(Run, read("recipe.yaml", recipe, context))
    assert (run.framework, run.sampling) == ("trl", {"max_tokens": 256, "temperature": 0.7})
    assert context.logging_steps == 5


@pytest.mark.parametrize(
    "data", [b"gconfig:\nactor: [1\n", b"gconfig: 1\nactor: *nobody\n", b"gconfig:\nactor:\n\t- a\n"]
)
def test_yaml_that_is_broken_is_skipped_with_the_line(data):
    (skipped,) = read("config.yaml", data)
    assert isinstance(skipped, Skipped)
    assert "not YAML" in skipped.reason


def test_a_few_lines_that_stand_for_too_many_values_are_refused():
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(ValueError, match="stands for more than"):
        parse_yaml(b"l0: &l0 [x]\n" + levels.encode())


def test_yaml_that_is_nested_too_deeply_is_refused():
    for deep in (b"[" * 100_000, b"[" * 50_000 + b"]" * 50_000, b"- " * 50_000, b"[" * 2_000 + b"]" * 2_000):
        with pytest.raises(ValueError, match="not YAML"):
            parse_yaml(deep)
    with pytest.raises(ValueError, match="nested more than 200 deep"):  # whatever libyaml itself takes
        parse_yaml(b"a: " + b"[" * 900 + b"]" * 900 + b"\n" + b"# long\n" * 2_000)


def test_nothing_that_yaml_names_is_called():
    made = parse_yaml(b"a: !!python/object/apply:os.system ['touch x']\nb: !!python/name:os.system ''\n")
    assert made == {"a": ["touch x"], "b": ""}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", b"model: x\nlr: 0.1\n"),
        ("docker-compose.yml", b"services:\n  trainer: {}\n"),
        ("meta.yaml", b"run_id: a\nstatus: 3\n"),
        ("train.log", b"policy: a\ngrpo: b\n\x1b[36mx\n"),
    ],
)
def test_other_yaml_is_left_alone(name, content):
    found = opened(name, content) if b"run_id" in content else None
    assert not isinstance(found, ConfigReader)
    if found is None and b"\x1b" not in content:
        with pytest.raises(AssertionError):
            opened(name, content)


@given(st.binary(max_size=200))
def test_no_bytes_are_too_wrong(data):
    ConfigReader(RunContext()).whole(b"gconfig: 1\nactor: 2\n" + data)
    ConfigReader(RunContext()).whole(data)
