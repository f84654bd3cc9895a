"""`grpo-top report`: one file with the findings, the charts and the proof, which runs nothing and fetches nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from runs import recorded_lines, write_log

from grpo_top.cli import main
from grpo_top.detectors import ALL

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>\x1b]0;owned\x07 \u202e ```\n# heading [link](http://x)"


class Page(HTMLParser):
    """Checks that every element is closed, and keeps the tags and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words = ""
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.anchors += [value or "" for name, value in attrs if name == "id"]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


def _report(where: Path, out: Path) -> str:
    assert main(["report", str(where), "--out", str(out)]) == 0
    return out.read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "rollouts.jsonl").write_bytes(b"\n".join(recorded_lines("verifier_broken")) + b"\n")
    return folder


def test_the_page_holds_the_cause_the_charts_the_proof_and_the_pages(run: Path, tmp_path: Path) -> None:
    text = _report(run, tmp_path / "r.html")
    page = Page(text)
    assert not page.open
    assert "REWARD_STREAK since step" in page.words
    assert "Stop here first" in page.words
    assert "DEGENERATE_GROUPS" in page.words
    assert "It follows from REWARD_STREAK" in page.words
    assert page.tags.count("svg") >= 8
    assert page.tags.count("tr") > 9
    assert "completion" in page.words
    assert "Often mistaken for" in page.words


def test_the_page_runs_nothing_and_fetches_nothing(run: Path, tmp_path: Path) -> None:
    text = _report(run, tmp_path / "r.html")
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"https?:|url\(|@import|\bon\w+=", text)
    assert "default-src 'none'" in text


def test_the_page_holds_the_pages_of_all_checks_and_every_link_leads_to_one(
    run: Path, tmp_path: Path
) -> None:
    page = Page(_report(run, tmp_path / "r.html"))
    assert {f"page-{detector.id}" for detector in ALL} <= set(page.anchors)
    assert len(page.links) > len(ALL)
    assert {link.removeprefix("#") for link in page.links} <= set(page.anchors)
    assert len(set(page.anchors)) == len(page.anchors)


def test_markdown_holds_the_pages_of_what_was_found_and_links_to_no_other(run: Path, tmp_path: Path) -> None:
    text = _report(run, tmp_path / "r.md")
    anchors = re.findall(r'<a id="([^"]+)">', text)
    assert "page-REWARD_STREAK" in anchors
    assert "page-MIXED_VERSIONS" not in anchors
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors)
    assert "What to try, in order" in text


def test_markdown_is_for_pasting(run: Path, tmp_path: Path) -> None:
    text = _report(run, tmp_path / "r.md")
    assert text.startswith("# grpo-top report: ")
    assert "**REWARD\\_STREAK since step" in text
    assert re.search(r"^\| reward \| [▁▂▃▄▅▆▇]{20,} \|", text, re.MULTILINE)
    assert text.count("<details>") == text.count("</details>") > 3


def test_what_a_model_wrote_is_text_and_nothing_else(tmp_path: Path) -> None:
    records = [{"kind": "run", "schema": "grpo-top/1", "run": HOSTILE, "reward_range": [0, 1]}]
    records += [
        {
            "kind": "rollout",
            "step": step,
            "group": HOSTILE,
            "index": index,
            "reward": 0.0,
            "prompt": HOSTILE,
            "completion": f"{HOSTILE} {index}",
            "rewards": {HOSTILE: 0.0},
            "finish_reason": HOSTILE,
            "verifier": {"raw": HOSTILE},
        }
        for step in range(40)
        for index in range(8)
    ]
    write_log(tmp_path / "run" / "rollouts.jsonl", records)
    page = Page(_report(tmp_path / "run", tmp_path / "r.html"))
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.words
    assert "\x1b" not in page.words
    assert "\u202e" not in page.words
    markdown = _report(tmp_path / "run", tmp_path / "r.md")
    assert "\x1b" not in markdown
    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    assert "<script>" not in outside
    assert not re.search(r"(?<!\\)\]\((?!#page-[A-Z_]+\))", outside)


def test_the_name_says_what_is_written(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--out", str(tmp_path / "r.pdf")]) == 2
    assert "must end in .html or .md" in capsys.readouterr().err
    assert main(["report", str(run), "--out", str(tmp_path / "none" / "r.md")]) == 2
    assert "No such file or directory" in capsys.readouterr().err
