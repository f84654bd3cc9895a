"""The browser's preview: the rollout at the cursor, and its group beside its family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.rollouts import fact_parts as parts
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.layout import cell, joined
from grpo_top.ui.rollouts.rollout_rows import drift_role
from grpo_top.ui.rollouts.wrap import Wrapped
from grpo_top.ui.widgets.runs import ends, width_of

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.families import Beside, Means
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Glance
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

_LABEL = 13
_FIRST = 5
_SHOWN_SETTINGS = ("temperature", "top_p", "max_tokens")


def preview_frame(subject: Subject | None) -> Frame:
    """The preview's border."""
    title: Row = [("Preview", "text bold")]
    if subject is not None:
        title.append((f"  #{numbers.count(subject.index)}", "dim"))
    return Frame(title, [("enter", "accent bold"), (" replay", "dim")])


def preview_rows(
    view: View,
    subject: Subject,
    glance: Glance | None,
    beside: Beside | None,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Row]:
    """The prompt, the completion, what is known of it, and its family. Texts get the rows that the rest leaves."""
    facts = _facts(view, subject, glance, glyphs)
    family = _family_rows(view, subject, beside, glyphs) if beside is not None else []
    if height < len(facts) + len(family) + 8:
        family = []
    spare = max(2, height - len(facts) - len(family) - 5)
    texts = _texts(subject, glance, width, spare, glyphs)
    return [*texts, [], *facts, *([[], *family] if family else [])]


