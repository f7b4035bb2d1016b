"""Opening after a crash: what is cut, what is refused, and what is rebuilt (C2 to C9 of the crash list)."""

from __future__ import annotations

from random import Random

import pytest

from mqcore.disk.memory import Crashed, MemoryDisk
from mqcore.disk.port import Buffer
from mqcore.log.config import LogConfig
from mqcore.log.log import CorruptLog, Log
from mqcore.wire.batches import read_header
from tests.unit.mqcore.log.bench import DIRECTORY, LastSequences, append, batch, open_log, place, stored

SEGMENT = f"{DIRECTORY}/00000000000000000000.log"
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


def disk_with(*contents: Buffer) -> MemoryDisk:
    """A partition whose only segment holds this."""
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    disk.open(SEGMENT, create=True).append(contents)
    return disk


def batches(count: int, size: int = 20) -> list[bytes]:
    """Batches of two records each, in their places."""
    made, offset = [], 0
    for number in range(count):
        data = batch([bytes([number]) * size, b"x"], producer=number % 2, sequence=offset)
        made.append(bytes(data[:0]) + bytes(_placed(data, offset)))
        offset += 2
    return made


def _placed(data: bytearray, offset: int) -> bytearray:
    place(data, offset)
    return data


def flipped(data: bytes, position: int, bit: int = 0) -> bytes:
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


# --- torn tails ------------------------------------------------------------------------------------------------------


def test_a_tail_torn_at_every_byte_is_cut_to_the_last_whole_batch() -> None:
    parts = batches(4)
    whole = b"".join(parts)
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    for length in range(len(parts[0]), len(whole) + 1):  # the first batch is durable, three are not
        disk = disk_with(whole[:length])
        log = open_log(disk, recovery_point=2)
        survived = sum(end <= length for end in ends) - 1
        assert stored(log) == parts[:survived], length
        assert log.end_offset == 2 * survived
        assert disk.size(SEGMENT) == ends[survived]
        assert log.recovery.cut_bytes == length - ends[survived]
        assert (log.recovery.cut_reason is None) == (length in ends)


@pytest.mark.parametrize("garbage", [bytes(700), b"\xff" * 700, Random(1).randbytes(5000)], ids=["0", "1", "random"])
def test_a_tail_of_zeros_or_garbage_is_cut(garbage: bytes) -> None:
    parts = batches(3)
    log = open_log(disk_with(*parts, garbage))
    assert stored(log) == parts
    assert log.recovery.cut_bytes == len(garbage)


@pytest.mark.parametrize("length", [0, 48, 49, 50, 2**31 - 1, -1, -(2**31)])
def test_a_garbage_length_is_never_believed(length: int) -> None:
    parts = batches(2)
    tail = bytearray(batches(3)[2])
    tail[8:12] = (length & 0xFFFFFFFF).to_bytes(4, "big")
    log = open_log(disk_with(*parts, bytes(tail)))
    assert stored(log) == parts


def test_a_tail_whose_first_sector_is_missing_is_corrupt_if_a_valid_batch_follows_it() -> None:
    parts = batches(4)
    with pytest.raises(CorruptLog, match="a valid batch follows"):
        open_log(disk_with(parts[0], bytes(len(parts[1])), parts[2], parts[3]))


