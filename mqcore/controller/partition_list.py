"""Values: an immutable list of partitions in which one element is replaced without copying all the others.

A topic may have thousands of partitions, and when a broker fails, most of them change, one after the other. The list is
a tuple of short tuples, so a change copies two tuples of about 64 elements. Readers keep the list that they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar, overload

Element = TypeVar("Element")

CHUNK_ELEMENTS: Final = 64


class PartitionList(Sequence[Element]):
    __slots__ = ("_chunks", "_length")

    def __init__(self, elements: Iterable[Element] = ()) -> None:
        every = tuple(elements)
        self._length = len(every)
        self._chunks = tuple(every[at : at + CHUNK_ELEMENTS] for at in range(0, len(every), CHUNK_ELEMENTS))

    def appended(self, element: Element) -> PartitionList[Element]:
        if self._length % CHUNK_ELEMENTS:
            chunks = (*self._chunks[:-1], (*self._chunks[-1], element))
        else:
            chunks = (*self._chunks, (element,))
        return self._with(chunks, self._length + 1)

    def replaced(self, index: int, element: Element) -> PartitionList[Element]:
        chunk, place = divmod(index, CHUNK_ELEMENTS)
        old = self._chunks[chunk]
        new = (*old[:place], element, *old[place + 1 :])
        return self._with((*self._chunks[:chunk], new, *self._chunks[chunk + 1 :]), self._length)

    def _with(self, chunks: tuple[tuple[Element, ...], ...], length: int) -> PartitionList[Element]:
        other = PartitionList[Element]()
        other._chunks, other._length = chunks, length
        return other

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Element]:
        return chain.from_iterable(self._chunks)

    @overload
    def __getitem__(self, index: int) -> Element: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Element, ...]: ...
    def __getitem__(self, index: int | slice) -> Element | tuple[Element, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        if not -self._length <= index < self._length:
            raise IndexError(f"index {index} of {self._length} partitions")
        chunk, place = divmod(index % self._length, CHUNK_ELEMENTS)
        return self._chunks[chunk][place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionList) and self._chunks == other._chunks

    def __hash__(self) -> int:
        return hash(self._chunks)

    def __repr__(self) -> str:
        return f"PartitionList({list(self)!r})"
