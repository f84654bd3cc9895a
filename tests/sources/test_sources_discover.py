"""The files behind a place: all that are worth reading, each once, in the order that people expect."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.sources import discover as module
from grpo_top.sources.discover import Walker, discover
from grpo_top.sources.names import Kind, kind_of, natural_key

if TYPE_CHECKING:
    from pathlib import Path


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(root: Path, where: str | Path | None = None, limit: int = 100) -> list[str]:
    found = discover(where if where is not None else root, limit)
    return [str(path.relative_to(root)) for path in found.files]


# ---- what is taken


LOGS = [
    "metrics.jsonl",
    "trainer_state.json",
    "a.ndjson",
    "trainer.log",
    "console.txt",
    "a.csv",
    "slurm-7.out",
    "slurm-7.err",
    "stdout",
    "TRAIN.LOG",
    "0001.parquet",
    "project.db",
    "run-x.wandb",
    "config.toml",
    "config.yaml",
    "events.out.tfevents.17.host.1.0",
    "metrics.jsonl.gz",
    "metrics.jsonl.zst",
    "a.pre.jsonl",
]
RUBBISH = [
    "model.safetensors",
    "rank_0.bin",
    "rng_state_0.pth",
    "optimizer.pt",
    "model_world_size_8_rank_0.pt",
    "x.npz",
    "x.npy",
    "x.onnx",
    "last.ckpt",
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "model.safetensors.index.json",
]


@pytest.mark.parametrize("name", LOGS)
def test_logs_are_readable_by_their_names(name: str) -> None:
    assert kind_of(name) is Kind.READABLE


@pytest.mark.parametrize("name", RUBBISH)
def test_weights_and_tokenizers_are_rubbish(name: str) -> None:
    assert kind_of(name) is Kind.RUBBISH


@pytest.mark.parametrize(
    "name", ["README", "main.py", "a.jsonl.tmp", "plot.png", "x.tar.gz", ".gitignore", "gz"]
)
def test_other_files_are_not_taken(name: str) -> None:
    assert kind_of(name) is Kind.OTHER


def test_a_directory_is_walked_at_any_depth_hidden_folders_included(tmp_path: Path) -> None:
    make(
        tmp_path, "a.jsonl", ".art/p/models/m/history.jsonl", "x/y/z/0.jsonl", "README", "x/model.safetensors"
    )
    assert names(tmp_path) == ["a.jsonl", ".art/p/models/m/history.jsonl", "x/y/z/0.jsonl"]


def test_folders_of_tools_are_not_walked(tmp_path: Path) -> None:
    make(tmp_path, ".git/a.log", "node_modules/b/c.json", "__pycache__/a.txt", ".venv/lib/x.json", "a.log")
    assert names(tmp_path) == ["a.log"]


def test_names_are_in_natural_order(tmp_path: Path) -> None:
    make(
        tmp_path, "step_10/a.jsonl", "step_2/a.jsonl", "step_2/b.jsonl", "10.jsonl", "9.jsonl", "step_1.jsonl"
    )
    assert names(tmp_path) == [
        "9.jsonl",
        "10.jsonl",
        "step_1.jsonl",
        "step_2/a.jsonl",
        "step_2/b.jsonl",
        "step_10/a.jsonl",
    ]


@given(st.lists(st.text("a0129_.-٣", max_size=6)))
def test_the_natural_order_is_one_order_for_all_names(some: list[str]) -> None:
    ordered = sorted(some, key=natural_key)
    shuffled = some.copy()
    random.Random(0).shuffle(shuffled)
    assert sorted(shuffled, key=natural_key) == ordered


def test_mlflow_metrics_are_taken_though_they_have_no_suffix(tmp_path: Path) -> None:
    run = "mlruns/0/8d2f"
    make(
        tmp_path,
        f"{run}/meta.yaml",
        f"{run}/metrics/reward",
        f"{run}/metrics/train/kl.mean",
        f"{run}/params/lr",
    )
    assert names(tmp_path) == [f"{run}/meta.yaml", f"{run}/metrics/reward", f"{run}/metrics/train/kl.mean"]


def test_the_root_is_what_names_are_relative_to(tmp_path: Path) -> None:
    make(tmp_path, "run/a.jsonl")
    assert discover(tmp_path / "run").root == tmp_path / "run"
    assert discover(tmp_path / "run" / "a.jsonl").root == tmp_path / "run"
    assert discover(f"{tmp_path}/*/a.jsonl").root == tmp_path


def test_a_relative_place_gives_absolute_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "run/a.jsonl")
    monkeypatch.chdir(tmp_path)
    assert discover("run").files == (tmp_path / "run" / "a.jsonl",)
    assert discover(".").root == tmp_path


# ---- a file, or nothing


def test_a_file_that_is_named_is_taken_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, "rollouts", "metrics.jsonl.1", "odd[1].jsonl")
    assert names(tmp_path, tmp_path / "rollouts") == ["rollouts"]
    assert names(tmp_path, tmp_path / "metrics.jsonl.1") == ["metrics.jsonl.1"]
    assert names(tmp_path, tmp_path / "odd[1].jsonl") == ["odd[1].jsonl"]


def test_weights_that_are_named_are_left_out_in_words(tmp_path: Path) -> None:
    make(tmp_path, "model.safetensors")
    found = discover(tmp_path / "model.safetensors")
    assert found.files == ()
    assert found.left_out == ("1 file of weights or a tokenizer (e.g. model.safetensors): no log",)


def test_nothing_there_gives_no_files(tmp_path: Path) -> None:
    assert discover(tmp_path / "nowhere") == (tmp_path, (), ())
    assert discover(tmp_path / "nowhere" / "*.jsonl").files == ()


# ---- globs


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.jsonl", ["a.jsonl"]),
        ("*/a.jsonl", ["x/a.jsonl", "z/a.jsonl"]),
        ("**/a.jsonl", ["a.jsonl", "x/a.jsonl", "x/y/a.jsonl", "z/a.jsonl"]),
        ("x/**", ["x/a.jsonl", "x/b.log", "x/y/a.jsonl"]),
        ("[xz]", ["x/a.jsonl", "x/b.log", "x/y/a.jsonl", "z/a.jsonl"]),
        ("**/y/*", ["x/y/a.jsonl"]),
        ("**/**/b.log", ["x/b.log"]),
        ("?/b.*", ["x/b.log"]),
        ("*/nothing", []),
    ],
)
def test_a_glob_takes_what_it_matches_and_all_below(
    tmp_path: Path, pattern: str, expected: list[str]
) -> None:
    make(tmp_path, "a.jsonl", "x/a.jsonl", "x/b.log", "x/y/a.jsonl", "z/a.jsonl", "z/model.bin")
    assert names(tmp_path, f"{tmp_path}/{pattern}") == expected


def test_a_glob_looks_only_into_folders_that_may_match(tmp_path: Path) -> None:
    make(tmp_path, "run1/a.jsonl", "run1/deep/er/b.jsonl", "other/c.jsonl")
    walker = Walker(f"{tmp_path}/run*/a.jsonl")
    walker.scan()
    assert len(walker.folders) == 2


# ---- links


def test_loops_of_links_end_and_each_real_file_comes_once_under_its_own_name(tmp_path: Path) -> None:
    make(tmp_path, "z/a.jsonl")
    (tmp_path / "z" / "loop").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "latest").symlink_to(tmp_path / "z")
    (tmp_path / "latest.jsonl").symlink_to(tmp_path / "z" / "a.jsonl")
    (tmp_path / "b.jsonl").hardlink_to(tmp_path / "z" / "a.jsonl")
    found = discover(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found.files] == ["b.jsonl"]
    assert found.left_out == ()
    assert names(tmp_path, f"{tmp_path}/**/a.jsonl") == ["z/a.jsonl"]


def test_what_only_a_link_leads_to_is_taken(tmp_path: Path) -> None:
    make(tmp_path, "store/a.jsonl", "store/deep/b.jsonl", "run/c.jsonl")
    (tmp_path / "run" / "a.jsonl").symlink_to(tmp_path / "store" / "a.jsonl")
    (tmp_path / "run" / "deep").symlink_to(tmp_path / "store" / "deep")
    (tmp_path / "run" / "nowhere.jsonl").symlink_to(tmp_path / "nowhere")
    assert names(tmp_path, tmp_path / "run") == ["run/c.jsonl", "run/a.jsonl", "run/deep/b.jsonl"]


# ---- what is left out


def test_pickles_are_left_out_in_words(tmp_path: Path) -> None:
    make(tmp_path, "rollout_data/0.pt", "rollout_data/1.pt", "rollout_data/2.pkl", "optimizer.pt")
    found = discover(tmp_path)
    assert found.files == ()
    assert found.left_out == (
        "3 pickle files (e.g. rollout_data/0.pt): never loaded, since unpickling runs code",
    )


def test_old_copies_of_a_log_are_left_out_in_words(tmp_path: Path) -> None:
    make(tmp_path, "m.jsonl", "m.jsonl.1", "m.jsonl.2.gz", "m.jsonl.pre_resume_000010", "m.log.bak")
    assert names(tmp_path) == ["m.jsonl"]
    assert discover(tmp_path).left_out[0].startswith("4 old copies (e.g. m.jsonl.1): set aside")


def test_pipes_and_sockets_are_left_out_in_words_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "pipe.jsonl")
    for where in (tmp_path, tmp_path / "pipe.jsonl"):
        found = discover(where)
        assert found.files == ()
        assert "never opened" in found.left_out[0]


def test_what_is_past_the_limit_is_left_out_in_words(tmp_path: Path) -> None:
    make(tmp_path, *(f"{number}.jsonl" for number in range(1, 13)))
    found = discover(tmp_path, limit=10)
    assert len(found.files) == 10
    assert found.left_out == ("2 files (e.g. 11.jsonl): past the limit of 10",)


def test_folders_past_the_limit_are_not_looked_into(tmp_path: Path) -> None:
    make(tmp_path, "1/a.jsonl", "2/b.jsonl", "3/c.jsonl")
    found = discover(tmp_path, limit=2)
    assert [path.name for path in found.files] == ["a.jsonl"]
    assert found.left_out == ("2 folders (e.g. 2): past the limit of 2",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_left_out_in_words(tmp_path: Path) -> None:
    make(tmp_path, "a.jsonl", "closed/b.jsonl")
    (tmp_path / "closed").chmod(0)
    found = discover(tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert [path.name for path in found.files] == ["a.jsonl"]
    assert found.left_out == ("1 unreadable folder (e.g. closed): see its permissions",)


def test_a_folder_that_fails_to_list_is_left_out_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a.jsonl", "closed/b.jsonl")
    real = os.scandir

    def scandir(path: Path) -> object:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = discover(tmp_path)
    assert [path.name for path in found.files] == ["a.jsonl"]
    assert found.left_out == ("1 unreadable folder (e.g. closed): see its permissions",)


# ---- again and again


def test_a_scan_in_which_nothing_changed_gives_the_same_object(tmp_path: Path) -> None:
    make(tmp_path, "a.jsonl", "x/b.jsonl")
    walker = Walker(tmp_path)
    first = walker.scan()
    assert walker.scan() is first
    make(tmp_path, "x/c.jsonl")
    assert [path.name for path in walker.scan().files] == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_settled_folders_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, *(f"step_{number}/a.jsonl" for number in range(10)))
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0.0)
    walker = Walker(tmp_path)
    walker.scan()
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or real(path))
    walker.scan()
    assert listed == []
    time.sleep(0.02)  # a coarse clock must show the change
    make(tmp_path, "step_3/b.jsonl")
    walker.scan()
    assert listed == [tmp_path / "step_3"]


def test_a_folder_is_listed_again_while_its_mtime_is_young(tmp_path: Path) -> None:
    make(tmp_path, "a.jsonl")
    walker = Walker(tmp_path)
    walker.scan()
    before = tmp_path.stat()
    make(tmp_path, "b.jsonl")
    os.utime(
        tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns)
    )  # as a clock of whole seconds would show it
    assert [path.name for path in walker.scan().files] == ["a.jsonl", "b.jsonl"]


def test_a_place_that_appears_later_is_found(tmp_path: Path) -> None:
    walker = Walker(tmp_path / "run")
    assert walker.scan().files == ()
    (tmp_path / "run").mkdir()
    assert walker.scan() == (tmp_path / "run", (), ())
    make(tmp_path, "run/a.jsonl")
    assert walker.scan().files == (tmp_path / "run" / "a.jsonl",)


def test_scanning_again_always_finds_what_a_first_scan_would(tmp_path: Path) -> None:
    chance = random.Random(4)
    walkers = [Walker(tmp_path), Walker(f"{tmp_path}/*/[ab].jsonl")]
    for _ in range(150):
        path = tmp_path / chance.choice("xyz") / chance.choice(["", "deep"]) / f"{chance.choice('abc')}.jsonl"
        match chance.choice(["make", "make", "remove", "link", "move"]):
            case "make" if not path.is_symlink():
                make(path.parent, path.name)
            case "remove":
                path.unlink(missing_ok=True)
            case "link" if path.parent.exists() and not os.path.lexists(path):
                path.symlink_to(tmp_path / chance.choice("xyz") / "a.jsonl")
            case "move" if path.parent.exists():
                target = tmp_path / chance.choice("uvw")
                if not target.exists():
                    path.parent.rename(target)
        for walker, where in zip(walkers, (tmp_path, f"{tmp_path}/*/[ab].jsonl"), strict=True):
            assert walker.scan() == discover(where)
