"""Parquet files that lie: the footer taken apart, changed and put together again.

The footer is Thrift in its compact form, which says of every field what it is: no schema is needed to read it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
# fields of a file: FileMetaData, RowGroup, ColumnChunk and ColumnMetaData, as parquet.thrift numbers them
NUM_ROWS, ROW_GROUPS = 3, 4
GROUP_COLUMNS, GROUP_BYTES, GROUP_ROWS = 1, 2, 3
CHUNK_META = 3
COLUMN_VALUES, COLUMN_BYTES, COLUMN_COMPRESSED, COLUMN_PAGE, COLUMN_DICTIONARY = 5, 6, 7, 9, 11

Struct = dict[int, tuple[int, Any]]  # field -> (kind, value)


def with_footer(data: bytes, change: Callable[[Struct], None]) -> bytes:
    """A Parquet file whose footer was changed."""
    (size,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - size
    footer = _Reader(data[start:-8]).struct()
    change(footer)
    out = bytearray()
    _write_struct(out, footer)
    return data[:start] + bytes(out) + struct.pack("<I", len(out)) + b"PAR1"


def set_integer(fields: Struct, field: int, value: int) -> None:
    fields[field] = (fields[field][0], value)


def groups(footer: Struct) -> list[Struct]:
    found: list[Struct] = footer[ROW_GROUPS][1][1]
    return found


def columns(group: Struct) -> list[Struct]:
    """The metadata of each column of a row group."""
    return [chunk[CHUNK_META][1] for chunk in group[GROUP_COLUMNS][1][1]]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> Struct:
        fields: Struct = {}
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            fields[last] = (kind, kind == TRUE if kind in (TRUE, FALSE) else self.value(kind))
        return fields

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self.byte()
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            return head & 15, [self.value(head & 15) for _ in range(size)]
        assert kind in (DOUBLE, BINARY), kind
        size = 8 if kind == DOUBLE else self.varint()
        self.place += size
        return self.data[self.place - size : self.place]


def _varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _zigzag(out: bytearray, value: int) -> None:
    _varint(out, ((value << 1) ^ (value >> 63)) & (2**64 - 1))


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field, (kind, value) in sorted(fields.items()):
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < field - last < 16:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            _zigzag(out, field)
        last = field
        if kind not in (TRUE, FALSE):
            _write(out, kind, value)
    out.append(0)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in (TRUE, FALSE, BYTE):
        out.append(value)
    elif kind in (I16, I32, I64):
        _zigzag(out, value)
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        of, entries = value
        if len(entries) < 15:
            out.append(len(entries) << 4 | of)
        else:
            out.append(15 << 4 | of)
            _varint(out, len(entries))
        for entry in entries:
            _write(out, of, entry)
    else:
        if kind == BINARY:
            _varint(out, len(value))
        out += value
