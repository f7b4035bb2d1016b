"""The judge of the kill test finds each kind of anomaly and accepts a correct history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.history import Commit, History, Place, Sent, Span, anomalies


def good() -> History:
    log = {Place(0, offset): Sent("ann", 0, offset) for offset in range(5)}
    return History(
        acked={sent: place for place, sent in log.items()},
        spans={sent: Span(10.0 * sent.number, 10.0 * sent.number + 5) for sent in log.values()},
        log=log,
        seen={"bob": list(log.items())},
        commits={"group": [Commit("begun", 0, 3), Commit("confirmed", 0, 3), Commit("found", 0, 3)]},
    )


def without_the_last(history: History) -> None:
    history.log = {place: sent for place, sent in history.log.items() if place.offset != 4}
    history.seen.clear()


def without_one_that_only_a_consumer_saw(history: History) -> None:
    without_the_last(history)
    del history.acked[Sent("ann", 0, 4)]
    history.unknown = {Sent("ann", 0, 4)}
    history.seen = {"bob": [(Place(0, number), Sent("ann", 0, number)) for number in range(5)]}


def with_the_last_at_another_place(history: History) -> None:
    """Nothing is where it was acknowledged, and the record is stored elsewhere."""
    history.acked[Sent("ann", 0, 4)] = Place(0, 7)


def with_a_hole(history: History) -> None:
    """The record behind it is where it was acknowledged."""
    history.log = {place: sent for place, sent in history.log.items() if place.offset != 2}
    del history.acked[Sent("ann", 0, 2)]
    history.seen.clear()


def with_a_refused_record(history: History) -> None:
    history.refused = {Sent("ann", 0, 5)}
    history.log = {**history.log, Place(0, 5): Sent("ann", 0, 5)}


def with_a_record_before_one_that_was_acknowledged_earlier(history: History) -> None:
    """Of another producer, so that it is not in its own producer's wrong order."""
    history.log = {Place(0, 0): Sent("eve", 0, 0), Place(0, 1): Sent("ann", 0, 0)}
    history.acked = {sent: place for place, sent in history.log.items()}
    history.spans = {Sent("ann", 0, 0): Span(0, 1), Sent("eve", 0, 0): Span(2, 3)}
    history.seen.clear()


def with_a_commit_that_is_forgotten(history: History) -> None:
    history.commits["group"].append(Commit("found", 0, -1))


def with_a_commit_that_was_there_and_is_gone(history: History) -> None:
    """It was never confirmed, but once it was found it has to stay."""
    history.commits["group"] += [Commit("begun", 0, 5), Commit("found", 0, 5), Commit("found", 0, 3)]


def with_a_commit_from_nowhere(history: History) -> None:
    history.commits["group"].append(Commit("found", 0, 4))


def with_one_twice(history: History) -> None:
    history.log = {**history.log, Place(0, 5): Sent("ann", 0, 4)}


def with_two_changing_places(history: History) -> None:
    log = dict(history.log)
    log[Place(0, 2)], log[Place(0, 3)] = log[Place(0, 3)], log[Place(0, 2)]
    history.log, history.acked, history.seen = log, {sent: place for place, sent in log.items()}, {}
    history.spans = {}


def with_another_record_acknowledged_there(history: History) -> None:
    history.acked[Sent("ann", 0, 3)] = Place(0, 2)
    history.spans = {}


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


def test_records_that_were_under_way_at_the_same_time_may_be_stored_in_any_order() -> None:
    history = good()
    with_a_record_before_one_that_was_acknowledged_earlier(history)
    history.spans = {Sent("ann", 0, 0): Span(0, 2), Sent("eve", 0, 0): Span(2, 3)}
    assert anomalies(history) == {}


def test_a_commit_that_was_not_confirmed_may_be_found_or_not() -> None:
    history = good()
    begun = Commit("begun", 0, 5)
    for found in (3, 5):
        history.commits["group"] = [*good().commits["group"], begun, Commit("found", 0, found)]
        assert anomalies(history) == {}


def test_a_refused_record_may_be_absent() -> None:
    history = good()
    history.refused = {Sent("ann", 0, 5)}
    assert anomalies(history) == {}


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (without_the_last, "lost"),
        (without_one_that_only_a_consumer_saw, "vanished"),
        (with_the_last_at_another_place, "moved"),
        (with_a_hole, "missing offsets"),
        (with_a_refused_record, "refused but stored"),
        (with_a_record_before_one_that_was_acknowledged_earlier, "older than an earlier acknowledgement"),
        (with_a_commit_that_is_forgotten, "committed offset went back"),
        (with_a_commit_that_was_there_and_is_gone, "committed offset went back"),
        (with_a_commit_from_nowhere, "committed offset went back"),
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
