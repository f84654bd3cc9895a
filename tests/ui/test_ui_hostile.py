"""What a model wrote stays text, wherever it is shown; and no terminal is too small, too poor or too restless."""

from __future__ import annotations

import tempfile
import unicodedata
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_screens import settled

from grpo_top.check_text import check_text
from grpo_top.config import Settings
from grpo_top.grades_text import grades_text
from grpo_top.monitor import Monitor
from grpo_top.report import check_object, inspect_text
from grpo_top.report_file.content import content
from grpo_top.report_file.html import html
from grpo_top.report_file.markdown import markdown
from grpo_top.ui.app import GrpoTop
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.launch import theme_name
from grpo_top.ui.rollouts.out import finding_document, group_document, rollout_document
from grpo_top.ui.widgets.title import TitleLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.snapshot import Snapshot

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ACTS = (
    "\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x9b31m\u202e"
    "\r\x08\x00\ufeff\u200b\U000e0041[red]markup[/red][@click=app.quit]x[/]<script>alert(1)</script>`~~~`"
)
ANY = st.one_of(
    st.text(max_size=12),
    st.sampled_from((ACTS, "\ud800", "a\nb\tc", "x" * 400, "日本\u0301語" * 30, "")),
    st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


def _records(texts: Iterator[str]) -> Iterator[dict[str, Any]]:
    """A small run all of whose words are somebody else's."""
    yield {
        "kind": "run",
        "schema": "grpo-top/1",
        "run": next(texts),
        "framework": next(texts),
        "algorithm": next(texts),
        "group_size": 4,
        "env_version": next(texts),
        "sampling": {"temperature": 1.0},
    }
    for step in range(1, 9):
        for index in range(4):
            yield {
                "kind": "rollout",
                "step": step,
                "group": next(texts) or "g",
                "index": index,
                "reward": 0,
                "rewards": {next(texts) or "a": 0.5},
                "task": next(texts),
                "family": next(texts),
                "tier": next(texts),
                "prompt": next(texts),
                "completion": next(texts),
                "verifier": {"raw": next(texts), "error": next(texts)},
                "finish_reason": next(texts),
                "termination": next(texts),
                "sampler": next(texts),
                "sampling": {"temperature": 0.2},
                "completion_tokens": 5,
                "parsed": False,
            }
        yield {"kind": "step", "step": step, "metrics": {"kl": 0.1, next(texts) or "m": 0.1}}
    yield {"kind": next(texts)}


def _read(folder: Path, texts: Iterator[str]) -> Snapshot:
    # By way of Python's own words: lone surrogates are escaped, as a trainer in Python writes them.
    import json  # noqa: PLC0415

    (folder / "rollouts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in _records(texts)))
    monitor = Monitor([str(folder)], Settings())
    monitor.read_all()
    return monitor.snapshot(finished=True)


def _acting(text: str) -> set[str]:
    """Characters in it that a terminal acts on, or that hide."""
    return {
        character for character in text if character != "\n" and unicodedata.category(character) in HIDDEN
    }


@settings(max_examples=12)
@given(st.lists(ANY, min_size=3, max_size=9))
def test_nothing_that_acts_is_printed_written_or_copied(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        snapshot = _read(Path(folder), cycle(texts))
        group = [int(row) for row in range(snapshot.rollouts.length)][:4]
        documents = [
            rollout_document(snapshot, 0),
            group_document(snapshot, group),
            *(finding_document(snapshot, finding) for finding in snapshot.findings[:3]),
        ]
        blocks = list(content(snapshot, Settings()))
        for printed in (
            check_text(snapshot),
            inspect_text(snapshot),
            grades_text(snapshot),
            markdown(blocks),
            html(blocks, f"grpo-top: {snapshot.run.name}"),
            *(document.as_json() for document in documents),
            *(document.as_markdown() for document in documents),
        ):
            assert not _acting(printed)
            printed.encode()
        assert "<script" not in html(blocks, snapshot.run.name)
        assert all(document.stem.isascii() for document in documents)
        orjson.dumps(check_object(snapshot, series=True))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return _read(
        tmp_path_factory.mktemp("run"), cycle([ACTS, "one", f"two {ACTS}", "x" * 300, "日本語" * 40])
    )


WAYS = {
    "monitor": (),
    "findings": ("f",),
    "a finding": ("enter",),
    "steps": ("escape", "escape", "s"),
    "groups": ("enter",),
    "rollouts": ("enter",),
    "a rollout": ("enter",),
    "against another": ("t",),
    "metrics": ("escape", "escape", "escape", "escape", "escape", "m"),
    "help": ("question_mark",),
    "hand scores": ("escape", "escape", "g"),
    "samplers": ("escape", "escape", "4"),
}
SIZES = ((20, 5), (1, 1), (120, 40), (37, 9), (20, 5))


@pytest.mark.parametrize(
    ("glyphs", "environment", "screens"),
    [
        (UNICODE, {"TERM": "xterm-256color"}, len(WAYS)),
        (ASCII, {"TERM": "linux", "NO_COLOR": "1"}, 4),
    ],
    ids=["rich", "poor"],
)
async def test_every_screen_stands_any_window_and_shows_nothing_that_acts(
    hostile: Snapshot, glyphs: Any, environment: dict[str, str], screens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    app = GrpoTop(hostile, glyphs=glyphs, theme=theme_name(None, environment))
    sizes = cycle(SIZES)
    async with app.run_test(size=(120, 40)) as pilot:
        for screen, keys in list(WAYS.items())[:screens]:
            await pilot.press(*keys)
            await pilot.resize_terminal(*next(sizes))
            await settled(pilot)
            for strip in app.screen._compositor.render_strips():
                assert not _acting(strip.text), (screen, strip.text)
                assert all(segment.style is None or segment.style.link is None for segment in strip), screen
            await pilot.resize_terminal(120, 40)
        assert app.title == "grpo-top"
        assert app.clipboard == ""


async def test_where_a_screen_fails_it_is_told_without_what_it_was_about(
    hostile: Snapshot, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise ValueError(ACTS)

    app = GrpoTop(hostile)

    async def shown() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            monkeypatch.setattr(TitleLine, "rows_of", fails)
            await pilot.resize_terminal(100, 30)
            await pilot.pause()

    with pytest.raises(ValueError, match="title"):
        await shown()
    assert app.failed
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("the screen failed: ValueError at test_ui_hostile.py:")
    assert said.endswith("please report this line to the project's issue tracker")
    assert "title" not in said
