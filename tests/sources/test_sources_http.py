"""One thread asks all endpoints: its limits, its patience, and what it never tells."""

from __future__ import annotations

import gzip
import shutil
import ssl
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Asked, Loopback, Says, loopback, until

from grpo_top.sources.feed import Limits, NoAnswer, back_off
from grpo_top.sources.http import Network
from grpo_top.sources.secrets import read_headers, secrets_of
from grpo_top.sources.urls import name_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.sources.client import Answer, Client
    from grpo_top.sources.feed import Feed

QUICK = Limits(
    connect=0.5,
    read=0.15,
    whole=3.0,
    body=1 << 20,
    line=1000,
    first_wait=0.02,
    longest_wait=0.05,
    a_second=1e6,
)
SECRET = "hunter2-very-secret"


@pytest.fixture
def network() -> Iterator[Network]:
    asking = Network(limits=QUICK)
    yield asking
    asking.close()


async def body(client: Client) -> list[bytes]:
    return [(await client.get()).required().body]


def fails(network: Network, server: Loopback, answering: object) -> Feed[bytes]:
    """A feed of an endpoint that answers so, after its first look."""
    server.routes["/x"] = answering
    feed = network.watch(body, 0.02, f"{server.url}/x")
    until(lambda: feed.looked)
    assert feed.take() == []
    assert feed.state == "error"
    return feed


def test_an_answer_comes_without_waiting_again_and_again(network, server):
    server.routes["/x"] = Says("hello")
    feed = network.watch(body, 0.01, f"{server.url}/x")
    began = time.monotonic()
    feed.take()
    assert time.monotonic() - began < 0.05
    taken: list[bytes] = []
    until(lambda: taken.extend(feed.take()) or len(taken) >= 3)
    assert set(taken) == {b"hello"}
    assert (feed.state, feed.note, feed.bytes >= 15, feed.looked) == ("live", "", True, True)


def test_before_the_first_answer_an_endpoint_is_waited_for(network, server):
    server.routes["/x"] = server.hang
    feed = network.watch(body, 0.02, f"{server.url}/x")
    assert (feed.state, feed.note, feed.looked) == ("waiting", "asked, no answer yet", False)


def test_a_server_that_hangs_is_left_after_a_while(network, server):
    assert fails(network, server, server.hang).note.startswith("no answer for 0.15 s; next try at ")


def test_a_server_that_drips_a_byte_at_a_time_is_left_after_a_while(server):
    network = Network(limits=replace(QUICK, whole=0.3))
    assert fails(network, server, server.drip).note.startswith("no whole answer within 0.3 s")
    network.close()


def test_half_an_answer_is_none(network, server):
    assert "ended in the middle" in fails(network, server, Says("half", declared=100)).note


@pytest.mark.parametrize(
    ("status", "words"), [(500, "500 Internal Server Error"), (403, "403 Forbidden"), (499, "499")]
)
def test_a_refusal_is_told_in_the_standards_words(network, server, status, words):
    assert fails(network, server, Says("<h1>secret page</h1>", status)).note.startswith(f"/x answers {words}")


def test_a_body_that_is_announced_as_a_gigabyte_is_not_read(network, server):
    feed = fails(network, server, Says("x", declared=1 << 30))
    assert feed.note.startswith("an answer of 1,073,741,824 bytes, more than the 1,048,576 that are read")
    assert feed.bytes <= 1


def test_a_body_that_does_not_end_is_left_at_the_limit(network, server):
    def endless(_: Asked) -> Says:
        return Says(pieces=iter(lambda: b"x" * 65536, b""))

    feed = fails(network, server, endless)
    assert "more than the 1,048,576 bytes" in feed.note
    assert feed.bytes < 20 << 20


def test_a_small_packed_answer_that_unpacks_to_a_large_one_is_left_at_the_limit(network, server):
    bomb = gzip.compress(bytes(64 << 20))
    feed = fails(network, server, Says(bomb, headers={"Content-Encoding": "gzip"}))
    assert "more than the 1,048,576 bytes" in feed.note


