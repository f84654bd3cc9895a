"""What a user may set: knobs of detectors and what is known of the run. Defaults, grpo-top.toml, then --set."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.name_tables import CANONICAL
from grpo_top.records import SAMPLING_ORDER, Rollout, Success, normal_sampling
from grpo_top.screen_settings import ACTS, KEYS_HELP, SCREEN, key_names, screen_value, taken
from grpo_top.spelling import meant
from grpo_top.user_folders import user_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

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
ROLLOUTS_HELD = 4_000_000
MEMORY_HELP = "rollouts = 4000000: past so many the oldest are let go, and only their steps' series are held"
FIELDS_HELP = (
    'reward = "meta.score": a field of a rollout, or a series, and what a JSON lines or CSV file calls it'
)
NAMES_HELP = '"my/kl_metric" = "kl": a metric of the trainer, and the series that it is'


class ConfigError(ValueError):
    """A setting that cannot be: one line that says which, where, and what is near it."""


class Setting(NamedTuple):
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
    fields: dict[str, str] = field(default_factory=dict)
    """The `[fields]` table: field of a rollout, or series → the file's own name for it, dots between levels."""
    names: dict[str, str] = field(default_factory=dict)
    """The `[names]` table: the trainer's name of a metric → the series that it is."""
    screen: dict[str, Any] = field(default_factory=dict)
    """The `[screen]` table, see `screen_settings.SCREEN`."""
    keys: dict[str, str] = field(default_factory=dict)
    """The `[keys]` table: what a key does, see `screen_settings.ACTS` → the keys that do it, commas between."""
    said_in: dict[str, str] = field(default_factory=dict)
    """Setting of the screen, as `screen.theme` → the file that has it."""

    file: str = ""
    """The settings file that was read; empty where there is none."""
    rollouts_held: int = ROLLOUTS_HELD
    """`[memory] rollouts`: past so many the oldest ones' columns are let go."""

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
        file: `--config`, else `grpo-top.toml` in the run directory, else in the user's config directory. What the
            latter says of the screen and its keys counts in any case, below the others.
        run_directory: where to look for it.
        overrides: `--set` values, `ID.knob=value`.

    Raises:
        ConfigError: an unknown id or knob (it names the nearest), a value that is no number, unreadable TOML.
    """
    settings = Settings()
    path = file or find(run_directory)
    if (own := _of_the_user()).is_file() and own != path:
        of_user = Settings()
        _read(own, detectors, of_user)
        settings.screen, settings.keys, settings.said_in = of_user.screen, of_user.keys, of_user.said_in
    if path is not None:
        settings.file = str(path)
        _read(path, detectors, settings)
    if (two := taken(settings.keys)) is not None:
        raise ConfigError(
            f"[keys] {two[0]} would be both {two[1]} and {two[2]}: give {two[2]} another key as well"
        )
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
    places = [_of_the_user()]
    if run_directory is not None:
        places.insert(0, run_directory / FILE_NAME)
    return next((place for place in places if place.is_file()), None)


def _of_the_user() -> Path:
    return user_folder("config") / FILE_NAME


def as_table(settings: Settings) -> dict[str, Any]:
    """What is set, as a settings file has it: for a grpo-top that judges on another machine. It reads no fields."""
    success = settings.run.get("success")
    run = settings.run if success is None else settings.run | {"success": success._asdict()}
    knobs = {id_: {name: one.value for name, one in of.items()} for id_, of in settings.knobs.items()}
    return {**knobs, "run": run, "names": settings.names}


def from_table(table: Mapping[str, Any], detectors: Mapping[str, type[Detector]], origin: str) -> Settings:
    """The settings of `as_table`, as they came; what cannot be, or is not known here, is passed over."""
    settings = Settings(file=origin if any(table.values()) else "")
    for id_, entries in table.items():
        for name, value in entries.items() if isinstance(entries, dict) else ():
            with suppress(ConfigError):
                _take({id_: {name: value}}, detectors, settings, origin)
    return settings


def over(below: Settings, above: Settings) -> Settings:
    """Both, the latter's where both say something."""
    ids = {**below.knobs, **above.knobs}
    return Settings(
        {id_: below.knobs.get(id_, {}) | above.knobs.get(id_, {}) for id_ in ids},
        below.run | above.run,
        below.fields | above.fields,
        below.names | above.names,
        below.screen | above.screen,
        below.keys | above.keys,
        below.said_in | above.said_in,
        above.file or below.file,
        above.rollouts_held,
    )


def _read(path: Path, detectors: Mapping[str, type[Detector]], settings: Settings) -> None:
    import tomllib  # noqa: PLC0415  most runs have no such file, and the first frame would wait for it

    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    _take(table, detectors, settings, str(path))


