"""Rollouts that were read together, as columns: to make a record of each would take as long as to parse its line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from grpo_top.records import Location, Rollout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from grpo_top.records import Record

    Read: TypeAlias = "Record | Bundle"
    """What a reader that reads many lines at once gives."""

_LOCATION = Rollout._fields.index("location")


class Places(NamedTuple):
    """The fields of `Location` of some rollouts, one element a rollout."""

    offsets: Sequence[int]
    lengths: Sequence[int]
    parts: Sequence[int]

    def cut(self, where: slice) -> Places:
        """Those of some of the rollouts."""
        return Places(self.offsets[where], self.lengths[where], self.parts[where])


class Bundle(Sequence[Rollout]):
    """Some rollouts of one source, in order. As a sequence it makes a record of each that is asked for.

    Args:
        columns: field of `Rollout`, all but `location` → its values, one a rollout, as they stand in a record.
            `step` is there; a field that is left out is None in all of them.
        places: where each of them lies.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]], places: Places) -> None:
        self.columns = columns
        self.places = places

    @property
    def steps(self) -> Sequence[int]:
        """The step of each."""
        found: Sequence[int] = self.columns["step"]
        return found

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
    if len(parts) == 1:
        return bundled(parts[0])
    bundles = list(map(bundled, parts))
    fields = dict.fromkeys(chain.from_iterable(bundle.columns for bundle in bundles))
    columns = [(bundle.columns, (None,) * len(bundle)) for bundle in bundles]
    return Bundle(
        {
            field: list(chain.from_iterable([of_one.get(field, unknown) for of_one, unknown in columns]))
            for field in fields
        },
        Places(
            *(
                list(chain.from_iterable(of_each))
                for of_each in zip(*(bundle.places for bundle in bundles), strict=True)
            )
        ),
    )


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
