"""Store: a simulated disk in memory. Tests make it crash, fill up or fail.

    disk.crash("kill")              the process died: everything written is kept, synced or not
    disk.crash("power")             the machine died: part of what was not synced is lost, by the seed (see `platter`)
    disk.crash_at(n, "before")      the n-th change from now raises `Crashed`, and so does every call after it
    disk.fail("sync", errno.EIO)    the next sync raises; `skip` lets some succeed first, `times` repeats the fault
    disk.capacity = 4096            writing more bytes raises ENOSPC

Own rule: a composite call (`replace`) consists of the same counted changes as on a real file system.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from mqcore.disk.platter import Content, Folder, NameChange, Node, lose_power
from mqcore.disk.port import Buffer

When = Literal["before", "during", "after"]
CallKind = Literal["open", "append", "read", "truncate", "sync", "make_directory", "rename", "remove", "sync_directory"]


class Effect(Protocol):
    """Makes a change completely, or only the given part if the process dies during it."""

    def __call__(self, part: float = 1.0) -> None: ...


class Crashed(BaseException):
    """The process is dead. It is not an `Exception`, so that no code under test catches it."""


@dataclass(slots=True)
class _Fault:
    kind: CallKind
    error: int
    skip: int
    times: int


class MemoryFile:
    __slots__ = ("_content", "_disk", "_generation")

    def __init__(self, disk: MemoryDisk, content: Content) -> None:
        self._disk = disk
        self._content = content
        self._generation = disk.generation

    @property
    def size(self) -> int:
        return len(self._content.now)

    def append(self, chunks: Sequence[Buffer]) -> None:
        self._check_open()
        data = b"".join(chunks)
        content, size = self._content, len(self._content.now)

        def write(part: float = 1.0) -> None:
            content.write(size, data[: int(len(data) * part)])
            content.modified_ms = self._disk.now_ms

        free = self._disk.free_bytes()
        if len(data) > free:
            write(free / len(data))
            content.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._disk.make_change("append", write)

    def read(self, position: int, length: int) -> bytes:
        self._check_open()
        self._disk.raise_injected_fault("read")
        return bytes(memoryview(self._content.now)[position : position + length])

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.make_change("truncate", _all_or_nothing(lambda: self._content.truncate(size)))

    def sync(self) -> None:
        self._check_open()
        self._disk.make_change("sync", _all_or_nothing(self._content.sync))

    def close(self) -> None:
        self._generation = -1

    def _check_open(self) -> None:
        if self._generation != self._disk.generation:
            self._disk.check_alive()
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class MemoryDisk:
    """A tree of files in memory. `seed` decides what a power loss destroys."""

    def __init__(self, seed: int | Random = 0, *, capacity: int | None = None) -> None:
        self._random = seed if isinstance(seed, Random) else Random(seed)
        self._root = Folder()
        self._pending: list[NameChange] = []
        self._faults: list[_Fault] = []
        self._crash_in: int | None = None
        self._crash_when: When = "before"
        self._dead = False
        self.capacity = capacity
        self.now_ms = 0
        self.changes = 0  # so far; a test crashes at each of them in turn
        self.generation = 0  # rises with each crash; files opened before it are closed

    # --- crashes and faults ------------------------------------------------------------------------------------------

    def crash(self, kind: Literal["kill", "power"]) -> None:
        """End the process or the machine. The disk can then be used again, with what is left."""
        if kind == "power":
            lose_power(self._root, self._pending, self._random)
        self.generation += 1
        self._dead, self._crash_in = False, None
        self._faults.clear()

    def crash_at(self, nth: int, when: When = "before") -> None:
        self._crash_in, self._crash_when = nth, when

    def fail(self, kind: CallKind, error: int, *, skip: int = 0, times: int = 1) -> None:
        self._faults.append(_Fault(kind, error, skip, times))

    def check_alive(self) -> None:
        if self._dead:
            raise Crashed

    def raise_injected_fault(self, kind: CallKind) -> None:
        self.check_alive()
        for fault in self._faults:
            if fault.kind != kind:
                continue
            if fault.skip:
                fault.skip -= 1
            elif fault.times:
                fault.times -= 1
                raise OSError(fault.error, os.strerror(fault.error))

    def make_change(self, kind: CallKind, effect: Effect) -> None:
        """Make one change. It is counted, and fails or crashes as the test has arranged."""
        self.raise_injected_fault(kind)
        self.changes += 1
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in == 0:
                self._dead = True
                if self._crash_when == "after":
                    effect()
                elif self._crash_when == "during":
                    effect(self._random.random())
                raise Crashed
        effect()

    def _change_names(self, kind: CallKind, *entries: tuple[Folder, str, Node | None]) -> None:
        change = NameChange(entries)

        def effect() -> None:
            change.apply()
            self._pending.append(change)

        self.make_change(kind, _all_or_nothing(effect))

    # --- the port ----------------------------------------------------------------------------------------------------

    def _folder(self, path: str) -> Folder:
        node: Node = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Folder) or name not in node.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.names[name]
        if not isinstance(node, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent_and_name(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name

    def _node(self, path: str) -> Node | None:
        try:
            folder, name = self._parent_and_name(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return folder.names.get(name)

    def _content(self, path: str) -> Content:
        node = self._node(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.raise_injected_fault("open")
        if create and self._node(path) is None:
            folder, name = self._parent_and_name(path)
            self._change_names("open", (folder, name, Content(modified_ms=self.now_ms)))
        return MemoryFile(self, self._content(path))

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self._node(path) is not None

    def size(self, path: str) -> int:
        self.check_alive()
        return len(self._content(path).now)

    def modified_ms(self, path: str) -> int:
        self.check_alive()
        return self._content(path).modified_ms

    def names(self, directory: str) -> list[str]:
        self.check_alive()
        entries = self._folder(directory).names.items()
        return sorted(f"{name}/" if isinstance(node, Folder) else name for name, node in entries)

    def make_directory(self, path: str) -> None:
        self.check_alive()
        parent = self._root
        for name in filter(None, path.split("/")):
            if name not in parent.names:
                self._change_names("make_directory", (parent, name, Folder()))
            node = parent.names[name]
            if not isinstance(node, Folder):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            parent = node

    def rename(self, old: str, new: str) -> None:
        self.check_alive()
        from_folder, from_name = self._parent_and_name(old)
        if from_name not in from_folder.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        node = from_folder.names[from_name]
        to_folder, to_name = self._parent_and_name(new)
        if isinstance(to_folder.names.get(to_name), Folder):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        self._change_names("rename", (from_folder, from_name, None), (to_folder, to_name, node))

    def remove(self, path: str) -> None:
        self.check_alive()
        if self._node(path) is not None:
            folder, name = self._parent_and_name(path)
            self._change_names("remove", (folder, name, None))

    def sync_directory(self, path: str) -> None:
        self.check_alive()
        folder = self._folder(path)

        def effect() -> None:
            for change in [one for one in self._pending if any(entry[0] is folder for entry in one.entries)]:
                change.persist()
                self._pending.remove(change)

        self.make_change("sync_directory", _all_or_nothing(effect))

    def read_whole(self, path: str) -> bytes:
        self.raise_injected_fault("read")
        return bytes(self._content(path).now)

    def replace(self, path: str, content: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append([content])
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0])

    def free_bytes(self) -> int:
        self.check_alive()
        return (1 << 40) if self.capacity is None else max(0, self.capacity - self.used_bytes())

    def used_bytes(self) -> int:
        return _used(self._root)


def _used(folder: Folder) -> int:
    return sum(_used(node) if isinstance(node, Folder) else len(node.now) for node in folder.names.values())


def _all_or_nothing(effect: Callable[[], None]) -> Effect:
    """A change that the file system makes completely or not at all."""

    def effect_unless_cut_short(part: float = 1.0) -> None:
        if part == 1.0:
            effect()

    return effect_unless_cut_short
