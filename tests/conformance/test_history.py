"""The judge of the kill test finds each kind of anomaly and accepts a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.history import History, Place, Sent, anomalies


def good() -> History:
    log = {Place(0, offset): Sent("ann", 0, offset) for offset in range(5)}
    return History(
        acked={sent: place for place, sent in log.items()},
        log=log,
        seen={"bob": list(log.items())},
    )


def without_the_second(history: History) -> None:
    history.log = {place: sent for place, sent in history.log.items() if place.offset != 1}


def with_one_twice(history: History) -> None:
    history.log = {**history.log, Place(0, 5): Sent("ann", 0, 4)}


def with_two_changing_places(history: History) -> None:
    log = dict(history.log)
    log[Place(0, 2)], log[Place(0, 3)] = log[Place(0, 3)], log[Place(0, 2)]
    history.log, history.acked, history.seen = log, {sent: place for place, sent in log.items()}, {}


def with_another_record_acknowledged_there(history: History) -> None:
    history.acked[Sent("ann", 0, 3)] = Place(0, 2)


def with_another_record_seen_there(history: History) -> None:
    history.seen["bob"][2] = (Place(0, 2), Sent("eve", 0, 0))


def with_a_record_from_nowhere(history: History) -> None:
    history.log = {**history.log, Place(0, 5): Sent("eve", 0, 0)}


def with_a_reader_that_skips(history: History) -> None:
    del history.seen["bob"][2]


def with_a_reader_that_goes_back(history: History) -> None:
    history.seen["bob"].append(history.seen["bob"][3])


def test_a_history_that_a_log_explains_has_no_anomalies() -> None:
    assert anomalies(good()) == {}


def test_an_unanswered_record_may_exist_or_not() -> None:
    history = good()
    history.unknown = {Sent("ann", 0, 5), Sent("ann", 0, 6)}
    history.log = {**history.log, Place(0, 5): Sent("ann", 0, 5)}
    assert anomalies(history) == {}


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (without_the_second, "lost"),
        (with_one_twice, "duplicated"),
        (with_two_changing_places, "reordered"),
        (with_another_record_acknowledged_there, "moved"),
        (with_another_record_seen_there, "moved"),
        (with_a_record_from_nowhere, "never sent"),
        (with_a_reader_that_skips, "skipped or went back"),
        (with_a_reader_that_goes_back, "skipped or went back"),
    ],
)
def test_each_anomaly_is_found(spoil: Callable[[History], None], kind: str) -> None:
    history = good()
    spoil(history)
    assert set(anomalies(history)) == {kind}
