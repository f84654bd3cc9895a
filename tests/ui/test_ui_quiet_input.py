"""What is typed reaches the app, and nothing wakes up while nothing is."""

from __future__ import annotations

import os
import select
import threading
from queue import Queue
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.message import Message

driver = pytest.importorskip("grpo_top.ui.quiet_input", exc_type=ImportError)


class Typed(driver.QuietInput):
    """Without a terminal: keys come through a pipe."""

    def __init__(self) -> None:
        self.fileno, self.keyboard = os.pipe()
        self._debug = False
        self.exit_event = self._end = driver._Rung()
        self.messages: Queue[Message] = Queue()

    def process_message(self, message: Message) -> None:
        self.messages.put(message)

    def type(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)

    def key(self) -> str:
        return self.messages.get(timeout=10).key


@pytest.fixture
def typed() -> Iterator[Typed]:
    here = Typed()
    thread = threading.Thread(target=here.run_input_thread)
    thread.start()
    yield here
    here.exit_event.set()
    thread.join(10)
    assert not thread.is_alive()
    here.exit_event.clear()
    assert not here.exit_event.is_set()
    for file in (here.fileno, here.keyboard, here._end.bell, here._end._rope):
        os.close(file)


def test_keys_arrive_and_escape_alone_is_told_from_the_beginning_of_another(typed):
    typed.type(b"j\x1b[A")
    assert [typed.key(), typed.key()] == ["j", "up"]
    typed.type(b"\x1b")
    assert typed.key() == "escape"
    typed.type("é".encode()[:1])
    typed.type("é".encode()[1:])
    assert typed.key() == "é"


def test_nothing_wakes_up_while_no_key_is_pressed(typed, monkeypatch):
    waits = Queue()
    wait = select.select
    monkeypatch.setattr(driver.select, "select", lambda *sources: waits.put(sources[3]) or wait(*sources))
    typed.type(b"j")
    assert typed.key() == "j"
    assert waits.get(timeout=10) is None


def test_where_nobody_is_at_the_other_end_it_waits_for_the_end(typed):
    os.close(typed.keyboard)
    typed.keyboard = os.open(os.devnull, os.O_WRONLY)
    assert typed.messages.empty()
