"""What a user may set: knobs of detectors and what is known of the run. Defaults, grpo-top.toml, then --set."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from grpo_top.records import SAMPLING_ORDER, Success, normal_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from grpo_top.detectors.base import Detector

FILE_NAME = "grpo-top.toml"
SHARED_KNOBS = {
    "clear": "steps on the good side until a finding clears",
    "enabled": "false switches the detector off",
}
"""Knobs that every detector has."""
RUN_KEYS = {
    "name": 'name = "my-run", to pick one of several runs in a place',
    "sampling": "sampling = {temperature = 1.0, max_tokens = 512}, the intended config",
    "version_lag_tolerance": "version_lag_tolerance = 2, a number of policy versions",
    "reward_range": "reward_range = [0, 1], the lowest and the highest reward",
    "success": 'success = {of = "reward", at_least = 1}, of the reward or of a component',
    "group_size": "group_size = 8, a whole number of rollouts",
}
"""What `[run]` may declare → how it is written."""


class ConfigError(ValueError):
    """A setting that cannot be: one line that says which, where, and what is near it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A knob's value and where it was set."""

    value: float
    origin: str


@dataclass(slots=True)
class Settings:
    """Everything that is set beyond the defaults."""

    knobs: dict[str, dict[str, Setting]] = field(default_factory=dict)
    """Detector id → knob → value."""
    run: dict[str, Any] = field(default_factory=dict)
    """The `[run]` table, see `RUN_KEYS`: what the user declares stands above what the log says."""

    def values(self, id_: str) -> dict[str, float]:
        """A detector's knobs that are set, as numbers."""
        return {name: setting.value for name, setting in self.knobs.get(id_, {}).items()}

    def enabled(self, id_: str) -> bool:
        """Whether a detector is on."""
        return bool(self.values(id_).get("enabled", 1.0))


def load(
    detectors: Mapping[str, type[Detector]],
    file: Path | None,
    run_directory: Path | None,
    overrides: Iterable[str],
) -> Settings:
    """Settings in force.

    Args:
        detectors: every detector by id, to check names against.
        file: `--config`, else `grpo-top.toml` in the run directory, else in the user's config directory.
        run_directory: where to look for it.
        overrides: `--set` values, `ID.knob=value`.

    Raises:
        ConfigError: an unknown id or knob (it names the nearest), a value that is no number, unreadable TOML.
    """
    settings = Settings()
    path = file or find(run_directory)
    if path is not None:
        _read(path, detectors, settings)
    for override in overrides:
        name, equals, text = override.partition("=")
        id_, dot, knob = name.strip().partition(".")
        if not equals or not dot:
            raise ConfigError(
                f"--set {override}: write it as ID.knob=value, for example DEGENERATE_GROUPS.threshold=0.5"
            )
        _set(settings, detectors, id_, knob, text.strip(), f"--set {override}")
    return settings


def find(run_directory: Path | None) -> Path | None:
    """The settings file in force: the run directory's, else the user's; None where there is none."""
    places = [Path(platformdirs.user_config_dir("grpo-top")) / FILE_NAME]
    if run_directory is not None:
        places.insert(0, run_directory / FILE_NAME)
    return next((place for place in places if place.is_file()), None)


def _read(path: Path, detectors: Mapping[str, type[Detector]], settings: Settings) -> None:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    for id_, knobs in table.items():
        if id_ == "run":
            if not isinstance(knobs, dict):
                raise ConfigError(
                    f"{path}: run must be a table such as [run] with {', '.join(RUN_KEYS)} in it"
                )
            settings.run |= {key: _declared(key, value, str(path)) for key, value in knobs.items()}
        elif isinstance(knobs, dict):
            for knob, value in knobs.items():
                _set(settings, detectors, id_, knob, value, str(path))
        else:
            raise ConfigError(f"{path}: {id_} must be a table such as [{id_}] with knobs in it")


def _set(
    settings: Settings,
    detectors: Mapping[str, type[Detector]],
    id_: str,
    knob: str,
    value: object,
    origin: str,
) -> None:
    if id_ == "run":
        raise ConfigError(f"{origin}: what is declared of the run stands in a file: [run] in {FILE_NAME}")
    if id_ not in detectors:
        raise ConfigError(f"{origin}: there is no detector {id_}{_near(id_.upper(), detectors)}")
    known = {entry.name: entry.meaning for entry in detectors[id_].knobs} | SHARED_KNOBS
    if knob not in known:
        raise ConfigError(
            f"{origin}: {id_} has no knob {knob}{_near(knob, known)}; it has {', '.join(known)}"
        )
    number = _number(value)
    if number is None:
        raise ConfigError(f"{origin}: {id_}.{knob} must be a number, true or false")
    settings.knobs.setdefault(id_, {})[knob] = Setting(number, origin)


def _declared(key: str, value: object, origin: str) -> Any:
    """A value of the `[run]` table as the records hold it."""
    if key not in RUN_KEYS:
        raise ConfigError(f"{origin}: [run] has no {key}{_near(key, RUN_KEYS)}; it has {', '.join(RUN_KEYS)}")
    found = _RUN_FORMS[key](value)
    if found is None:
        raise ConfigError(f"{origin}: [run] {key} is not of its form; write {RUN_KEYS[key]}")
    if key == "sampling" and isinstance(value, dict):
        strange = [name for name in value if normal_sampling({name: value[name]}) is None]
        if strange:
            raise ConfigError(
                f"{origin}: [run] sampling has no {strange[0]}{_near(strange[0], SAMPLING_ORDER)}; "
                f"it has numbers for {', '.join(SAMPLING_ORDER)}"
            )
    return found


def _plain_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _range(value: object) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    low, high = (_plain_number(bound) for bound in value)
    return None if low is None or high is None or low >= high else (float(low), float(high))


def _success(value: object) -> Success | None:
    if not isinstance(value, dict) or value.keys() != {"of", "at_least"}:
        return None
    at_least = _plain_number(value["at_least"])
    return (
        Success(value["of"], float(at_least))
        if isinstance(value["of"], str) and at_least is not None
        else None
    )


def _tolerance(value: object) -> float | None:
    number = _plain_number(value)
    return None if number is None or number < 0 else number


def _size(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


_RUN_FORMS: dict[str, Callable[[object], Any]] = {
    "name": lambda value: value if isinstance(value, str) and value else None,
    "sampling": lambda value: (
        (normal_sampling(value) or value) if isinstance(value, dict) and value else None
    ),
    "version_lag_tolerance": _tolerance,
    "reward_range": _range,
    "success": _success,
    "group_size": _size,
}


def _number(value: object) -> float | None:
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None
    words = {"true": 1.0, "false": 0.0}
    if isinstance(value, str):
        if value.lower() in words:
            return words[value.lower()]
        try:
            number = float(value)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None


def _near(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