def test_a_packed_answer_is_unpacked(network, server):
    server.routes["/x"] = Says(gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"})
    assert network.ask(body, f"{server.url}/x") == [b"hello"]
    assert server.asked[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Says(b"not gzip", headers={"Content-Encoding": "gzip"}), "says it is gzip and is not"),
        (Says(gzip.compress(b"hello")[:-12], headers={"Content-Encoding": "gzip"}), "ended in the middle"),
        (Says(b"x", headers={"Content-Encoding": "br"}), "was not asked for"),
    ],
)
def test_a_packing_that_is_none_is_no_answer(network, server, answer, words):
    assert words in fails(network, server, answer).note


def test_nobody_listens(network):
    with loopback() as gone:
        url = gone.url
    feed = network.watch(body, 0.02, url)
    until(lambda: feed.looked)
    assert feed.note.startswith("connection refused; next try at ")


def test_what_is_no_http_is_said_to_be_none(network, server):
    server.routes["/x"] = Says("x", headers={"Content-Length": "banana"})
    assert "no HTTP" in fails(network, server, server.routes["/x"]).note


def test_an_endpoint_comes_back(network, server):
    feed = fails(network, server, Says("", 503))
    server.routes["/x"] = Says("hello")
    until(lambda: feed.state == "live")
    assert feed.take()[0] == b"hello"
    assert feed.failures == 0


def test_a_server_that_asks_to_be_left_alone_is(server):
    network = Network(limits=QUICK)
    try:
        feed = fails(network, server, Says("", 429, {"Retry-After": "3600"}))
        tries = len(server.asked)
        until(lambda: len(server.asked) > tries)  # its hour is cut to the longest wait
        assert feed.state == "error"
    finally:
        network.close()


def test_one_that_hangs_and_one_whose_look_errs_do_not_stop_the_others(network, server):
    async def errs(client: Client) -> list[bytes]:
        await client.get()
        raise ZeroDivisionError(SECRET)

    server.routes |= {"/hang": server.hang, "/x": Says("hello")}
    hanging = network.watch(body, 0.01, f"{server.url}/hang")
    broken = network.watch(errs, 0.01, f"{server.url}/x")
    fine = network.watch(body, 0.01, f"{server.url}/x")
    taken: list[bytes] = []
    until(lambda: taken.extend(fine.take()) or len(taken) >= 5)
    until(lambda: broken.looked and hanging.looked)
    assert "ZeroDivisionError" in broken.note
    assert "defect of grpo-top" in broken.note
    assert SECRET not in broken.note


def test_an_endpoint_is_asked_no_further_while_nobody_takes(server):
    network = Network(limits=Limits(untaken=3, a_second=1e6))
    try:
        server.routes["/x"] = Says("hello")
        feed = network.watch(body, 0.001, f"{server.url}/x")
        until(lambda: len(server.asked) >= 4)
        time.sleep(0.05)
        assert len(server.asked) == 4
        assert len(feed.take()) == 3
        until(lambda: len(server.asked) > 4)
    finally:
        network.close()


def test_many_endpoints_are_each_asked_a_little_less_often(server):
    network = Network(limits=Limits(a_second=400.0))
    try:
        server.routes["/x"] = Says("hello")
        feeds = [network.watch(body, 0.001, f"{server.url}/x") for _ in range(20)]
        until(lambda: all(feed.looked for feed in feeds))
        before = len(server.asked)
        time.sleep(0.05)
        assert len(server.asked) - before <= 40  # 400 a second, and no burst
    finally:
        network.close()


@given(st.integers(1, 10_000))
def test_waits_double_up_to_the_stated_maximum_with_chance_in_them(failures):
    limits = Limits(first_wait=1.0, longest_wait=60.0)
    waits = {back_off(failures, limits) for _ in range(5)}
    most = min(60.0, 2.0 ** min(failures - 1, 30))
    assert all(most / 2 <= wait <= most for wait in waits)
    assert len(waits) > 1


def test_what_is_unchanged_is_not_sent_again(network, server):
    def answer(asked: Asked) -> Says:
        known = asked.headers.get("if-none-match") == '"v1"'
        return Says(b"", 304, {"ETag": '"v1"'}) if known else Says("hello", headers={"ETag": '"v1"'})

    async def twice(client: Client) -> list[Answer]:
        return [await client.get(), await client.get()]

    server.routes["/x"] = answer
    first, second = network.ask(twice, f"{server.url}/x")
    assert (first.body, first.unchanged) == (b"hello", False)
    assert (second.body, second.status, second.unchanged) == (b"hello", 200, True)


