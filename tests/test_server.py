"""`grpo-top serve` as seen from outside: what it answers, and to whom, and what it refuses."""

from __future__ import annotations

import gzip
import hmac
import socket
import time
from typing import TYPE_CHECKING

import pytest
from loopback import until
from runs import group, run_record, step_record, write_log
from served_runs import Served, answer_of, exchange, request, served

from grpo_top import spooled_run
from grpo_top.server import Guard, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "correct horse battery staple"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("run")
    write_log(
        directory / "log.jsonl",
        [
            run_record(),
            *(row for step in (1, 2, 3) for row in group(step, f"{step}", (0, 1), prompt="what is asked")),
            step_record(3, kl=0.5),
            {"kind": "rollout", "step": "no number"},
        ],
    )
    with served(directory, limits=Limits(head=0.2, piece=0.3, connections=20)) as service:
        yield service


def test_its_root_says_what_it_is_and_which_log_there_is(small: Served) -> None:
    found = small.get("/")
    assert found.status == 200
    nothing_set = {"run": {}, "names": {}}
    assert found.json == {"schema": "grpo-top/serve/1", "log": found.json["log"], "settings": nothing_set}
    assert found.headers["content-type"] == "application/json"


def test_records_are_lines_from_an_offset_and_the_last_line_says_where_to_go_on(small: Served) -> None:
    log = small.log()
    lines = small.records(log)
    assert [line["kind"] for line in lines] == [
        *("source", "run", "run", *("rollout",) * 6, "step", "skipped"),
    ]
    whole = small.get(f"/records?log={log}")
    second = len(whole.body.splitlines(keepends=True)[0])
    assert small.get(f"/records?log={log}&offset={second}").lines[0] == lines[1]
    (told,) = whole.lines[-1]["sources"]
    assert told.pop("written") <= time.time()
    assert told == {"source": 0, "records": 8, "bytes": told["bytes"], "skipped": 1, "state": "live"}


def test_where_nothing_is_new_a_beat_comes_in_time(small: Served) -> None:
    log = small.log()
    small.records(log)
    end = small.get(f"/records?log={log}").lines[-1]
    began = time.monotonic()
    found = small.get(f"/records?log={log}&offset={end['size']}&since={end['revision']}&wait=9").lines
    assert [line["kind"] for line in found] == ["beat"]
    assert 0.08 < time.monotonic() - began < 1


def test_texts_come_for_the_rollout_that_is_asked_for_and_for_no_other(small: Served) -> None:
    log = small.log()
    rollouts = [line for line in small.records(log) if line["kind"] == "rollout"]
    assert all("a 0" not in str(line) and "asked" not in str(line) for line in rollouts)
    found = small.get(f"/rollout?log={log}&id={rollouts[3]['id']}")
    assert found.lines == [found.lines[0] | {"prompt": "what is asked", "completion": "2 1", "step": 2}]


@pytest.mark.parametrize(
    "target",
    [
        *("/rollout?log={log}&id=6", "/rollout?log={log}&id=999999999999999999", "/rollout?log={log}&id=-1"),
        *("/rollout?log={log}", "/rollout?log={log}&id=a", "/rollout?log={log}&id=0&id=..", "/log.jsonl"),
        *("/../log.jsonl", "/rollout/../log.jsonl", "//etc/passwd", "/%2e%2e/log.jsonl", "/records/..", "*"),
        *("/rollout?log={log}&id=0%00", "/rollout?log={log}&id=0&where=/etc/passwd", "file:///etc/passwd"),
        *(
            "http://127.0.0.1/records?log={log}",
            "/rollout?id=log.jsonl&log={log}",
            "/records?log={log}&offset=x",
        ),
        "/records?log={log}&offset=1.5",
    ],
)
def test_a_place_outside_the_run_gives_nothing(small: Served, target: str) -> None:
    found = small.get(target.format(log=small.log()))
    assert found.status in (400, 404)
    assert found.body in (b'{"error":"no such place"}\n', b'{"error":"no request that is understood"}\n')