def _texts(subject: Subject, glance: Glance | None, width: int, rows: int, glyphs: Glyphs) -> list[Row]:
    task, family = subject.name("task"), subject.name("family")
    about = joined(
        [
            [("task ", "dim"), (first_line(task, 24), "text")] if task is not None else [],
            [("family ", "dim"), (first_line(family, 16), "text")] if family is not None else [],
        ]
    )
    tokens, budget = subject.whole("completion_tokens"), subject.budget
    length = (
        []
        if tokens is None
        else [
            (
                f"{numbers.part_of(tokens, budget)} tokens" if budget else f"{numbers.count(tokens)} tokens",
                "dim",
            )
        ]
    )
    end = subject.name("finish") or subject.name("termination")
    ended = (
        [("ended: ", "dim"), (first_line(end, 16), "warn" if subject.flag("truncated") else "dim")]
        if end
        else []
    )
    heads = [
        ends([(" prompt", "dim")], [*about, (" ", "")], width, glyphs.ellipsis),
        ends([(" completion", "dim")], [*joined([length, ended]), (" ", "")], width, glyphs.ellipsis),
    ]
    if glance is None:
        return [heads[0], [], [], heads[1], []]
    if glance.gone:
        return [heads[0], [], heads[1], *_lines(glance.gone, width, 2, "info")]
    prompt = _lines(glance.prompt, width, max(1, rows // 3), "text")
    own = glance.completion or glance.call
    completion = _lines(own, width, max(1, rows - len(prompt)), "series1")
    return [heads[0], *prompt, [], heads[1], *completion]


def _lines(text: str, width: int, rows: int, role: str) -> list[Row]:
    lines = Wrapped(text, max(1, width - 4)).first_lines(rows + 1)
    shown = lines[:rows]
    if len(lines) > rows:
        shown[-1] = shown[-1][: max(0, width - 5)] + "…"
    return [[("   ", ""), (line, role)] for line in shown]


def _facts(view: View, subject: Subject, glance: Glance | None, glyphs: Glyphs) -> list[Row]:
    def fact(label: str, first: Row, *rest: Row) -> Row:
        pad = max(0, _FIRST - width_of(first)) if any(rest) else 0
        return [cell(f" {label}", _LABEL + 1, "dim"), *joined([[*first, (" " * pad, "")], *rest])]

    rank = parts.rank_words(subject)
    place = "the group has no spread" if subject.flat else f"{rank} in its group" if rank else ""
    raw = None if glance is None else glance.verifier_raw
    said = parts.NOT_LOGGED if raw is None else (f'"{first_line(raw, 20)}"', "text")
    components: list[Row] = [
        [(f"{safe(name)} ", "dim"), (glyphs.plain(numbers.fixed(value, 3)), "text")]
        for name, value in subject.components.items()
    ]
    return [
        fact("reward", [(glyphs.plain(numbers.fixed(subject.reward, 3)), "text bold")], *components),
        fact("advantage", [parts.advantage_run(subject, glyphs)], [(place, "dim")]),
        fact(
            "verifier",
            [("", "")] if glance is None else [said],
            parts.parsed_part(subject),
            [("error ", "dim"), parts.error_run(subject, 40)],
        ),
        fact(
            "policy",
            *parts.policy_part(view, subject, glyphs, long=False),
        ),
        fact("sampling", _sampling(view, subject, glyphs)),
        fact("versions", *parts.versions(subject)),
    ]


def _sampling(view: View, subject: Subject, glyphs: Glyphs) -> Row:
    settings = {**dict.fromkeys(_SHOWN_SETTINGS), **subject.sampling}
    settled: list[Row] = []
    for name in [*_SHOWN_SETTINGS, *(name for name in settings if name not in _SHOWN_SETTINGS)]:
        value = subject.sampling.get(name)
        role = drift_role(view, name, value)
        if name not in _SHOWN_SETTINGS and role is None:
            continue
        label = "max" if name == "max_tokens" else name
        if value is None:
            settled.append([(f"{label} ", "dim"), (numbers.UNKNOWN, "info")])
        elif role is None:
            settled.append([(f"{label} ", "dim"), (safe(numbers.setting(value)), "text")])
        else:
            mark = glyphs.fail if role == "fail" else glyphs.warn if role == "warn" else glyphs.watch
            wanted = safe(numbers.setting(subject.intended[name]))
            settled.append(
                [(f"{label} ", "dim"), (f"{safe(numbers.setting(value))} {mark} {wanted}", f"{role} bold")]
            )
    return joined(settled, "  ")


def _family_rows(view: View, subject: Subject, beside: Beside, glyphs: Glyphs) -> list[Row]:
    columns = (beside.group, beside.now, beside.earlier)
    heads = [_head(column, glyphs) for column in columns]
    widths = (9, max(15, cell_len(heads[1]) + 3), max(14, cell_len(heads[2]) + 3))
    size = len(subject.rows)
    head: Row = [cell(" beside its family", 18, "text bold")]
    head += [cell(text, width, "dim", right=True) for text, width in zip(heads, widths, strict=True)]
    return [
        head,
        *(
            [
                cell(f"   {label}", 18, "dim"),
                *(
                    _number_cell(text, width, _role(view, name, subject, position))
                    for position, (text, width) in enumerate(
                        zip((_text(name, column) for column in columns), widths, strict=True)
                    )
                ),
            ]
            for label, name in (
                ("reward", "reward"),
                (glyphs.sigma, "std"),
                (f"texts of {numbers.count(size)}", "texts"),
                ("success", "success"),
                ("tokens", "tokens"),
                ("temperature", "temperature"),
            )
        ),
    ]


def _head(means: Means, glyphs: Glyphs) -> str:
    return f"{first_line(means.name, 12)} {glyphs.plain(means.steps)}".rstrip()


def _text(name: str, means: Means) -> str:
    value: float | None = getattr(means, name)
    if name == "success":
        return numbers.share(value)
    if name in {"texts", "tokens"}:
        return numbers.fixed(value, 1)
    if name == "temperature":
        return numbers.fixed(value, 2)
    return numbers.value(0.0 if value is not None and abs(value) <= 1e-8 else value)


def _role(view: View, name: str, subject: Subject, position: int) -> str:
    if position:
        return "text"
    if name == "temperature":
        role = drift_role(view, "temperature", subject.sampling.get("temperature"))
        return f"{role} bold" if role else "text"
    flat_text = name == "texts" and subject.texts == 1
    return "warn" if subject.flat and (name == "std" or flat_text) else "text"


def _number_cell(text: str, width: int, role: str) -> tuple[str, str]:
    return cell(text, width, "info" if text == numbers.UNKNOWN else role, right=True)
