"""Machine: what survives a power loss on the simulated disk in `memory`.

Own rule: the model is harsher than any real file system. Only synced data is certain. Of everything else, each 512-byte
sector of each write, each truncation and each change of a name survives or is lost independently.
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
    """The content of a file: what a reader sees, what is durable, and the changes between the two."""

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
    """The durable bytes and an arbitrary part of the later changes."""
    content = bytearray(durable)
    survival_rate = random.choice((0.0, 1.0, random.random(), random.random()))  # none, all, or some survive
    prefix = random.randrange(len(pending) + 1) if random.random() < 0.5 else len(pending)
    for change in pending[:prefix]:
        if isinstance(change, Truncate):
            if random.random() < survival_rate:
                del content[change.size :]
                content.extend(bytes(change.size - len(content)))
            continue
        for start, piece in _sectors(change):
            if random.random() < survival_rate:
                content.extend(
                    bytes(max(0, start - len(content)))
                )  # this sector was written before the ones in front of it
                content[start : start + len(piece)] = piece
    if pending and random.random() < 0.2:  # the new size survived, the data did not
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
    """The names that the process sees, and those that would survive a power loss."""

    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NameChange:
    """One atomic change of names: (folder, name, what the name now means, or None) for each name in it."""

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
    """Decide which name changes survive, then which bytes of every file that still has a name."""
    survival_rate = random.choice((0.0, 1.0, random.random(), random.random()))
    for change in pending:
        if random.random() < survival_rate:
            change.persist()
    pending.clear()
    _lose_unsynced(root, random)


def _lose_unsynced(folder: Folder, random: Random) -> None:
    folder.names = dict(folder.durable)
    for _, node in sorted(folder.names.items()):
        if isinstance(node, Folder):
            _lose_unsynced(node, random)
        else:
            node.lose_power(random)
