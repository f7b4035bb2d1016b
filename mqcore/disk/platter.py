"""Machine: what survives of files and folders when the power goes; the inside of `memory`.

Own rule: the model is harsher than any real file system. Of everything not synced, each 512-byte sector of each write,
each truncation and each change of a name survives or not on its own; only what was synced is certain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Union

if TYPE_CHECKING:
    from random import Random

SECTOR: Final = 512


@dataclass(slots=True)
class Write:
    position: int
    data: bytes


@dataclass(slots=True)
class Truncate:
    size: int


@dataclass(eq=False, slots=True)
class Content:
    """A file without a name: what a reader sees, what is durable, and what happened in between."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[Write | Truncate] = field(default_factory=list)
    modified_ms: int = 0

    def write(self, position: int, data: bytes) -> None:
        self.now[position : position + len(data)] = data
        self.pending.append(Write(position, data))

    def truncate(self, size: int) -> None:
        del self.now[size:]
        self.now.extend(bytes(size - len(self.now)))
        self.pending.append(Truncate(size))

    def sync(self) -> None:
        self.durable = bytes(self.now)
        self.pending.clear()

    def lose_power(self, random: Random) -> None:
        self.now = surviving_content(self.durable, self.pending, random)
        self.sync()


def surviving_content(durable: bytes, pending: list[Write | Truncate], random: Random) -> bytearray:
    """The durable bytes and an arbitrary part of what came after."""
    content = bytearray(durable)
    keep = random.choice((0.0, 1.0, random.random(), random.random()))  # nothing, everything, some
    prefix = random.randrange(len(pending) + 1) if random.random() < 0.5 else len(pending)
    for change in pending[:prefix]:
        if isinstance(change, Truncate):
            if random.random() < keep:
                del content[change.size :]
                content.extend(bytes(change.size - len(content)))
            continue
        for start, piece in _sectors(change):
            if random.random() < keep:
                content.extend(bytes(max(0, start - len(content))))  # a sector that came earlier than those before it
                content[start : start + len(piece)] = piece
    if pending and random.random() < 0.2:  # the new size made it, the data did not
        content.extend(bytes(random.randrange(4 * SECTOR)))
    return content


def _sectors(write: Write) -> list[tuple[int, bytes]]:
    pieces, position, end = [], write.position, write.position + len(write.data)
    while position < end:
        stop = min(end, (position // SECTOR + 1) * SECTOR)
        pieces.append((position, write.data[position - write.position : stop - write.position]))
        position = stop
    return pieces


Node = Union[Content, "Folder"]


@dataclass(eq=False, slots=True)
class Folder:
    """Names as they are seen, and as they are on the platter."""

    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NameChange:
    """One atomic change of names: (folder, name, what it now is or None) for each name it touches."""

    entries: tuple[tuple[Folder, str, Node | None], ...]

    def apply(self) -> None:
        for folder, name, node in self.entries:
            _set(folder.names, name, node)

    def persist(self) -> None:
        for folder, name, node in self.entries:
            _set(folder.durable, name, node)


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def lose_power(root: Folder, pending: list[NameChange], random: Random) -> None:
    """Settle which name changes survived, then which bytes of every file that still has a name."""
    keep = random.choice((0.0, 1.0, random.random(), random.random()))
    for change in pending:
        if random.random() < keep:
            change.persist()
    pending.clear()
    _settle(root, random)


def _settle(folder: Folder, random: Random) -> None:
    folder.names = dict(folder.durable)
    for _, node in sorted(folder.names.items()):
        if isinstance(node, Folder):
            _settle(node, random)
        else:
            node.lose_power(random)
