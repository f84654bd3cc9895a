"""Parquet tables, where the extra that reads them is installed."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"PAR1"
LARGEST = 512 << 20
"""Bytes of a file's values; what holds more is not read. A few bytes can stand for very many equal ones."""
MOST_VALUES = 5_000_000
_LARGEST_NUMBER = 32
"""Bytes of a value that is no text: of a decimal with many digits."""
_AT_ONCE = 256
"""Rows that are unpacked before it is looked whether they are too much."""


class Table(NamedTuple):
    """What a parquet file holds."""

    rows: list[dict[str, Any]]
    columns: list[str]
    floating: frozenset[str]
    """Columns that hold numbers with a fraction, or would if there were any."""


def parquet_table(data: bytes, columns: Sequence[str] | None = None) -> Table:
    """A parquet file, of these columns alone where they are named and there.

    ValueError, with a reason for the user, where it cannot be read.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 an optional extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise ValueError("parquet files need the extra: pip install 'grpo-top[parquet]'") from None
    try:
        # A text that many rows share is kept once, until it is known what all of them take.
        texts = _texts(pq.read_metadata(pa.BufferReader(data)))
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        wanted = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        batches = _batches(file, wanted)
        table = pa.Table.from_batches(batches) if batches else file.read(columns=wanted)
        rows: list[dict[str, Any]] = [row for batch in batches for row in _written_out(batch).to_pylist()]
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"not a readable parquet file: {why:.120}") from None
    floating = frozenset(field.name for field in table.schema if pa.types.is_floating(field.type))
    return Table(rows, table.column_names, floating)


def _batches(file: Any, columns: list[str] | None) -> list[Any]:
    """The rows of a file in batches; ValueError where they are too much."""
    values = file.metadata.num_rows * (file.metadata.num_columns if columns is None else len(columns))
    if values > MOST_VALUES:
        raise ValueError(f"{values:,} values, more than the {MOST_VALUES:,} that are read")
    batches, size = [], 0
    for batch in chain.from_iterable(
        file.iter_batches(_AT_ONCE, row_groups=[group], columns=columns)  # no batch may lie in two of them
        for group in range(file.num_row_groups)
    ):
        size += sum(map(_size, batch.columns))
        if size > LARGEST:
            raise ValueError(f"values of more than {LARGEST:,} bytes, which are not read")
        batches.append(batch)
    return batches


def _texts(metadata: Any) -> list[str]:
    """The columns that hold texts, by their paths.

    As the schema has them: to ask for what is known of a column's parts ends the process where that is damaged.
    """
    columns = [metadata.schema.column(column) for column in range(metadata.num_columns)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _size(array: Any) -> int:
    """Bytes that an array takes with each of its values written out."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind = array.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            return _LARGEST_NUMBER * len(array)
        lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
        return int(pc.sum(lengths).as_py() or 0) + 4 * len(array)
    if pa.types.is_struct(kind):
        return sum(map(_size, array.flatten()))
    if pa.types.is_map(kind):
        return _size(array.keys) + _size(array.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _size(array.flatten())
    return int(array.nbytes)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    is_ = pa.types
    return any(of(kind) for of in (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary))


def _written_out(batch: Any) -> Any:
    """A batch with each of its texts written out."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [of.dictionary_decode() if pa.types.is_dictionary(of.type) else of for of in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def parquet_rows(data: bytes, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows alone."""
    return parquet_table(data, columns).rows
