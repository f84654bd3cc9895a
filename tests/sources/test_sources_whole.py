"""A file that is read whole is given once it is complete, and once more each time it is rewritten."""

from __future__ import annotations

import gzip
import os
import time
from typing import TYPE_CHECKING

from grpo_top.sources.files import FileState, WholeFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PARQUET = b"PAR1" + b"columns" * 4 + b"PAR1"


def aged(path: Path, data: bytes, seconds: float) -> None:
    path.write_bytes(data)
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_parquet_file_is_given_once_its_end_is_written(tmp_path: Path) -> None:
    path = tmp_path / "completions_00001.parquet"
    file = WholeFile(path)
    assert (file.read(), file.state) == (None, FileState.WAITING)
    aged(path, PARQUET[:20], seconds=60)
    assert (file.read(), file.state) == (None, FileState.WAITING)
    path.write_bytes(PARQUET)
    assert (file.read(), file.state) == (PARQUET, FileState.LIVE)
    assert file.read() is None
    assert file.size == len(PARQUET)


def test_a_json_file_is_given_as_soon_as_it_parses(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_bytes(b'{"log_history": [{"loss": NaN}')
    file = WholeFile(path)
    assert (file.read(), file.state) == (None, FileState.WAITING)
    path.write_bytes(b'{"log_history": [{"loss": NaN}]}')
    assert file.read() == b'{"log_history": [{"loss": NaN}]}'
    assert file.read() is None


def test_a_json_file_that_has_stood_still_is_given_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    aged(path, b"{", seconds=1)
    assert WholeFile(path).read() == b"{"


def test_a_json_file_from_a_clock_ahead_is_given_once_it_has_stood_still_here(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    aged(path, b"{", seconds=-3600)
    file = WholeFile(path)
    assert file.read() is None
    time.sleep(WholeFile.QUIET_SECONDS)
    assert file.read() == b"{"


def test_any_other_file_is_given_when_two_looks_see_it_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"a = 1\n")
    file = WholeFile(path)
    assert file.read() is None
    path.write_bytes(b"a = 1\nb = 2\n")
    assert file.read() is None
    assert file.read() == b"a = 1\nb = 2\n"
    assert file.read() is None


def test_an_old_file_is_given_at_the_first_look(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    aged(path, b"a = 1\n", seconds=60)
    assert WholeFile(path).read() == b"a = 1\n"


def test_each_rewrite_is_given_in_an_epoch_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    file = WholeFile(path)
    seen = []
    for content in (b"{}", b"[]", b"[1]"):
        path.write_bytes(content)
        seen.append((file.read(), file.epoch))
    assert seen == [(b"{}", 0), (b"[]", 1), (b"[1]", 2)]


def test_a_replaced_file_is_given_again(tmp_path: Path) -> None:
    path, other = tmp_path / "config.json", tmp_path / "config.json.tmp"
    path.write_bytes(b"[1]")
    file = WholeFile(path)
    file.read()
    other.write_bytes(b"[2]")
    other.replace(path)
    assert file.read() == b"[2]"


def test_finish_takes_the_file_as_it_is_and_only_once(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(PARQUET[:20])
    file = WholeFile(path)
    assert file.read() is None
    assert file.finish() == PARQUET[:20]
    assert file.finish() is None


def test_finish_gives_nothing_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(PARQUET)
    file = WholeFile(path)
    file.read()
    assert file.finish() is None


def test_a_file_that_vanishes_is_gone_and_given_again_when_it_returns_changed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"[1]")
    file = WholeFile(path)
    file.read()
    path.unlink()
    assert (file.read(), file.state) == (None, FileState.GONE)
    path.write_bytes(b"[2]")
    assert (file.read(), file.state) == (b"[2]", FileState.LIVE)


def test_a_compressed_file_is_given_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json.gz"
    path.write_bytes(gzip.compress(b'{"step": 1}'))
    assert WholeFile(path).read() == b'{"step": 1}'


def test_a_file_past_the_limit_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholeFile, "LIMIT", 100)
    stored, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    stored.write_bytes(b" " * 101)
    packed.write_bytes(gzip.compress(b" " * 101))
    for path in (stored, packed):
        file = WholeFile(path)
        assert (file.read(), file.state) == (None, FileState.ERROR)
        assert str(path) in file.note
        assert "100" in file.note


def test_a_damaged_compressed_file_is_an_error_until_it_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(b"not gzip")
    file = WholeFile(path)
    assert (file.read(), file.state) == (None, FileState.ERROR)
    path.write_bytes(gzip.compress(b"[]"))
    assert (file.read(), file.state, file.note) == (b"[]", FileState.LIVE, "")


def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    os.mkfifo(path)
    file = WholeFile(path)
    assert (file.finish(), file.state) == (None, FileState.ERROR)