def test_an_offset_that_is_none_gives_nothing(small: Served) -> None:
    log = small.log()
    small.records(log)
    for offset in (1, 7, 10**9, 10**18):
        assert small.get(f"/records?log={log}&offset={offset}").status == 416


def test_another_log_than_the_one_there_is_gives_nothing(small: Served) -> None:
    for log in ("0" * 16, "0", ""):
        assert small.get(f"/records?log={log}").status in (404, 410)
        assert small.get(f"/rollout?log={log}&id=0").status in (404, 410)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE"])
def test_nothing_but_reading_is_possible(small: Served, method: str) -> None:
    assert exchange(small.port, request("/", method)).status == 405


def test_a_request_with_a_body_is_refused(small: Served) -> None:
    assert exchange(small.port, request("/", content_length="3") + b"abc").status == 413
    assert exchange(small.port, request("/", transfer_encoding="chunked") + b"0\r\n\r\n").status == 413


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]", "10.0.0.1"]
)
def test_a_name_that_is_not_its_own_is_refused(small: Served, host: str) -> None:
    assert small.get("/", host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.0.0.1:9999"])
def test_its_own_names_are_answered_whatever_the_tunnels_port(small: Served, host: str) -> None:
    assert small.get("/", host=host).status == 200


def test_two_hosts_or_none_are_no_request(small: Served) -> None:
    assert exchange(small.port, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n").status == 400
    assert exchange(small.port, b"GET / HTTP/1.1\r\n\r\n").status == 400
    assert exchange(small.port, b"GET / HTTP/1.0\r\n\r\n").status == 403


def test_a_web_page_is_refused(small: Served) -> None:
    assert small.get("/", origin="http://evil.example").status == 403
    assert small.get("/", sec_fetch_site="cross-site").status == 403
    assert small.get("/").headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "sent",
    [
        *(request("/", padding="x" * 40_000), request("/" + "x" * 40_000), b"G" * 40_000),
        *(request("/", **{f"h{number}": "x" * 100 for number in range(400)}), b"\x00\xff\x16\x03\x01" * 9),
        *(b"GET / HTTP/1.1\nHost: a\n\tb\n\n" * 2, b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        b"GET /\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_huge_or_no_request_is_refused(small: Served, sent: bytes) -> None:
    assert exchange(small.port, sent).status in (0, 400, 403, 414, 431, 505)
    assert small.get("/").status == 200


def test_a_long_target_is_refused(small: Served) -> None:
    assert small.get("/" + "a" * 600).status == 414


def test_whoever_is_slow_to_ask_is_let_go(small: Served) -> None:
    beginnings = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
    slow = [socket.create_connection(("127.0.0.1", small.port), timeout=5) for _ in beginnings]
    for connection, beginning in zip(slow, beginnings, strict=True):
        connection.sendall(beginning)
    for connection in slow:
        with connection:
            assert answer_of(connection).status == 0  # within the fixture's limit: after 5 s this fails


def test_whoever_is_slow_to_take_an_answer_is_let_go(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0,), completion="x" * (8 << 20))])
    with served(tmp_path, limits=Limits(piece=0.1)) as service:
        log = service.log()
        service.records(log, 4)
        with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
            connection.sendall(request(f"/rollout?log={log}&id=0"))
            came = len(connection.recv(1))  # the answer has begun, however long it took to make
            time.sleep(0.3)
            while piece := _receive(connection):
                came += len(piece)
        assert came < 8 << 20


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 20)
    except ConnectionError:
        return b""


def test_a_connection_is_used_again(small: Served) -> None:
    with socket.create_connection(("127.0.0.1", small.port), timeout=5) as connection:
        connection.sendall(request("/") * 3 + request("/nowhere"))
        came = b""
        while b"no such place" not in came:
            came += connection.recv(1 << 16)
        assert came.count(b"grpo-top/serve/1") == 3


def test_a_thousand_connections_leave_room_for_one_that_asks(small: Served) -> None:
    held = []
    try:
        for _ in range(1000):
            held.append(socket.create_connection(("127.0.0.1", small.port), timeout=5))  # noqa: PERF401
        assert small.get("/").status == 200
    finally:
        for connection in held:
            connection.close()


