"""Rollouts that were read together, as columns: to make a record of each would take as long as to parse its line."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, compress, groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from grpo_top.records import Location, Rollout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from grpo_top.records import Record

    Read: TypeAlias = "Record | Bundle"
    """What a reader that reads many lines at once gives."""
    Columns: TypeAlias = Mapping[str, Sequence[Any]]

_LOCATION = Rollout._fields.index("location")


class Places(NamedTuple):
    """The fields of `Location` of some rollouts, one element a rollout."""

    offsets: Sequence[int]
    lengths: Sequence[int]
    parts: Sequence[int]

    def cut(self, where: slice) -> Places:
        """Those of some of the rollouts."""
        return Places(self.offsets[where], self.lengths[where], self.parts[where])


class Maker(Protocol):
    """Makes columns of rollouts that are still as they were read."""

    def columns(self, raws: Sequence[Any]) -> Columns:
        """See `Bundle`. It must not fail on what is left to be made later."""


class Unmade(NamedTuple):
    """Rollouts of which no columns have been made."""

    raws: Sequence[Any]
    maker: Maker


class Components(Sequence["Mapping[str, float]"]):
    """What the reward of each rollout is made of, where that is the same for all: kept by component."""

    def __init__(self, columns: Mapping[str, Sequence[float]], size: int) -> None:
        self.columns = columns
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, where: int) -> Mapping[str, float]: ...
    @overload
    def __getitem__(self, where: slice) -> Components: ...
    def __getitem__(self, where: int | slice) -> Mapping[str, float] | Components:
        if isinstance(where, slice):
            cut = {name: values[where] for name, values in self.columns.items()}
            return Components(cut, len(range(self._size)[where]))
        place = range(self._size)[where]
        return {name: values[place] for name, values in self.columns.items()}


class Bundle(Sequence[Rollout]):
    """Some rollouts of one source, in order. As a sequence it makes a record of each that is asked for.

    Args:
        columns: field of `Rollout`, all but `location` → its values, one a rollout, as they stand in a record.
            `step` is there; a field that is left out is None in all of them.
        places: where each of them lies.
    """

    def __init__(self, columns: Columns, places: Places) -> None:
        self.places = places
        self.steps: Sequence[int] = columns["step"]
        """The step of each."""
        self.unmade: Unmade | None = None
        self._columns = columns

    @classmethod
    def later(cls, steps: Sequence[int], unmade: Unmade, places: Places) -> Bundle:
        """Of few rollouts, whose columns are made when they are asked for, or with those of others: see `joined`."""
        found = cls({"step": steps}, places)
        found.unmade = unmade
        return found

    @property
    def columns(self) -> Columns:
        """See the class."""
        if self.unmade is not None:
            self._columns, self.unmade = self.unmade.maker.columns(self.unmade.raws), None
        return self._columns

    def column(self, field: str) -> Sequence[Any]:
        """The values of a field, one a rollout."""
        found = self.columns.get(field)
        return (None,) * len(self) if found is None else found

    def those(self, wanted: Sequence[bool]) -> Bundle:
        """The rollouts of which it is said that they are wanted."""
        if all(wanted):
            return self
        columns = {field: list(compress(values, wanted)) for field, values in self.columns.items()}
        return Bundle(columns, Places(*(list(compress(values, wanted)) for values in self.places)))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Rollout]:
        columns: list[Iterable[Any]] = [self.columns.get(field, repeat(None)) for field in Rollout._fields]
        columns[_LOCATION] = map(Location, *self.places)
        return map(Rollout._make, zip(*columns, strict=False))

    @overload
    def __getitem__(self, where: int) -> Rollout: ...
    @overload
    def __getitem__(self, where: slice) -> Bundle: ...
    def __getitem__(self, where: int | slice) -> Rollout | Bundle:
        if isinstance(where, slice):
            columns = {field: values[where] for field, values in self.columns.items()}
            return Bundle(columns, self.places.cut(where))
        place = range(len(self))[where]
        return next(iter(self[place : place + 1]))


def bundled(rollouts: Sequence[Rollout]) -> Bundle:
    """Records as a bundle; there is one at least."""
    if isinstance(rollouts, Bundle):
        return rollouts
    columns = dict(zip(Rollout._fields, zip(*rollouts, strict=True), strict=True))
    places = Places(*zip(*columns.pop("location"), strict=True))
    return Bundle(
        {field: values for field, values in columns.items() if values.count(None) < len(values)}, places
    )


def joined(parts: Sequence[Sequence[Rollout]]) -> Bundle:
    """Several parts, none of them empty, as one bundle."""
    bundles = _made_together(list(map(bundled, parts)))
    if len(bundles) == 1:
        return bundles[0]
    fields = dict.fromkeys(chain.from_iterable(bundle.columns for bundle in bundles))
    return Bundle(
        {field: _end_to_end([bundle.column(field) for bundle in bundles]) for field in fields},
        _places(bundles),
    )


def _end_to_end(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """One part after the other. Arrays stay one, and components what they are, where all of them are."""
    components = [part.columns for part in parts if isinstance(part, Components)]
    if len(components) == len(parts) and len(names := set(map(tuple, components))) == 1:
        columns = {name: _end_to_end([of_one[name] for of_one in components]) for name in names.pop()}
        return Components(columns, sum(map(len, parts)))
    typecodes = {part.typecode if isinstance(part, array) else "" for part in parts}
    whole: Any = array(*typecodes) if len(typecodes) == 1 and all(typecodes) else []
    for part in parts:  # in a fifth of the time that `chain` takes
        whole += part
    return whole  # type: ignore[no-any-return]


def _made_together(bundles: Sequence[Bundle]) -> list[Bundle]:
    """The bundles, with one in place of neighbours of which no columns have been made: to make them takes as long for
    one rollout as for many.
    """
    found: list[Bundle] = []
    for kind, run in groupby(bundles, lambda bundle: bundle.unmade and type(bundle.unmade.maker)):
        together = list(run)
        if kind is None or len(together) == 1:
            found += together
        else:
            raws = chain.from_iterable(bundle.unmade.raws for bundle in together if bundle.unmade)
            maker = next(bundle.unmade.maker for bundle in together if bundle.unmade)
            found.append(Bundle(maker.columns(list(raws)), _places(together)))
    return found


def _places(bundles: Sequence[Bundle]) -> Places:
    return Places(*map(_end_to_end, zip(*(bundle.places for bundle in bundles), strict=True)))


def one_by_one(read: Iterable[Read]) -> Iterator[Record]:
    """What was read as records alone."""
    for record in read:
        if type(record) is Bundle:
            yield from record
        else:
            yield record  # type: ignore[misc]


def transposed(
    mappings: Sequence[Mapping[str, Any]], among: Collection[str] | None = None
) -> dict[str, Sequence[Any]]:
    """Key → values, None where a mapping has no such key. `among`: the keys that are wanted, if not all are."""
    if len(mappings) == 1:
        return {key: (value,) for key, value in mappings[0].items()}
    shape = tuple(mappings[0])
    if len(shape) > 1 and set(map(len, mappings)) == {len(shape)}:
        with suppress(KeyError):  # nearly never: one program wrote all of them
            return dict(zip(shape, zip(*map(itemgetter(*shape), mappings), strict=True), strict=True))
    keys = dict.fromkeys(chain.from_iterable(mappings))
    wanted = keys if among is None else (key for key in among if key in keys)
    return {key: [one.get(key) for one in mappings] for key in wanted}
