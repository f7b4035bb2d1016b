"""The four codecs are compatible with other libraries, and decompression bombs are stopped early."""

from __future__ import annotations

import gzip
import random
import time
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from aiokafka import codec as aiokafka_codec
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from mqcore.wire.batches import BadBatch
from mqcore.wire.compression import (
    GZIP,
    GZIP_MEMBERS_MAX,
    LZ4,
    NAMES,
    NONE,
    SNAPPY,
    SNAPPY_BLOCKS_MAX,
    ZSTD,
    compress,
    decompress,
)

MEBIBYTE = 1 << 20
COMPRESSING = [GZIP, SNAPPY, LZ4, ZSTD]

NOISE = random.Random(1).randbytes(100_000)
TEXT = b"sold out " * 30_000
SAMPLES = {"nothing": b"", "a byte": b"x", "text": TEXT, "noise": NOISE, "both": NOISE + bytes(200_000)}


@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("codec", NAMES, ids=NAMES.get)
def test_compressed_data_is_decompressed_unchanged(codec: int, data: bytes) -> None:
    compressed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(compressed), len(data)) == data
    assert len(compressed) <= len(data) * 1.01 + 60


@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("library", [kafka_codec, aiokafka_codec], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", COMPRESSING, ids=NAMES.get)
def test_our_compressed_data_and_that_of_other_libraries_are_compatible(
    codec: int, library: object, data: bytes
) -> None:
    encode, decode = (getattr(library, f"{NAMES[codec]}_{verb}") for verb in ("encode", "decode"))
    assert bytes(decode(compress(codec, data))) == data
    assert decompress(codec, bytes(encode(data)), len(data)) == data


@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
def test_raw_snappy_is_decompressed(data: bytes) -> None:
    assert decompress(SNAPPY, snappy.compress(data), len(data)) == data


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
@pytest.mark.parametrize("checked", [True, False])
def test_every_kind_of_lz4_frame_is_decompressed(linked: bool, size: int, checked: bool) -> None:
    checks = {"content_checksum": checked, "block_checksum": checked}
    frame = lz4.frame.compress(TEXT, block_linked=linked, block_size=size, **checks)
    assert decompress(LZ4, frame, len(TEXT)) == TEXT


def test_our_lz4_blocks_are_independent_as_java_requires() -> None:
    info = lz4.frame.get_frame_info(compress(LZ4, TEXT))
    assert info["block_linked"] is False


def test_several_zstd_frames_of_unknown_size_are_decompressed() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False)
    assert decompress(ZSTD, stream.compress(b"a" * 1000) + stream.compress(b"b"), 1001) == b"a" * 1000 + b"b"


def test_several_gzip_members_are_decompressed() -> None:
    assert decompress(GZIP, gzip.compress(b"a" * 1000) + gzip.compress(b"b"), 1001) == b"a" * 1000 + b"b"


@pytest.mark.parametrize("codec", NAMES, ids=NAMES.get)
def test_the_limit_of_the_decompressed_size_is_exact(codec: int) -> None:
    for data in (b"xy", SAMPLES["both"]):
        compressed = compress(codec, data)
        assert decompress(codec, compressed, len(data)) == data
        with pytest.raises(BadBatch):
            decompress(codec, compressed, len(data) - 1)


def bombs() -> dict[str, tuple[int, bytes]]:
    """A gigabyte of zeros each, compressed as far as its format allows."""
    chunk = bytes(16 * MEBIBYTE)
    gzipper = zlib.compressobj(wbits=31)
    gzipped = b"".join(gzipper.compress(chunk) for _ in range(64)) + gzipper.flush()
    zstd = bytes(cramjam.zstd.compress(chunk)) * 64
    block = bytes(cramjam.snappy.compress_raw(chunk))
    framed = b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2 + (len(block).to_bytes(4, "big") + block) * 64
    lz4_block = compress(LZ4, bytes(64 * 1024))[7:-4]
    return {
        "gzip": (GZIP, gzipped),
        "zstd": (ZSTD, zstd),
        "xerial snappy": (SNAPPY, framed),
        "raw snappy": (SNAPPY, b"\x80\x80\x80\x80\x04" + block[4:]),
        "lz4": (LZ4, b"\x04\x22\x4d\x18\x60\x40\x82" + lz4_block * 16_384 + bytes(4)),
    }


