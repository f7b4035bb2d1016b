"""Shell: `mqcore dump` prints segments, indexes and snapshots as readable lines, or as JSON with one object per line.

Own rule: it only reads, trusts nothing, and continues after damage as far as possible.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, TextIO

from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.producer_snapshot import BadSnapshot, decode_snapshot
from mqcore.log.segment_files import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX
from mqcore.wire.batches import HEADER_BYTES, BadBatch, BatchHeader, check_crc, read_header
from mqcore.wire.records import iterate_records

CODECS: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_TEXT_FILES: Final = ("-checkpoint", ".metadata", ".properties")
_ANY_SIZE: Final = 2**31 - 1

Line = Mapping[str, Any]


def dump_files(paths: Sequence[str], records: bool, as_json: bool, out: TextIO | None = None) -> int:
    """Print the given files and all files in the given folders. Returns 1 if one was missing or damaged, else 0."""
    out = out or sys.stdout
    damaged = False
    for path in _files(paths):
        if not as_json:
            print(f"# {path}", file=out)
        try:
            for line in describe_file(path, records=records):
                damaged = damaged or "damage" in line
                print(json.dumps({"file": path, **line}) if as_json else _as_text(line), file=out)
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
            yield from (os.path.join(folder, name) for name in sorted(names) if _is_readable(name))


def _is_readable(name: str) -> bool:
    return name.endswith((LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX, *_TEXT_FILES))


def _as_text(line: Line) -> str:
    return "  ".join(value if name == "line" else f"{name}: {value}" for name, value in line.items())


def describe_file(path: str, *, records: bool = False) -> Iterator[Line]:
    """The content of one file."""
    if path.endswith(LOG_SUFFIX):
        with open(path, "rb") as file:
            yield from _segment(file, os.fstat(file.fileno()).st_size, records)
        return
    with open(path, "rb") as file:
        content = file.read()
    stem = os.path.basename(path).partition(".")[0]
    base = int(stem) if stem.isdigit() else 0
    if path.endswith(INDEX_SUFFIX):
        yield from _offset_index(content, base)
    elif path.endswith(TIME_INDEX_SUFFIX):
        yield from _time_index(content, base)
    elif path.endswith(SNAPSHOT_SUFFIX):
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
    """As text if it is UTF-8, otherwise in hex."""
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
    try:
        rows = decode_snapshot(content)
    except BadSnapshot as error:
        yield {"damage": str(error)}
        return
    for row in rows:
        first_offset = row.transaction_first_offset
        yield {
            "producer": row.producer_id,
            "producer epoch": row.producer_epoch,
            "last sequence": row.last_sequence,
            "last offset": row.last_offset,
            "offset delta": row.offset_delta,
            "timestamp": row.timestamp,
            "coordinator epoch": row.coordinator_epoch,
            "transaction from": first_offset if first_offset >= 0 else None,
        }
