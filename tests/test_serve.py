"""The verb `serve`: on which address and with which token it begins, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from runs import group, run_record, write_log
from served_runs import exchange, request

from grpo_top.cli import main
from grpo_top.serve import CannotServe, guard_for, is_loopback, token_from, url_of
from grpo_top.server import Limits

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_its_own_names_are_enough(host: str) -> None:
    assert is_loopback(host)
    assert guard_for(host, None).hosts >= {"127.0.0.1", "localhost", host}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"])
def test_anywhere_else_it_does_not_begin_without_a_token(host: str) -> None:
    with pytest.raises(CannotServe, match="not loopback"):
        guard_for(host, None)
    assert guard_for(host, TOKEN.encode()).token == TOKEN.encode()


def test_a_host_that_is_none_is_said_to_be_none() -> None:
    with pytest.raises(CannotServe, match="no such host"):
        guard_for("no.such.host.invalid", None)


def test_the_token_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert token_from(file, {}) == TOKEN.encode()
    assert token_from(None, {"GRPO_TOP_TOKEN": TOKEN}) == TOKEN.encode()
    assert token_from(None, {}) is None


@pytest.mark.parametrize(
    "token", ["", "short", "with a space, however long it is", "ünïcode-ünïcode-ünïcode"]
)
def test_a_token_that_is_too_weak_is_refused_without_showing_it(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    for place in (file, None):
        with pytest.raises(CannotServe, match="16 or more") as refused:
            token_from(place, {"GRPO_TOP_TOKEN": token})
        assert not token or token not in str(refused.value)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match="token: No such file"):
        token_from(tmp_path / "token", {})


def test_addresses_are_written_as_urls_have_them() -> None:
    assert url_of("127.0.0.1", 8722) == "http://127.0.0.1:8722"
    assert url_of("::1", 8722) == "http://[::1]:8722"


def test_a_place_that_is_not_there_and_a_port_that_is_taken_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path / "nothing"), "--port", "0"]) == 2
    assert capsys.readouterr().err == f"grpo-top: {tmp_path}/nothing: no such file, directory or URL\n"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path), "--port", str(port)]) == 2
    assert f"port {port} is in use" in capsys.readouterr().err


@pytest.mark.usefixtures("signals_are_heard")
def test_it_says_where_it_is_asks_for_its_token_and_ends_when_told(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "grpo_top", "serve", str(tmp_path), "--port", "0"],
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "GRPO_TOP_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process, ending, status in zip(processes, (signal.SIGTERM, signal.SIGINT), (0, 130), strict=True):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"{tmp_path} is served at http://127.0.0.1:")
        port = int(line.rpartition(":")[2])
        assert exchange(port, request("/")).status == 401
        with socket.create_connection(("127.0.0.1", port)):  # it does not wait for whoever asks nothing
            assert exchange(port, request("/", authorization=f"Bearer {TOKEN}")).status == 200
            process.send_signal(ending)
            out, err = process.communicate(timeout=Limits().head - 3)
        assert (process.returncode, out, err) == (status, "", "")