def test_a_date_of_change_is_asked_about_where_there_is_no_tag(network, server):
    date = "Mon, 30 Nov 2026 10:00:00 GMT"

    async def twice(client: Client) -> None:
        await client.get()
        await client.get()

    server.routes["/x"] = Says("hello", headers={"Last-Modified": date})
    network.ask(twice, f"{server.url}/x")
    assert [asked.headers.get("if-modified-since") for asked in server.asked] == [None, date]


def test_lines_come_as_they_are_written_and_a_long_one_ends_it(network, server):
    release = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"on"
        yield b"e\ntwo\n"
        release.wait(5)
        yield b"x" * 5000

    lines: list[bytes] = []

    async def follow(client: Client, feed: Feed[bytes]) -> None:
        async for line in client.lines("/x", idle=5):
            await feed.put(line)

    server.routes["/x"] = Says(pieces=pieces())
    feed = network.follow(follow, 0.02, server.url)
    until(lambda: lines.extend(feed.take()) or len(lines) == 2)
    assert lines == [b"one", b"two"]
    release.set()
    until(lambda: feed.state == "error")
    assert "a line longer than 1,000 bytes" in feed.note


# Certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody trusts, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(file), "-out", f"{file}.cert", "-subj", "/CN=127.0.0.1", "-days", "2"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.cert").read_text())
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[Loopback]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    running = Loopback(context)
    running.routes["/x"] = Says("hello")
    yield running
    running.close()


def test_a_certificate_that_nobody_trusts_is_no_answer(network, secure):
    feed = network.watch(body, 0.02, f"{secure.url}/x")
    until(lambda: feed.looked)
    assert feed.note.startswith("its certificate is not trusted (see --ca-file)")
    assert secure.asked == []


@pytest.mark.parametrize("how", ["ca_file", "insecure"])
def test_a_certificate_is_trusted_by_file_and_looked_past_by_name(secure, certificate, how):
    given = {"ca_file": certificate} if how == "ca_file" else {"insecure": ["127.0.0.1"]}
    network = Network(limits=QUICK, **given)
    try:
        assert network.ask(body, f"{secure.url}/x") == [b"hello"]
    finally:
        network.close()


def test_looking_past_one_host_is_not_looking_past_another(secure):
    network = Network(limits=QUICK, insecure=["other.example"])
    try:
        with pytest.raises(NoAnswer, match="not trusted"):
            network.ask(body, f"{secure.url}/x")
    finally:
        network.close()


# What is secret


def headers_of(
    server: Loopback, secrets: list[str], monkeypatch: pytest.MonkeyPatch, url: str, **how
) -> dict:
    monkeypatch.setenv("NETRC", "/nowhere")
    network = Network(secrets_of(secrets), limits=QUICK)
    try:
        network.ask(body, url, **how)
    finally:
        network.close()
    return server.asked[-1].headers


def test_headers_of_the_user_go_to_the_places_that_he_named(server, monkeypatch):
    monkeypatch.setenv("GRPO_TOP_HEADERS", f"Authorization: Bearer {SECRET}\nX-Team: a")
    server.routes["/x"] = Says("hello")
    sent = headers_of(server, ["X-Team: b"], monkeypatch, f"{server.url}/x")
    assert (sent["authorization"], sent["x-team"]) == (f"Bearer {SECRET}", "b")


def test_a_place_that_a_config_named_gets_only_what_is_meant_for_it(server, monkeypatch):
    server.routes["/x"] = Says("hello")
    scoped = [
        f"Authorization: Bearer {SECRET}",
        f"{server.url} X-Only-Here: yes",
        "http://other:1 X-Not-Here: no",
    ]
    sent = headers_of(server, scoped, monkeypatch, f"{server.url}/x", named=False)
    assert "authorization" not in sent
    assert "x-not-here" not in sent
    assert sent["x-only-here"] == "yes"