def test_a_tail_whose_sectors_came_out_of_order_is_cut_if_nothing_valid_is_left() -> None:
    parts = batches(3, size=1500)
    whole = bytearray(b"".join(parts))
    start = len(parts[0])
    for sector in range(start // 512 + 1, len(whole) // 512, 2):
        whole[sector * 512 : (sector + 1) * 512] = bytes(512)
    log = open_log(disk_with(bytes(whole)), recovery_point=2)
    assert stored(log) == parts[:1]


def test_a_later_segment_without_a_valid_batch_is_cut_with_the_tail() -> None:
    parts = batches(3)
    disk = disk_with(parts[0], parts[1][:-1])
    disk.open(f"{DIRECTORY}/00000000000000000004.log", create=True)
    disk.open(f"{DIRECTORY}/00000000000000000006.log", create=True).append([bytes(99)])
    log = open_log(disk)
    assert stored(log) == parts[:1]
    assert [name for name in disk.names(DIRECTORY) if name.endswith(".log")] == ["00000000000000000000.log"]
    assert log.recovery.cut_bytes == len(parts[1]) - 1 + 99


def test_after_a_cut_the_log_goes_on_where_it_was_cut() -> None:
    parts = batches(3)
    disk = disk_with(parts[0], parts[1][:50])
    log = open_log(disk)
    added = append(log)
    assert stored(log) == [parts[0], added]
    disk.crash("kill")
    assert stored(open_log(disk)) == [parts[0], added]


# --- corruption ------------------------------------------------------------------------------------------------------


def test_a_bad_batch_with_valid_ones_behind_it_is_corruption_and_nothing_is_cut() -> None:
    parts = batches(4)
    content = parts[0] + flipped(parts[1], 70) + parts[2] + parts[3]
    disk = disk_with(content)
    for _ in range(2):
        with pytest.raises(CorruptLog) as caught:
            open_log(disk)
        assert (caught.value.directory, caught.value.position) == (DIRECTORY, len(parts[0]))
        assert caught.value.file == "00000000000000000000.log"
        assert "wrong CRC" in caught.value.reason
    assert disk.read_whole(SEGMENT) == content


def test_a_bad_batch_below_the_recovery_point_is_corruption_even_at_the_end() -> None:
    parts = batches(3)
    disk = disk_with(parts[0], parts[1], parts[2][:-1])
    with pytest.raises(CorruptLog, match="below the recovery point 6"):
        open_log(disk, recovery_point=6)
    assert stored(open_log(disk, recovery_point=4)) == parts[:2]  # the control: durable only up to there


def test_a_missing_segment_is_corruption() -> None:
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    for _ in range(30):
        append(log, batch([b"x" * 100]))
    names = [name for name in disk.names(DIRECTORY) if name.endswith(".log")]
    disk.crash("kill")
    disk.remove(f"{DIRECTORY}/{names[2]}")
    with pytest.raises(CorruptLog, match="but the next segment begins at"):
        open_log(disk, CONFIG)


def test_a_durable_tail_that_is_missing_is_told() -> None:
    log = open_log(disk_with(*batches(2)), recovery_point=10)
    assert (log.end_offset, log.recovery.missing_offsets) == (4, 6)


def test_every_single_flipped_bit_is_detected_or_harmless() -> None:
    """Not covered by the CRC are base offset and leader epoch; an epoch that grew in the very last batch alone
    cannot be told from a new leader's. Everything else is seen."""
    parts = batches(3)
    whole = b"".join(parts)
    last = len(parts[0]) + len(parts[1])
    seen = {"cut": 0, "corrupt": 0}
    for position in range(len(whole)):
        disk = disk_with(flipped(whole, position, position % 8))
        try:
            log = open_log(disk)
        except CorruptLog:
            seen["corrupt"] += 1
            assert position < last or last <= position < last + 16
            continue
        if log.recovery.cut_reason is None:
            assert last + 12 <= position < last + 16, f"the flip at {position} went unseen"
            continue
        seen["cut"] += 1
        assert stored(log) == parts[:2]  # only the last batch may be taken for a torn write
        assert position >= last
    assert seen["cut"] > 80
    assert seen["corrupt"] > 160


def test_flipped_bits_in_a_large_segment_are_detected() -> None:
    random = Random(3)
    parts = batches(200, size=300)
    whole = b"".join(parts)
    for _ in range(60):
        position = random.randrange(len(whole) - len(parts[-1]))
        with pytest.raises(CorruptLog):
            open_log(disk_with(flipped(whole, position, random.randrange(8))))


def test_gaps_are_corruption_but_where_compaction_leaves_them() -> None:
    parts = batches(4)
    with pytest.raises(CorruptLog, match="base offset 4, expected 2"):
        open_log(disk_with(parts[0], parts[2], parts[3]))
    log = open_log(disk_with(parts[0], parts[2], parts[3]), LogConfig(compact=True))
    assert stored(log) == [parts[0], parts[2], parts[3]]


def test_leader_epochs_that_fall_are_corruption() -> None:
    first, second, third = (bytearray(part) for part in batches(3))
    place(first, 0, epoch=5)
    place(second, 2, epoch=4)
    place(third, 4, epoch=5)
    with pytest.raises(CorruptLog, match="leader epoch 4 after 5"):
        open_log(disk_with(first, second, third))


# --- hints -----------------------------------------------------------------------------------------------------------


def filled(disk: MemoryDisk, *, close: bool) -> tuple[list[bytes], LastSequences]:
    observer = LastSequences()
    log = open_log(disk, CONFIG, observer=observer)
    for number in range(25):
        data = batch([b"v" * 50], producer=number % 3, sequence=number, timestamp=1000 + number)
        append(log, data, epoch=number // 10)
    found = stored(log)
    if close:
        log.close()
    return found, observer


def hints(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if not name.endswith(".log")]


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "cut", "flipped"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_indexes_epochs_and_snapshots_are_rebuilt(damage: str, clean: bool) -> None:
    disk = MemoryDisk()
    wanted, observer = filled(disk, close=True)
    assert {name.partition(".")[2] for name in hints(disk)} >= {"index", "timeindex", "snapshot"}
    for name in hints(disk):
        path = f"{DIRECTORY}/{name}"
        content = disk.read_whole(path)
        disk.remove(path)
        if damage != "missing":
            new = {
                "empty": b"",
                "zeros": bytes(len(content)),
                "cut": content[:-1],
                "flipped": flipped(content, len(content) // 2, 7),
            }
            disk.open(path, create=True).append([new[damage]])
    again = LastSequences()
    log = open_log(disk, CONFIG, clean=clean, observer=again)
    assert stored(log) == wanted
    assert again.last == observer.last
    assert log.epochs.end_offset_for(0) == (0, 10)
    assert log.epochs.end_offset_for(1) == (1, 20)
    for offset in range(25):
        piece = log.read(offset, 1, limit=25)
        assert piece is not None
        assert read_header(piece.read()).base_offset == offset
    found = log.offset_for_time(1017, limit=25)
    assert found is not None
    assert found.offset == 17


def test_an_index_from_another_life_of_the_segment_is_not_believed() -> None:
    disk = MemoryDisk()
    wanted, _ = filled(disk, close=True)
    path = f"{DIRECTORY}/00000000000000000000.index"
    stale = disk.read_whole(path)
    shifted = b"".join(stale[at : at + 4] + (7).to_bytes(4, "big") for at in range(0, 8, 8))
    disk.replace(path, shifted)
    log = open_log(disk, CONFIG, clean=True)
    assert [read_header(_read(log, offset)).base_offset for offset in range(5)] == list(range(5))
    assert stored(log) == wanted


def _read(log: Log, offset: int) -> bytes:
    piece = log.read(offset, 1, limit=log.end_offset)
    assert piece is not None
    return piece.read()


def test_epochs_that_were_not_saved_before_the_recovery_point_are_found_in_the_batches() -> None:
    disk = MemoryDisk()
    filled(disk, close=True)
    disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    for clean in (False, True):
        log = open_log(disk, CONFIG, clean=clean, recovery_point=25)
        assert log.epochs.end_offset_for(1) == (1, 20), f"clean: {clean}"
        assert log.last_epoch == 2


def test_a_clean_start_scans_and_replays_nothing() -> None:
    disk = MemoryDisk()
    wanted, observer = filled(disk, close=True)
    again = LastSequences()
    log = open_log(disk, CONFIG, clean=True, observer=again)
    assert (log.recovery.scanned_batches, log.recovery.replayed_batches) == (0, 0)
    assert (stored(log), again.last) == (wanted, observer.last)
    assert log.flushed_offset == log.end_offset == 25
    assert not log.dirty()


def test_a_clean_stop_of_a_log_that_nobody_changed_costs_nothing() -> None:
    disk = MemoryDisk()
    wanted, _ = filled(disk, close=True)
    before = disk.changes
    open_log(disk, CONFIG, clean=True).close()
    assert disk.changes == before
    log = open_log(disk, CONFIG, clean=True)
    wanted.append(append(log))
    log.close()
    disk.crash("power")
    log = open_log(disk, CONFIG, clean=True)
    assert stored(log) == wanted
    log.truncate_to(25)
    log.close()
    disk.crash("power")
    assert stored(open_log(disk, CONFIG, clean=True)) == wanted[:25]


def test_only_segments_from_the_recovery_point_on_are_scanned() -> None:
    disk = MemoryDisk()
    wanted, _ = filled(disk, close=False)
    disk.crash("kill")
    log = open_log(disk, CONFIG, recovery_point=20)
    assert 0 < log.recovery.scanned_batches < 25
    assert log.recovery.scanned_segments < len(log.segments.items)
    assert stored(log) == wanted
    assert log.flushed_offset == 20


def test_leftovers_of_a_crash_are_removed() -> None:
    disk = disk_with(*batches(1))
    leftovers = [
        "00000000000000000009.log.deleted",
        "00000000000000000000.log.cleaned",
        "x.tmp",
        "00000000000000000009.index",
    ]
    for name in leftovers:
        disk.open(f"{DIRECTORY}/{name}", create=True)
    log = open_log(disk)
    assert sorted(log.recovery.removed) == sorted(leftovers)
    assert disk.names(DIRECTORY) == ["00000000000000000000.log"]


def test_a_log_start_beyond_what_survived_leaves_an_empty_log_there() -> None:
    log = open_log(disk_with(*batches(2)), start_offset=10)
    assert (log.start_offset, log.end_offset) == (10, 10)
    append(log)
    assert log.end_offset == 11


# --- recovery again --------------------------------------------------------------------------------------------------


def test_recovery_that_crashes_at_any_call_is_completed_by_the_next_one() -> None:
    parts = batches(6)

    def damaged() -> MemoryDisk:
        disk = disk_with(*parts[:3])
        disk.open(f"{DIRECTORY}/00000000000000000006.log", create=True).append([parts[3], parts[4], parts[5][:40]])
        disk.open(f"{DIRECTORY}/00000000000000000010.log", create=True)
        disk.open(f"{DIRECTORY}/00000000000000000012.log.deleted", create=True)
        for name in ("00000000000000000000.log", "00000000000000000006.log"):
            disk.open(f"{DIRECTORY}/{name}").sync()
        disk.sync_directory(DIRECTORY)
        disk.sync_directory("")
        return disk

    disk = damaged()
    before = disk.changes
    wanted = stored(open_log(disk))
    calls = disk.changes - before
    assert wanted == parts[:5]
    assert calls >= 8
    for kind in ("kill", "power"):
        for nth in range(1, calls + 1):
            disk = damaged()
            disk.crash_at(nth, "after")
            with pytest.raises(Crashed):
                open_log(disk)
            disk.crash(kind)
            assert stored(open_log(disk)) == wanted, (kind, nth)


def test_recovering_twice_leaves_the_same_bytes() -> None:
    disk = disk_with(*batches(3), b"torn")
    disk.crash("kill")
    open_log(disk)
    once = {name: disk.read_whole(f"{DIRECTORY}/{name}") for name in disk.names(DIRECTORY)}
    disk.crash("kill")
    log = open_log(disk)
    assert {name: disk.read_whole(f"{DIRECTORY}/{name}") for name in disk.names(DIRECTORY)} == once
    assert log.recovery.cut_reason is None