def test_an_answer_is_packed_for_whoever_unpacks_it(small: Served) -> None:
    log = small.log()
    small.records(log)
    plain, packed = (small.get(f"/records?log={log}", accept_encoding=how) for how in ("identity", "gzip"))
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body).splitlines()[:-1] == plain.body.splitlines()[:-1]
    assert len(packed.body) < len(plain.body) / 2


def test_with_a_token_nobody_else_is_answered(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    with served(tmp_path, Guard(frozenset(), TOKEN.encode())) as service:
        assert service.get("/", authorization=f"Bearer {TOKEN}", host="any.example").status == 200
        for wrong in (
            "",
            "Bearer",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            "Bearer \xff",
        ):
            refused = service.get("/", authorization=wrong)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN.encode() not in refused.body
        assert service.get("/").status == 401
        assert service.get("/records?log=0").status == 401


def test_what_is_added_comes_at_once_and_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *group(1, "a", (0, 1))])
    with served(tmp_path) as service:
        of = service.log()
        first = service.records(of)
        with log.open("a") as file:
            file.write(write_log(tmp_path / "more.txt", group(2, "b", (0, 1))).read_text())
        second = service.records(of, len(first) + 2)
        assert second[: len(first)] == first
        assert [line["step"] for line in second[len(first) :]] == [2, 2]


def test_a_rotated_file_is_said_to_begin_again(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *group(1, "a", (0, 1)), *group(2, "a", (0, 1))])
    with served(tmp_path) as service:
        of = service.log()
        service.records(of)
        write_log(log, group(3, "b", (0, 0), prompt="long enough to lie where others lay"))
        again = service.records(of, 10)
        kinds = [line["kind"] for line in again]
        assert kinds == ["source", "run", "run", *("rollout",) * 4, "again", "rollout", "rollout"]
        gone = service.get(f"/rollout?log={of}&id=0").json
        assert "rewritten since" in gone["gone"]


def test_a_run_that_is_written_anew_is_another_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *group(1, "a", (0, 1)), *group(2, "a", (0, 1))])
    with served(tmp_path) as service:
        of = service.log()
        service.records(of)
        write_log(log, [run_record(), *group(1, "b", (0, 0))])
        until(lambda: service.log() != of)
        assert service.get(f"/records?log={of}").status == 410
        again = service.records(service.log(), 4)
        assert [line["kind"] for line in again] == ["source", "run", "run", "rollout", "rollout"]


def test_the_whole_log_holds_what_only_an_end_brings(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_log(log, [run_record(), *group(1, "a", (0, 1))])
    with log.open("a") as file:
        file.write(
            '{"kind": "rollout", "step": 2, "group": "b", "reward": 1}'
        )  # no newline: perhaps not whole
    with served(tmp_path) as service:
        assert len(service.records(service.log(), 5)) == 5
        whole = service.log("/end")
        assert [line.get("step") for line in service.records(whole)] == [None, None, None, 1, 1, 2]
        assert service.log("/end") == whole


def test_it_writes_nothing_where_the_run_is(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    before = sorted(tmp_path.rglob("*")), tmp_path.stat().st_mtime_ns
    with served(tmp_path) as service:
        service.records(service.log("/end"))
    assert (sorted(tmp_path.rglob("*")), tmp_path.stat().st_mtime_ns) == before


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: bool(compared.append(both)))
    refused = Guard(frozenset(), TOKEN.encode()).refusal({"authorization": f"Bearer {TOKEN}"})
    assert refused is not None
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


def test_the_state_of_many_sources_is_told_in_several_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_run, "FACTS_AT_ONCE", 2)
    for rank in range(5):
        write_log(tmp_path / f"rank{rank}.jsonl", [run_record(), *group(rank, "a", (0, 1))])
    with served(tmp_path) as service:
        log = service.log("/end")
        service.records(log)
        told, since = [], 0
        while (beat := service.get(f"/records?log={log}&since={since}").lines[-1])["sources"]:
            assert len(beat["sources"]) <= 2
            told += [(source["source"], source["records"]) for source in beat["sources"]]
            since = beat["revision"]
        assert dict(told) == dict.fromkeys(range(5), 3)
