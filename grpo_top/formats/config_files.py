"""The settings that a run was started with, in the file that its framework keeps them in: YAML or JSON.

AReaL's and NeMo-RL's `config.yaml`, the `.hydra/config.yaml` of whatever is started with Hydra (verl, rLLM, SkyRL), the
`config.yaml` that W&B keeps beside a run, recipes and arguments of trainers with flat settings. What is taken from them
is what a tracker's config gives as well: the intended sampling, the group size, the lag that is tolerated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.console import is_text
from grpo_top.formats.decode import bare, first_fields, head_records, parse_record
from grpo_top.formats.telltales import framework_of_config
from grpo_top.formats.tracked import Tracked
from grpo_top.formats.yaml_values import parse_yaml
from grpo_top.records import Skipped

if TYPE_CHECKING:
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

NAME = "config"

_KEY = re.compile(rb"^(?P<key>[A-Za-z_][\w.-]*):(?=\s|$)", re.MULTILINE)
_NO_YAML = re.compile(rb"^(?:[{<]|.*(?:\x1b|\d%\|))")
_YAML_ENDINGS = {".yaml", ".yml"}


class ConfigFiles(Format):
    """Reads the settings of frameworks that no other format reads."""

    name: ClassVar[str] = NAME
    surest: int = 60

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By settings that only one framework has."""
        if not is_text(head) or len(head_records(head)) > 1:
            return None
        found = _head_keys(path, head)
        sections = dict.fromkeys(re.split(r"[./]", name, maxsplit=1)[0] for name in found)
        known = framework_of_config(sections) is not None
        return Claim(60, "whole", "config", f"{NAME} {path}", 0) if known else None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:  # noqa: ARG002
        """A reader of settings."""
        return ConfigReader(context)


def _head_keys(path: PurePath, head: bytes) -> list[str]:
    """The names at the top level, as far as the head goes."""
    start = bare(head[:4096])
    if start.startswith(b"{"):
        return list(first_fields(head.decode("utf-8", "replace").lstrip("\ufeff\x00 \r\n\t")))
    if path.suffix.lower() in _YAML_ENDINGS or not _NO_YAML.match(start):
        return [found["key"].decode() for found in _KEY.finditer(head)]
    return []


class ConfigReader(Reader):
    """Reads one file of settings."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> ConfigReader:
        """A reader that has read nothing."""
        return ConfigReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run."""
        try:
            json = bare(data[:4096]).startswith(b"{")
            found = parse_record(bare(data)) if json else parse_yaml(data)
        except ValueError as error:
            return [Skipped(str(error), 0)]
        if not isinstance(found, dict):
            return [Skipped(f"no settings but a {type(found).__name__}", 0)]
        config = _unwrapped({str(name): value for name, value in found.items()})
        return list(Tracked(self._context).about(config=config))


def _unwrapped(config: dict[str, Any]) -> dict[str, Any]:
    """W&B writes `name: {value: …}` for each setting."""
    wrapped = {name: value for name, value in config.items() if isinstance(value, dict) and "value" in value}
    return (
        {name: value["value"] for name, value in wrapped.items()} if len(wrapped) == len(config) else config
    )