@pytest.mark.parametrize(("codec", "bomb"), bombs().values(), ids=bombs())
def test_a_decompression_bomb_of_a_gigabyte_is_refused_in_little_memory(codec: int, bomb: bytes) -> None:
    limit = 8 * MEBIBYTE
    tracemalloc.start()
    try:
        started = time.process_time()
        with pytest.raises(BadBatch):
            decompress(codec, bomb, limit)
        assert time.process_time() - started < 2
        assert tracemalloc.get_traced_memory()[1] < 3 * limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING, ids=NAMES.get)
def test_an_incomplete_stream_is_refused(codec: int) -> None:
    compressed = compress(codec, TEXT)
    for end in (1, 5, 17, len(compressed) // 2, len(compressed) - 1):
        with pytest.raises(BadBatch):
            decompress(codec, compressed[:end], MEBIBYTE)


@pytest.mark.parametrize("length", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02", b"\x7f\xff\xff\xff"])
def test_the_length_of_a_snappy_block_is_checked_before_it_is_read(length: bytes) -> None:
    stream = compress(SNAPPY, b"")
    assert stream.endswith(b"\x00\x00\x00\x01\x00")
    with pytest.raises(BadBatch, match="snappy: block of"):
        decompress(SNAPPY, stream[:-5] + length + b"\x00", 10)


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(BadBatch):
        decompress(codec, b"x", 10)
    with pytest.raises(ValueError):
        compress(codec, b"x")


@pytest.mark.parametrize("codec", NAMES, ids=NAMES.get)
def test_random_bytes_are_decompressed_or_a_bad_batch(codec: int) -> None:
    @settings(max_examples=150, deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        stream = bytearray(compress(codec, data.draw(st.sampled_from([b"ab" * 40, b"x" * 40_000, NOISE[:300]]))))
        position = data.draw(st.integers(0, len(stream) - 1))
        stream[position : position + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        for each in (bytes(stream), data.draw(st.binary(max_size=40))):
            try:
                assert len(decompress(codec, each, 50_000)) <= 50_000
            except BadBatch:
                pass

    check()


def test_the_number_of_gzip_members_and_snappy_blocks_is_limited() -> None:
    member = gzip.compress(b"", mtime=0)
    assert decompress(GZIP, member * GZIP_MEMBERS_MAX, 1) == b""
    with pytest.raises(BadBatch, match="members"):
        decompress(GZIP, member * (GZIP_MEMBERS_MAX + 1), 1)
    header, block = b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2, bytes((0, 0, 0, 1, 0))
    assert decompress(SNAPPY, header + block * SNAPPY_BLOCKS_MAX, 1) == b""
    with pytest.raises(BadBatch, match="blocks"):
        decompress(SNAPPY, header + block * (SNAPPY_BLOCKS_MAX + 1), 1)


def test_a_gzip_member_may_end_anywhere_in_a_piece() -> None:
    noise = random.Random(1).randbytes(40_000)
    members = [gzip.compress(noise[:size]) for size in (0, 1, 16_300, 16_350, 16_384, 40_000, 3)]
    expected = b"".join(map(gzip.decompress, members))
    assert decompress(GZIP, b"".join(members), len(expected)) == expected
    with pytest.raises(BadBatch, match="more than"):
        decompress(GZIP, b"".join(members), len(expected) - 1)


def test_uncompressed_data_above_the_limit_is_refused() -> None:
    assert decompress(NONE, memoryview(b"abc"), 3) == b"abc"
    with pytest.raises(BadBatch):
        decompress(NONE, b"abc", 2)
