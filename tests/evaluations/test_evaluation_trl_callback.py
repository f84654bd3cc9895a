"""The callback in a real GRPOTrainer: what is logged is what TRL itself computed. Needs trl and torch."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import pytest

from grpo_top.config import Settings
from grpo_top.monitor import Monitor

os.environ.setdefault("HF_HUB_OFFLINE", "1")
trl = pytest.importorskip("trl")
torch = pytest.importorskip("torch")

from datasets import Dataset  # noqa: E402  (only where TRL is)
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from grpo_top.trl_callback import GrpoTopCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")

if TYPE_CHECKING:
    from pathlib import Path

STEPS, GROUP, PROMPTS = 6, 4, 2


def _tokenizer() -> Any:
    letters = ["<pad>", "<eos>", *"0123456789+= abcdefgh"]
    tokenizer = Tokenizer(
        models.WordLevel({letter: at for at, letter in enumerate(letters)}, unk_token="<pad>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def _train(folder: Path) -> Any:
    torch.manual_seed(0)
    tokenizer = _tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )

    def digits(completions: list[str], log_extra: Any, **columns: Any) -> list[float]:
        log_extra("digits", [sum(map(str.isdigit, text)) for text in completions])
        log_extra("parsed", [any(map(str.isdigit, text)) for text in completions])
        return [float(sum(map(str.isdigit, text))) for text in completions]

    def maybe(completions: list[str], **columns: Any) -> list[float | None]:
        return [None if "a" in text else 1.0 for text in completions]

    rows = [{"prompt": f"{n}+{n}=", "family": "sums", "level": n % 2} for n in range(8)]
    Qwen2ForCausalLM(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    trainer = trl.GRPOTrainer(
        model=str(folder / "model"),
        reward_funcs=[digits, maybe],
        args=trl.GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=GROUP * PROMPTS,
            per_device_eval_batch_size=GROUP * PROMPTS,
            num_generations=GROUP,
            max_completion_length=6,
            max_steps=STEPS,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=3,
            beta=0.05,
            reward_weights=[1.0, 0.5],
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:2]),
        processing_class=tokenizer,
    )
    callback = GrpoTopCallback(trainer, folder / "log", run="tiny", env_version="1")
    trainer.add_callback(callback)
    trainer.train()
    assert callback.errors == 0
    return trainer


def test_a_trainer_with_the_callback_logs_the_ten_things(tmp_path: Path) -> None:
    trainer = _train(tmp_path)
    monitor = Monitor([str(tmp_path / "log")], Settings())
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    assert snapshot.skipped_count == 0
    run = snapshot.run
    assert (run.name, run.rollouts, run.group_size) == ("tiny", STEPS * GROUP * PROMPTS, GROUP)
    assert (run.last_step, run.total_steps, run.evals) == (STEPS, STEPS, 2)
    missing = {item.item: item.origin for item in snapshot.coverage if item.status == "missing"}
    assert not missing
    logged = {row["step"]: row for row in trainer.state.log_history if "reward" in row}
    for name, key in (
        ("reward_mean", "reward"),
        ("completion_tokens_mean", "completions/mean_length"),
        ("truncation_rate", "completions/clipped_ratio"),
        ("zero_variance_group_frac", "frac_reward_zero_std"),
    ):
        series = snapshot.series[name]
        assert series.origin == "rollouts"
        for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
            assert math.isclose(value, logged[step][key], rel_tol=1e-5, abs_tol=1e-6), (name, step)
    assert not {finding.id for finding in snapshot.findings} & {"LOGGED_REWARD_MISMATCH", "SAMPLER_DRIFT"}
