import pytest

from grpo_top.config import Settings
from grpo_top.formats.pickles import explained
from grpo_top.monitor import Monitor, NothingReadable

WHY = "never loaded, since unpickling runs code"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("dumped_data/global_step_3_training_input.pkl", "SkyRL"),
        ("exports/global_step_12_training_input.pkl", "SkyRL"),
        ("details/rollout_data/0.pt", "--custom-rollout-log-function-path"),
        ("rollout_data/eval_7.pt", "--dump-details DIR"),
        ("debug/rollout_7.pt", "slime"),
    ],
)
def test_pickled_rollouts_are_refused_with_what_to_switch_on_instead(name: str, instead: str) -> None:
    line = explained(f"3 pickle files (e.g. {name}): {WHY}")
    assert line.startswith(f"3 pickle files (e.g. {name}): {WHY}. ")
    assert instead in line


@pytest.mark.parametrize(
    "line",
    [
        f"1 pickle file (e.g. cache.pkl): {WHY}",
        "1 old copy (e.g. rollout_data/0.pt): set aside by a rotation",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert explained(line) == line


def test_a_folder_of_nothing_but_pickles_says_so(tmp_path) -> None:
    (tmp_path / "rollout_data").mkdir()
    (tmp_path / "rollout_data" / "0.pt").write_bytes(b"\x80\x02}q\x00.")
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    assert [line for line in monitor.snapshot().left_out if "slime" in line]
    with pytest.raises(NothingReadable, match="slime: --use-tensorboard"):
        monitor.require_readable()
