"""Parquet tables, where the extra that reads them is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"PAR1"


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
        table = file.read(columns=wanted)
        rows: list[dict[str, Any]] = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"not a readable parquet file: {str(error).splitlines()[0]:.120}") from None
    floating = frozenset(field.name for field in table.schema if pa.types.is_floating(field.type))
    return Table(rows, table.column_names, floating)


def parquet_rows(data: bytes, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows alone."""
    return parquet_table(data, columns).rows
