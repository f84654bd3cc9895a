"""Which files are of one run: the rule, over folders and over what was found in them.

A run's own tree has folders for parts of it: kinds of records, splits, processes, steps. Their names say so, and a
file belongs to the nearest folder above it that has a name of its own: its home. Homes beside each other that hold
the same kind of source are runs of their own. What is not clear stays one run.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PART_WORDS = frozenset(
    word
    for words in (
        # what is in it
        "rollout rollouts completion completions trajectory trajectories trace traces episode episodes",
        "sample samples generation generations generated response responses request requests result results",
        "metric metrics log logs logging console stdout stderr dump dumps dumped table tables media data",
        "record records summary summaries event events reward rewards score scores export exports",
        "file files config configs resolved dashboard column columns inbox",
        # which tool wrote it
        "tensorboard tb tfevents wandb mlruns mlflow swanlog trackio ray",
        # which split
        "train training eval evals evaluation evaluations val valid validation test heldout holdout all effective",
        # which process
        "trainer orchestrator inference sampler samplers actor critic worker workers rank ranks node nodes",
        "host hosts gpu gpus process processes server servers engine engines",
        # how far, and which piece
        "step steps global iter iteration iterations epoch epochs checkpoint checkpoints ckpt ckpts latest",
        "attempt attempts shard shards part parts chunk chunks batch batches",
    )
    for word in words.split()
)
_WORDS_OR_NUMBERS = re.compile(r"[a-z]+|\d+")
_SEPARATORS = re.compile(r"[-_. =]*")
_CONTAINERS = frozenset(("runs",))
"""Folders that are named after the many things in them: one of them may also be the only run's."""

ABOUT_A_RUN = frozenset(("config", "state", "summary", "versions", "lengths", "shipped", "copies"))
"""Roles of files that only add to others: they make no run."""
BESIDE_A_RUN = frozenset(("console", "requests", "sampling"))
"""Roles of logs that several processes of one run may write, each in a folder of its own."""


class Kind(NamedTuple):
    """What two sources have in common if each is of a run of its own."""

    format: str
    role: str


class Piece(NamedTuple):
    """All sources of one kind that have one home."""

    home: Path
    kind: Kind


class Ground(NamedTuple):
    """A run's folder."""

    root: Path
    """What is below it and below no other run's folder is this run's."""
    homes: frozenset[Path]
    """Where its sources were found."""


def is_part(name: str) -> bool:
    """Whether a folder of that name holds a part of a run: `rollouts`, `val_rollouts`, `step_12`, `rank0`."""
    tokens = _WORDS_OR_NUMBERS.findall(name.lower())
    words = [token for token in tokens if not token.isdigit()]
    plain = _SEPARATORS.fullmatch(_WORDS_OR_NUMBERS.sub("", name.lower()))
    return bool(words) and plain is not None and _PART_WORDS.issuperset(words)


def home_of(path: Path, writer: str, top: Path) -> Path:
    """The folder of the run that a file is of, as far as names tell; never above `top`.

    Files of one `writer` are of one run: where it is named after a folder, that is where the search begins.
    """
    parent = path.parent
    if not writer.endswith(str(path)):  # else it is named after the file
        parent = next((folder for folder in path.parents if writer.endswith(f" {folder}")), parent)
    return _home_from(parent, top)


@lru_cache(maxsize=4096)
def _home_from(home: Path, top: Path) -> Path:
    while home != top and home.is_relative_to(top):
        below_a_part = home.name.isdigit() and is_part(home.parent.name) and home.parent != top
        if not (is_part(home.name) or home.name in _CONTAINERS or below_a_part):
            break
        home = home.parent
    return home if home.is_relative_to(top) else top


def grounds(pieces: Iterable[Piece], top: Path) -> list[Ground]:
    """The runs that the pieces below `top` are of. Pieces that are of no one run are in none."""
    known = {piece for piece in pieces if piece.kind.role not in ABOUT_A_RUN}
    return _split(top, known, frozenset()) if known else []


def _split(folder: Path, pieces: set[Piece], above: frozenset[str]) -> list[Ground]:
    """The runs at and below a folder. `above`: roles that the folders hold of which this one is a part."""
    own = {piece.kind for piece in pieces if piece.home == folder}
    below: dict[Path, set[Piece]] = {}
    for piece in pieces:
        if piece.home != folder:
            below.setdefault(folder / piece.home.relative_to(folder).parts[0], set()).add(piece)
    above = above | _core_roles(own)
    found = {
        child: _split(child, inner, above if is_part(child.name) else frozenset())
        for child, inner in sorted(below.items())
    }
    if not _are_runs(own, below, above) and all(len(runs) == 1 for runs in found.values()):
        return [Ground(folder, frozenset(piece.home for piece in pieces))]
    runs = [run for of_child in found.values() for run in of_child]
    if _core_roles(own):
        runs.insert(0, Ground(folder, frozenset((folder,))))
    return runs


def _are_runs(own: set[Kind], below: dict[Path, set[Piece]], above: frozenset[str]) -> bool:
    """Whether a folder's children, or the folder itself and a child, are runs of their own."""
    kinds = {child: {piece.kind for piece in inner} for child, inner in below.items()}
    if any(_core(own & of_child) for of_child in kinds.values()):
        return True
    if above - _core_roles(kind for of_child in kinds.values() for kind in of_child):
        return False  # what they lack lies above them: they are parts of that
    only_beside = not above and not any(_core(of_child) for of_child in kinds.values())
    held: dict[Kind, list[Path]] = {}
    for child, of_child in kinds.items():
        for kind in of_child if only_beside else _core(of_child):
            held.setdefault(kind, []).append(child)
    whole = [child for child, of_child in kinds.items() if _core_roles(of_child) >= {"rollouts", "metrics"}]
    return len(whole) > 1 or any(
        # Rollouts in numbered folders are more likely steps than runs.
        len(children) > 1 and (kind.role != "rollouts" or not all(child.name.isdigit() for child in children))
        for kind, children in held.items()
    )


def _core(kinds: Iterable[Kind]) -> set[Kind]:
    return {kind for kind in kinds if kind.role not in BESIDE_A_RUN}


def _core_roles(kinds: Iterable[Kind]) -> frozenset[str]:
    return frozenset(kind.role for kind in _core(kinds))
