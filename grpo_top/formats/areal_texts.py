"""AReaL's dumps of 2025: `generated/{version}/{query}.txt`, the rollouts of one prompt one after another.

A prompt's rollouts are a group. The folder is the policy version when they were whole; nothing says which step trained
on them: it is taken to be the one after that version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo_top.formats.base import Reader
from grpo_top.formats.decode import integer, number
from grpo_top.records import EVAL, TRAIN, Location, Rollout, Skipped

if TYPE_CHECKING:
    from pathlib import PurePath

    from grpo_top.records import Record

BEGIN = re.compile(rb"idx: \d{1,9} / \d{1,9}, seqlen: \d{1,12}, reward is [^\n]{1,60}\.\nprompt is \n")
"""How such a file begins."""
_HEADING = re.compile(
    r"^idx: (?P<index>\d{1,9}) / \d{1,9}, seqlen: \d{1,12}, reward is (?P<reward>[^\n]{1,60})\.\n",
    re.MULTILINE,
)
_PROMPT, _SEQUENCE = "prompt is \n", "\nsequence is: \n"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class TextReader(Reader):
    """Reads the rollouts of one prompt; a rollout's part is its number in the file."""

    def __init__(self, path: PurePath) -> None:
        self._path = path

    def fresh(self) -> TextReader:
        """A reader that has read nothing."""
        return TextReader(self._path)

    def whole(self, data: bytes) -> list[Record]:
        """The rollouts, in order."""
        version = integer(self._path.parent.name)
        if version is None:
            return [Skipped("no policy version: the file's folder is not named after one", 0)]
        text = _COLOURS.sub("", data.decode("utf-8", "replace"))
        found: list[Record] = []
        headings = [*_HEADING.finditer(text)]
        for place, heading in enumerate(headings):
            end = headings[place + 1].start() if place + 1 < len(headings) else len(text)
            found.append(self._rollout(heading, text[heading.end() : end], version, place))
        return found

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout `location.part`, from the whole file."""
        found = self.whole(data)[location.part :][:1]
        return next((record for record in found if isinstance(record, Rollout)), None)

    def _rollout(self, heading: re.Match[str], told: str, version: int, place: int) -> Record:
        prompt, divider, completion = told.removeprefix(_PROMPT).partition(_SEQUENCE)
        if not divider:
            return Skipped("rollout without a sequence", heading.start())
        return Rollout(
            step=version + 1,
            group=self._path.stem,
            reward=number(heading["reward"]),
            index=int(heading["index"]) - 1,
            split=EVAL if "eval" in self._path.parent.parent.name else TRAIN,
            prompt=prompt,
            completion=completion.removesuffix("\n"),
            policy_version_end=version,
            location=Location(0, 0, place),
        )
