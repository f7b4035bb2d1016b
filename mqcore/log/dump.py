"""Shell: `mqcore dump`: segments, indexes and snapshots as lines to read, or as JSON, one object a line.

Own rule: it only reads, believes nothing it reads, and goes on after what is damaged as far as it can.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, TextIO

from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.segment import INDEX, LOG, TIME_INDEX
from mqcore.log.snapshots import SNAPSHOT
from mqcore.wire.batches import HEADER_BYTES, BadBatch, BatchHeader, check_crc, read_header
from mqcore.wire.checksum import crc32c
from mqcore.wire.records import iterate_records

CODECS: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_TEXT_FILES: Final = ("-checkpoint", ".metadata", ".properties")
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ROW = struct.Struct(">qhiqiqiq")
_ANY_SIZE: Final = 2**31 - 1

Line = Mapping[str, Any]


def run(paths: Sequence[str], records: bool, as_json: bool, out: TextIO | None = None) -> int:
    """Print all files, and all files of all folders; 1 if something was missing or damaged."""
    out = out or sys.stdout
    damaged = False
    for path in _files(paths):
        if not as_json:
            print(f"# {path}", file=out)
        try:
            for line in lines(path, records=records):
                damaged = damaged or "damage" in line
                print(json.dumps({"file": path, **line}) if as_json else _in_words(line), file=out)
        except OSError as error:
            damaged = True
            print(f"mqcore: {path}: {error.strerror}", file=sys.stderr)
    return 1 if damaged else 0


def _files(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, _, names in sorted(os.walk(path)):
            yield from (os.path.join(folder, name) for name in sorted(names) if _is_known(name))


def _is_known(name: str) -> bool:
    return name.endswith((LOG, INDEX, TIME_INDEX, SNAPSHOT, *_TEXT_FILES))


def _in_words(line: Line) -> str:
    return "  ".join(value if name == "line" else f"{name}: {value}" for name, value in line.items())


def lines(path: str, *, records: bool = False) -> Iterator[Line]:
    """What one file holds."""
    if path.endswith(LOG):
        with open(path, "rb") as file:
            yield from _segment(file, os.fstat(file.fileno()).st_size, records)
        return
    with open(path, "rb") as file:
        content = file.read()
    stem = os.path.basename(path).partition(".")[0]
    base = int(stem) if stem.isdigit() else 0
    if path.endswith(INDEX):
        yield from _offset_index(content, base)
    elif path.endswith(TIME_INDEX):
        yield from _time_index(content, base)
    elif path.endswith(SNAPSHOT):
        yield from _snapshot(content)
    else:
        yield from ({"line": line} for line in content.decode("utf-8", "replace").splitlines())


def _segment(file: BinaryIO, size: int, records: bool) -> Iterator[Line]:
    position = 0
    while position < size:
        file.seek(position)
        try:
            header = read_header(file.read(HEADER_BYTES))
            if header.size > size - position:
                raise BadBatch(f"batch of {header.size} bytes is cut off")
            file.seek(position)
            batch = file.read(header.size)
            check_crc(batch, header)
        except BadBatch as error:
            yield {"position": position, "damage": str(error), "bytes behind": size - position}
            return
        yield _batch(position, header)
        if records:
            yield from _records(batch, header)
        position += header.size


def _batch(position: int, header: BatchHeader) -> Line:
    line: dict[str, Any] = {
        "position": position,
        "offsets": f"{header.base_offset}..{header.last_offset}",
        "records": header.records_count,
        "bytes": header.size,
        "leader epoch": header.leader_epoch,
        "codec": CODECS.get(header.codec, str(header.codec)),
        "max timestamp": header.max_timestamp,
        "attributes": f"0x{header.attributes & 0xFFFF:04x}",
    }
    if header.producer_id >= 0:
        line |= {
            "producer": header.producer_id,
            "producer epoch": header.producer_epoch,
            "base sequence": header.base_sequence,
        }
    return line


def _records(batch: bytes, header: BatchHeader) -> Iterator[Line]:
    try:
        for record in iterate_records(batch, header):
            yield {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": {name: _text(value) for name, value in record.headers},
            }
    except BadBatch as error:
        yield {"offsets": f"{header.base_offset}..{header.last_offset}", "damage": str(error)}


def _text(data: bytes | None) -> str | None:
    """UTF-8 where it is some; otherwise the bytes in hex, so that nothing is shown wrongly."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def _offset_index(content: bytes, base: int) -> Iterator[Line]:
    index = OffsetIndex.decode(content, _ANY_SIZE)
    if index is None:
        yield {"damage": "not an offset index, or its entries do not rise"}
        return
    for offset, position in index.entries():
        yield {"offset": base + offset, "position": position}


def _time_index(content: bytes, base: int) -> Iterator[Line]:
    index = TimeIndex.decode(content)
    if index is None:
        yield {"damage": "not a time index, or its entries do not rise"}
        return
    for timestamp, offset in index.entries():
        yield {"timestamp": timestamp, "offset": base + offset}


def _snapshot(content: bytes) -> Iterator[Line]:
    """Kafka's producer snapshot, version 1: CRC-32C of everything behind it, then one row a producer."""
    if len(content) < _SNAPSHOT_HEAD.size:
        yield {"damage": "too short for a producer snapshot"}
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
    if version != 1 or crc != crc32c(memoryview(content)[6:]):
        yield {"damage": f"version {version}, wrong CRC" if version == 1 else f"version {version}, expected 1"}
        return
    rows = memoryview(content)[_SNAPSHOT_HEAD.size :]
    if len(rows) != count * _SNAPSHOT_ROW.size:
        yield {"damage": f"{count} producers in {len(rows)} bytes"}
        return
    for producer, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn in _SNAPSHOT_ROW.iter_unpack(rows):
        yield {
            "producer": producer,
            "producer epoch": epoch,
            "last sequence": sequence,
            "last offset": offset,
            "offset delta": delta,
            "timestamp": timestamp,
            "coordinator epoch": coordinator_epoch,
            "transaction from": txn if txn >= 0 else None,
        }
