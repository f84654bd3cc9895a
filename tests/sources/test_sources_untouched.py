"""A run directory is only looked at: nothing in it is written, locked or renamed, and what is no file is not opened."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from runs import group, run_record, step_record, write_log

ROOT = Path(__file__).parent.parent.parent
CHANGES = (
    "creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,truncate,"
    "ftruncate,chmod,fchmod,fchmodat,chown,fchown,fchownat,utimensat,utime,utimes,setxattr,fsetxattr"
)
OPENS = re.compile(r'open(?:at)?\(.*"[^"]*", ([A-Z_|]+)[^"]*\) += \d+<([^>]*)>')


def _run_directory(folder: Path) -> dict[str, bytes]:
    """A run with a log, a database that is being written, and what must not be opened; the files' contents."""
    records = [run_record(), *group(1, "a", (0, 1)), step_record(1, kl=0.1), *group(2, "a", (0, 1))]
    write_log(folder / "rollouts.jsonl", records)
    (folder / "completions").mkdir()
    shutil.copy(
        ROOT / "tests/data/formats/trl/normal_00001.parquet", folder / "completions/completions_00001.parquet"
    )
    with closing(sqlite3.connect(folder / "own.db")) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table metrics (step, value)")
        connection.commit()
        found = {path.name: path.read_bytes() for path in folder.glob("own.db*")}
    for name, content in found.items():  # as a writer leaves them while it is at work
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "zeros.jsonl").symlink_to("/dev/zero")
    (folder / "round").symlink_to(folder)
    (folder / "itself.jsonl").symlink_to("itself.jsonl")
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_every_call_under_the_run_directory_only_reads(tmp_path: Path) -> None:
    folder, trace = tmp_path / "run", tmp_path / "trace"
    folder.mkdir()
    before = _run_directory(folder)
    calls = [
        "strace",
        "-f",
        "-y",
        "-qq",
        "-s",
        "4096",
        "-o",
        str(trace),
        "-e",
        f"trace=open,openat,flock,fcntl,{CHANGES}",
    ]
    command = [sys.executable, "-m", "grpo_top", "check", str(folder), "--follow", "--for", "0.5"]
    done = subprocess.run(
        [*calls, *command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    if "PTRACE" in done.stderr:
        pytest.skip("this process may not trace others")
    assert done.returncode in (0, 1), done.stderr
    lines = [line for line in trace.read_text(errors="replace").splitlines() if str(folder) in line]
    opened = {match[2]: match[1] for line in lines if (match := OPENS.search(line))}
    assert str(folder / "rollouts.jsonl") in opened
    assert str(folder / "own.db") in opened
    writing = {
        path: how
        for path, how in opened.items()
        if re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND", how)
    }
    assert writing == {}
    assert opened.keys().isdisjoint({str(folder / name) for name in ("pipe.jsonl", "zeros.jsonl")})
    changed = [line for line in lines if re.search(rf"\b({CHANGES.replace(',', '|')})\(", line)]
    assert changed == []
    locked = [line for line in lines if re.search(r"flock\(|F_(OFD_)?SETLKW?", line)]
    assert locked == []
    after = {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert after == before
