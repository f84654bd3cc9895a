"""A screen that plays a rollout: the position in it, the keys that move it, and the one timer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.ui.rollouts.loops import loops_of
from grpo_top.ui.rollouts.playing import TICKS_PER_SECOND, Playing, playing
from grpo_top.ui.rollouts.timeline import Length
from grpo_top.ui.screens.reading import ReadingScreen

if TYPE_CHECKING:
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole


class PlayingScreen(ReadingScreen):
    """Holds a position. A subclass draws it in `draw_played`."""

    def __init__(self) -> None:
        super().__init__()
        self.playing: Playing | None = None
        """Where the replay stands; None before the text has been read."""
        self.length = Length()
        """How long the rollout is, and what happens where in it."""

    def on_mount(self) -> None:
        """The one timer: it stands still while nothing is played."""
        self._timer = self.set_interval(1 / TICKS_PER_SECOND, self._tick, pause=True)

    def draw_played(self, turn: int, offset: int) -> None:
        """Draw another position; what was played last is to be in sight."""
        raise NotImplementedError

    def begin(self, subject: Subject, whole: Whole) -> None:
        """Take the position in a text that has been read: at its end, where all of it is seen."""
        self.playing = playing(whole.turns)
        loops = loops_of(whole.turns) if subject.flag("loop") else {}
        self.length = Length(
            subject.whole("completion_tokens"),
            subject.budget,
            subject.name("finish") or subject.name("termination"),
            subject.flag("truncated"),
            {turn: loop.start / loop.end for turn, loop in loops.items()},
        )

    def halt(self) -> None:
        """Let go of the position: another rollout is shown."""
        self.playing = None
        self._timer.pause()

    def action_play(self) -> None:
        """Play or pause."""
        if self.playing is not None:
            self._play(self.playing.toggled())

    def action_step(self, by: int) -> None:
        """One word or turn on, or back."""
        if self.playing is not None:
            self._play(self.playing.step(by).stopped())

    def action_speed(self, speed: int) -> None:
        """Play faster or slower."""
        if self.playing is not None:
            self._play(self.playing.at_speed(speed))

    def action_ends(self, which: int) -> None:
        """To the beginning or the end."""
        if self.playing is not None:
            self._play(self.playing.to_end() if which > 0 else self.playing.to_start().stopped())

    def _play(self, position: Playing) -> None:
        """Take another position, and draw what it changes."""
        self.playing = position
        if position.running:
            self._timer.resume()
        else:
            self._timer.pause()
        self.draw_played(position.turn, position.current[0])

    def _tick(self) -> None:
        if self.playing is not None:
            self._play(self.playing.tick())
