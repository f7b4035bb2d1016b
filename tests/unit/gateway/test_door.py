"""The door: whoever waits on the loop takes no room from threads, nor they from him."""

from __future__ import annotations

import pytest
from gateway.desk import Accepted, Call
from gateway.door import ROOM_ON_LOOP, Door
from gateway.submissions import State
from greenlet import getcurrent, greenlet

from seckill.web.problems import Problem

CALL = Call(1, "", "", "key", "", "127.0.0.1", "", None, b"")
ACCEPTED = Accepted("request", "place", 500, b"{}")


class Behind:
    """Who asks on a greenlet waits until he is switched to; a thread has its answer at once."""

    def ask(self, call: Call, patience_s: float) -> Accepted:
        me = getcurrent()
        if me.parent is not None and me.parent.switch() == "late":
            raise TimeoutError
        return ACCEPTED

    def late(self) -> None:
        self.was_late = True

    def state(self) -> State:
        return State(0, 0, 0)

    def check(self) -> None: ...


def enter(door: Door) -> greenlet:
    one = greenlet(door.pass_through)
    one.switch(CALL)
    return one


def test_the_room_on_the_loop_is_its_own() -> None:
    door = Door(Behind())
    crowd = [enter(door) for _ in range(ROOM_ON_LOOP)]
    assert door.waiting == ROOM_ON_LOOP
    with pytest.raises(Problem) as told:
        enter(door)
    assert told.value.kind == "queue-unavailable"
    assert door.pass_through(CALL) == ACCEPTED  # a thread
    assert [each.switch() for each in crowd[:2]] == [ACCEPTED, ACCEPTED]
    assert door.waiting == ROOM_ON_LOOP - 2
    crowd.append(enter(door))
    for each in crowd[2:]:
        each.switch()
    assert door.waiting == 0


def test_who_waits_in_vain_leaves_the_room() -> None:
    behind = Behind()
    door = Door(behind)
    one = enter(door)
    with pytest.raises(Problem) as told:
        one.switch("late")
    assert told.value.kind == "queue-unknown"
    assert behind.was_late and door.waiting == 0
