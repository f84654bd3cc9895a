"""torchforge's printed blocks, written by hand after its source."""

from format_reading import fed, of, read

from grpo_top.formats.names import canonical_values
from grpo_top.formats.torchforge import ConsoleReader
from grpo_top.records import Run, Step

BLOCK = """\
[0] INFO === [controller] - METRICS STEP {step} ===
  buffer/sample/avg_sampled_policy_age: 0.5
  buffer/sample/max_sampled_policy_age: 2
  reward/evaluate_response/avg_total_reward: 0.41
  rl_trainer/avg_loss: nan
==============================

"""


def test_a_block_is_a_step_in_torchforges_own_words():
    found = read("train.log", ("start\n" + BLOCK.format(step=3) + "x: 1\n" + BLOCK.format(step=4)).encode())
    assert of(Run, found)[0].framework == "torchforge"
    assert [(step.step, step.rank, len(step.metrics)) for step in of(Step, found)] == [(3, 0, 4), (4, 0, 4)]
    values = canonical_values("torchforge", of(Step, found)[0].metrics)
    assert (values["reward_mean"], values["version_lag_mean"], values["version_lag_max"]) == (0.41, 0.5, 2.0)


def test_blocks_of_several_processes_are_one_step():
    other = BLOCK.format(step=3).replace("controller", "trainer")
    found = of(Step, fed(ConsoleReader(), (BLOCK.format(step=3) + other).encode()))
    assert [step.step for step in found] == [3, 3]
