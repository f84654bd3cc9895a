"""Completion for bash, zsh and fish: a script made from the options themselves, which then runs no Python.

eval "$(grpo-top completion bash)"          # in ~/.bashrc; zsh likewise in ~/.zshrc
grpo-top completion fish | source           # in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.options import DESCRIPTIONS, parser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHELLS = ("bash", "zsh", "fish")


class Flag(NamedTuple):
    """One option of a verb."""

    name: str
    what: str
    takes: bool
    """Whether a value follows it."""
    values: tuple[str, ...]
    """What the value can be; empty where it is a file or free."""


def script(shell: str, words: Mapping[str, Sequence[str]]) -> str:
    """The script for a shell.

    Args:
        shell: one of `SHELLS`.
        words: verb or option → what may follow it: ids after `explain`, recordings after `--fault`, ….
    """
    flags = {verb: _flags(verb, words) for verb in DESCRIPTIONS}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](flags, words)


def _flags(verb: str, words: Mapping[str, Sequence[str]]) -> list[Flag]:
    found = []
    for action in parser(verb)._actions:  # argparse has no public way to list them
        name = next((one for one in action.option_strings if one.startswith("--")), None)
        if name is not None and action.help != argparse.SUPPRESS:
            values = tuple(map(str, action.choices or words.get(name, ())))
            found.append(Flag(name, (action.help or "").split(" (")[0], action.nargs != 0, values))
    return found


_VERBS = [verb for verb in DESCRIPTIONS if verb != "monitor"]


def _bash(flags: Mapping[str, Sequence[Flag]], words: Mapping[str, Sequence[str]]) -> str:
    by_verb = "\n".join(
        f'    {verb}) flags="{" ".join(flag.name for flag in of)}" ;;' for verb, of in flags.items()
    )
    values = {flag.name: " ".join(flag.values) for of in flags.values() for flag in of if flag.values}
    by_flag = "\n".join(
        f'    {name}) COMPREPLY=($(compgen -W "{of}" -- "$word")); return ;;' for name, of in values.items()
    )
    after = "\n".join(
        f'    {verb}) COMPREPLY=($(compgen -W "{" ".join(words[verb])}" -- "$word")); return ;;'
        for verb in _VERBS
        if verb in words
    )
    verbs = " ".join(_VERBS)
    return f"""\
_grpo_top() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD - 1]}}" verb=monitor flags
  case " {verbs} " in *" ${{COMP_WORDS[1]}} "*) ((COMP_CWORD > 1)) && verb="${{COMP_WORDS[1]}}" ;; esac
  case "$before" in
{by_flag}
  esac
  case "$verb" in
{by_verb}
  esac
  if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$word")); return; fi
  case "$verb" in
{after}
  esac
  COMPREPLY=($(compgen -f -- "$word"))
  ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W "{verbs}" -- "$word"))
}}
complete -o filenames -F _grpo_top grpo-top
"""


def _zsh(flags: Mapping[str, Sequence[Flag]], words: Mapping[str, Sequence[str]]) -> str:
    return (
        "autoload -U +X compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"
        + _bash(flags, words)
    )


def _fish(flags: Mapping[str, Sequence[Flag]], words: Mapping[str, Sequence[str]]) -> str:
    verbs = " ".join(_VERBS)
    lines = ["complete -c grpo-top -e"]
    lines += [
        f"complete -c grpo-top -n '__fish_is_nth_token 1' -a {verb} -d '{_quoted(DESCRIPTIONS[verb])}'"
        for verb in _VERBS
    ]
    for verb, of in flags.items():
        when = (
            f"'not __fish_seen_subcommand_from {verbs}'"
            if verb == "monitor"
            else f"'__fish_seen_subcommand_from {verb}'"
        )
        for flag in of:
            takes = " -x" if flag.values else " -r" if flag.takes else ""
            values = f" -a '{' '.join(flag.values)}'" if flag.values else ""
            lines.append(
                f"complete -c grpo-top -n {when} -l {flag.name[2:]}{takes}{values} -d '{_quoted(flag.what)}'"
            )
        if verb in words:
            lines.append(f"complete -c grpo-top -n {when} -f -a '{' '.join(words[verb])}'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
