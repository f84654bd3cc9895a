"""What the browser and the replay share: texts that a thread of its own reads, so that no key waits for a disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from textual.message import Message

from grpo_top.ui.rollouts.texts import Texts, glance, whole
from grpo_top.ui.screens.base import RunScreen

if TYPE_CHECKING:
    from grpo_top.ui.rollouts.texts import Glance, Whole

T = TypeVar("T")

GLANCES, _WHOLES = 512, 4
"""Kept at once: of glances some screens full, of whole rollouts the one that is shown and what it is held against."""


class Found(Message):
    """Texts that were read, to be kept and drawn; or nothing: all that was asked for has been read."""

    def __init__(self, keep: partial[None] | None = None) -> None:
        super().__init__()
        self.keep = keep


class ReadingScreen(RunScreen):
    """A screen that shows texts. A subclass asks for them while it draws, and calls `fetch` afterwards."""

    AUTO_FOCUS = ""
    """The screen itself takes the keys; a filter's input only while it is written in."""

    def __init__(self) -> None:
        super().__init__()
        self.glances: Texts[Glance] = Texts(glance, GLANCES)
        self.wholes: Texts[Whole] = Texts(whole, _WHOLES)
        self._reading: set[int] = set()

    def draw(self) -> None:
        """Draw the body as things stand now."""
        raise NotImplementedError

    def fetch(self) -> None:
        """Read what was asked for while drawing and is not there yet."""
        self._start(self.wholes)
        self._start(self.glances)

    def on_found(self, message: Found) -> None:
        """Keep what was read, and go on with what was asked for meanwhile."""
        if message.keep is not None:
            message.keep()
            self.draw()
        self.fetch()

    def on_virtual_list_remade(self) -> None:
        """Read what rows that have come into sight are about."""
        self.fetch()

    def _start(self, texts: Texts[T]) -> None:
        if id(texts) in self._reading or not (wanted := texts.take_wanted()):
            return
        self._reading.add(id(texts))
        read = self.grpo_top.view.snapshot.read
        work = partial(
            texts.read, wanted, read, lambda found: self.post_message(Found(partial(texts.keep, found)))
        )
        self.run_worker(partial(self._work, work, id(texts)), thread=True, group="texts")

    def _work(self, work: partial[None], texts: int) -> None:
        try:
            work()
        finally:
            self._reading.discard(texts)
            self.post_message(Found())