def test_headers_come_from_a_file_and_logins_from_netrc_or_the_url(server, monkeypatch, tmp_path: Path):
    (tmp_path / "headers").write_text(f"# for the gateway\nX-Key: {SECRET}\n")
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.routes["/x"] = Says("hello")
    network = Network(secrets_of([f"@{tmp_path / 'headers'}"]), limits=QUICK)
    try:
        network.ask(body, f"{server.url}/x")
        network.ask(body, server.url.replace("http://", "http://you:p%40ss@") + "/x")
    finally:
        network.close()
    by_netrc, by_url = server.asked
    assert by_netrc.headers["x-key"] == SECRET
    assert by_netrc.headers["authorization"].startswith("Basic bWU6")  # me:
    assert by_url.headers["authorization"] == "Basic eW91OnBAc3M="  # you:p@ss


def test_a_redirect_carries_no_header_to_another_host(network, server, monkeypatch):
    with loopback(**{"/there": Says("arrived")}) as other:
        server.routes["/x"] = Says("", 302, {"Location": f"{other.url}/there"})
        monkeypatch.setenv("NETRC", "/nowhere")
        asking = Network(secrets_of([f"Authorization: Bearer {SECRET}"]), limits=QUICK)
        try:
            assert asking.ask(body, f"{server.url}/x") == [b"arrived"]
        finally:
            asking.close()
        assert server.asked[0].headers["authorization"] == f"Bearer {SECRET}"
        assert "authorization" not in other.asked[0].headers


def test_a_redirect_on_the_same_server_keeps_them(server, monkeypatch):
    server.routes |= {"/x": Says("", 307, {"Location": "/y"}), "/y": Says("hello")}
    sent = headers_of(server, [f"X-Key: {SECRET}"], monkeypatch, f"{server.url}/x")
    assert sent["x-key"] == SECRET


@pytest.mark.parametrize("location", ["/x", "file:///etc/passwd", "http://"])
def test_redirects_in_circles_and_to_what_is_no_url_are_no_answer(network, server, location):
    assert "redirect" in fails(network, server, Says("", 302, {"Location": location})).note


def test_a_cookie_is_not_kept(network, server):
    async def twice(client: Client) -> None:
        await client.get()
        await client.get()

    server.routes["/x"] = Says("hello", headers={"Set-Cookie": "session=1"})
    network.ask(twice, f"{server.url}/x")
    assert "cookie" not in server.asked[1].headers


def test_a_post_is_not_redirected(network, server):
    async def post(client: Client) -> Answer:
        return await client.post("/x", {"a": 1})

    server.routes["/x"] = Says("", 307, {"Location": "/y"})
    with pytest.raises(NoAnswer, match="not followed"):
        network.ask(post, server.url)


def test_no_secret_is_in_anything_that_is_shown(network):
    url = f"http://me:{SECRET}@127.0.0.1:1/metrics?token={SECRET}#{SECRET}"
    feed = network.watch(body, 0.02, url)
    until(lambda: feed.looked)
    secrets = secrets_of([f"Authorization: Bearer {SECRET}"], {})
    for told in (
        feed.note,
        feed.url,
        feed.name,
        shown(url),
        name_of(url),
        repr(secrets),
        repr(secrets.__dict__),
    ):
        assert SECRET not in told
    assert feed.url == "http://127.0.0.1:1/metrics"


@pytest.mark.parametrize(
    "line", [SECRET, f"Bad Name: {SECRET}", f"K: {SECRET}\x01", f"http:// K: {SECRET}", "@/nowhere"]
)
def test_a_header_that_is_none_is_refused_without_telling_its_value(line):
    with pytest.raises(ValueError, match=r".") as refused:
        read_headers([line])
    assert SECRET not in str(refused.value)


def test_a_file_of_certificates_that_holds_none_is_refused(tmp_path: Path):
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ValueError, match="no certificates can be read from it"):
        Network(ca_file=tmp_path / "ca.pem")


def test_what_is_no_url_is_refused(network):
    with pytest.raises(ValueError, match="not an http"):
        network.watch(body, 1.0, "ftp://x")


def test_after_closing_nothing_is_asked(server):
    server.routes["/x"] = Says("hello")
    network = Network(limits=QUICK)
    feed = network.watch(body, 0.01, f"{server.url}/x")
    until(lambda: feed.looked)
    network.close()
    asked = len(server.asked)
    feed.take()
    with pytest.raises(NoAnswer):
        network.ask(body, f"{server.url}/x")
    assert len(server.asked) == asked