def _take(
    table: Mapping[str, Any], detectors: Mapping[str, type[Detector]], settings: Settings, origin: str
) -> None:
    for id_, knobs in table.items():
        if id_ == "run":
            if not isinstance(knobs, dict):
                raise ConfigError(
                    f"{origin}: run must be a table such as [run] with {', '.join(RUN_KEYS)} in it"
                )
            settings.run |= {key: _declared(key, value, origin) for key, value in knobs.items()}
        elif id_ == MEMORY and isinstance(knobs, dict):
            for name, value in knobs.items():
                _set_memory(settings, name, value, origin)
        elif id_ in _MAPPINGS:
            getattr(settings, id_).update(_mapping(id_, knobs, origin))
        elif id_ in _OF_THE_SCREEN:
            _take_screen(id_, knobs, settings, origin)
        elif isinstance(knobs, dict):
            for knob, value in knobs.items():
                _set(settings, detectors, id_, knob, value, origin)
        else:
            raise ConfigError(f"{origin}: {id_} must be a table such as [{id_}] with knobs in it")


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
    if id_ == MEMORY:
        _set_memory(settings, knob, value, origin)
        return
    if id_ in _OF_THE_SCREEN:
        raise ConfigError(f"{origin}: what is set of the screen stands in a file: [{id_}] in {FILE_NAME}")
    if id_ in _MAPPINGS:
        raise ConfigError(f"{origin}: names stand in a file: [{id_}] in {FILE_NAME}")
    if id_ not in detectors:
        near = _near(id_.lower(), _TABLES) or _near(id_.upper(), detectors)
        raise ConfigError(f"{origin}: there is no detector {id_}{near}")
    known = {entry.name: entry.meaning for entry in detectors[id_].knobs} | SHARED_KNOBS
    if knob not in known:
        raise ConfigError(
            f"{origin}: {id_} has no knob {knob}; it has {', '.join(known)}{_near(knob, known)}"
        )
    number = _number(value)
    if number is None:
        raise ConfigError(f"{origin}: {id_}.{knob} must be a number, true or false")
    settings.knobs.setdefault(id_, {})[knob] = Setting(number, origin)


def _set_memory(settings: Settings, name: str, value: object, origin: str) -> None:
    number = _number(value)
    if name != "rollouts" or number is None or number < 1:
        raise ConfigError(f"{origin}: [memory] holds a whole number; write {MEMORY_HELP.partition(':')[0]}")
    settings.rollouts_held = int(number)


MEMORY = "memory"
_OF_THE_SCREEN = ("screen", "keys")


def _take_screen(table: str, entries: object, settings: Settings, origin: str) -> None:
    """The entries of `[screen]` and of `[keys]`."""
    known = SCREEN if table == "screen" else ACTS
    if not isinstance(entries, dict):
        example = 'theme = "light"' if table == "screen" else 'findings = "F"'
        raise ConfigError(f"{origin}: {table} must be a table such as [{table}] with {example} in it")
    for name, value in entries.items():
        if name not in known:
            raise ConfigError(
                f"{origin}: [{table}] has no {name}; it has {', '.join(known)}{_near(name, known)}"
            )
        settings.said_in[f"{table}.{name}"] = origin
        if table == "screen":
            found = screen_value(name, value)
            if found is None:
                raise ConfigError(f"{origin}: [screen] {name} is not of its form; write {SCREEN[name]}")
            settings.screen[name] = found
        else:
            keys = key_names(value)
            if keys is None:
                raise ConfigError(f"{origin}: [keys] {name} is no key; write {KEYS_HELP}")
            settings.keys[name] = keys


_MAPPINGS = ("fields", "names")
"""Tables that say under which names a log has what grpo-top knows."""
_TABLES = ("run", MEMORY, *_OF_THE_SCREEN, *_MAPPINGS)
"""What a settings file holds beside detectors."""
_FIELD_NAMES = (*(name for name in Rollout._fields if name != "location"), "components.NAME", "sampling.NAME")
_SERIES_OF_MANY = re.compile(r"(?:component_mean|termination)\{.+\}")
_SERIES = (*sorted(CANONICAL), "component_mean{NAME}", "termination{REASON}")


def _mapping(table: str, entries: object, origin: str) -> dict[str, str]:
    """The entries of `[fields]` (own name → name in the file) or `[names]` (name in the log → series)."""
    example = {"fields": 'reward = "meta.score"', "names": '"my/kl_metric" = "kl"'}[table]
    if not isinstance(entries, dict):
        raise ConfigError(f"{origin}: {table} must be a table such as [{table}] with {example} in it")
    found: dict[str, str] = {}
    for name, value in _flat(entries, table):
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{origin}: [{table}] {name} is not of its form; write {example}")
        ours, known = (name, _FIELD_NAMES + _SERIES) if table == "fields" else (value, _SERIES)
        if not (_is_series(ours) or (table == "fields" and _is_field(ours))):
            raise ConfigError(f"{origin}: [{table}] knows no {ours}{_near(ours, known)}")
        found[name] = value
    return found


def _flat(entries: Mapping[str, Any], table: str) -> Iterator[tuple[str, object]]:
    """The entries, those of an inner table (`components.format = …`) under their whole name."""
    for name, value in entries.items():
        if table == "fields" and isinstance(value, dict):
            yield from ((f"{name}.{inner}", of_inner) for inner, of_inner in value.items())
        else:
            yield name, value


def _is_series(name: str) -> bool:
    return name in CANONICAL or _SERIES_OF_MANY.fullmatch(name) is not None


def _is_field(name: str) -> bool:
    outer, _, inner = name.partition(".")
    if outer == "sampling" and inner:
        return inner in SAMPLING_ORDER
    return name in _FIELD_NAMES if not inner else outer == "components"


def _declared(key: str, value: object, origin: str) -> Any:
    """A value of the `[run]` table as the records hold it."""
    if key not in RUN_KEYS:
        raise ConfigError(f"{origin}: [run] has no {key}; it has {', '.join(RUN_KEYS)}{_near(key, RUN_KEYS)}")
    found = _RUN_FORMS[key](value)
    if found is None:
        raise ConfigError(f"{origin}: [run] {key} is not of its form; write {RUN_KEYS[key]}")
    if key == "sampling" and isinstance(value, dict):
        strange = [name for name in value if normal_sampling({name: value[name]}) is None]
        if strange:
            raise ConfigError(
                f"{origin}: [run] sampling has no {strange[0]}; it has numbers for "
                f"{', '.join(SAMPLING_ORDER)}{_near(strange[0], SAMPLING_ORDER)}"
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


def _near(name: str, known: Collection[str]) -> str:
    mean = f"{name}_mean"
    close = mean if mean in known else meant(name, known)
    return f"; did you mean {close}?" if close else ""
