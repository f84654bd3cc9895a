"""Parquet tables, where the extra that reads them is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"PAR1"
LARGEST = 512 << 20
"""Bytes of a file's values; what holds more is not read. A few bytes can stand for very many equal ones."""
MOST_VALUES = 5_000_000
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
        file = pq.ParquetFile(pa.BufferReader(data))
        wanted = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        batches = _batches(file, wanted)
        table = pa.Table.from_batches(batches) if batches else file.read(columns=wanted)
        rows: list[dict[str, Any]] = table.to_pylist()
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
    for batch in file.iter_batches(_AT_ONCE, columns=columns):
        size += sum(_plain(column).nbytes for column in batch.columns)
        if size > LARGEST:
            raise ValueError(f"values of more than {LARGEST:,} bytes, which are not read")
        batches.append(batch)
    return batches


def _plain(column: Any) -> Any:
    """A column with each of its values, where it names them by number."""
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def parquet_rows(data: bytes, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows alone."""
    return parquet_table(data, columns).rows
