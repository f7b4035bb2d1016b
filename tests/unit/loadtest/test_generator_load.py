"""A load generator that is itself the bottleneck says so, and one that is not does not."""

from loadtest.generator_load import LoadMonitor


def test_an_event_loop_that_is_rarely_late_is_not_a_bottleneck() -> None:
    monitor = LoadMonitor(0.0, 0.0)
    for check in range(100):
        monitor.note(0.2 if check < 3 else 0.001)
    assert not monitor.load(10.0, 4.0).is_too_high


def test_an_event_loop_that_is_often_late_is_a_bottleneck() -> None:
    monitor = LoadMonitor(0.0, 0.0)
    for check in range(100):
        monitor.note(0.2 if check < 10 else 0.001)
    load = monitor.load(10.0, 4.0)
    assert load.is_too_high
    assert load.worst_ms == 200
    assert "40% of a core" in str(load)


def test_a_process_that_uses_a_whole_core_is_a_bottleneck() -> None:
    assert LoadMonitor(0.0, 0.0).load(10.0, 9.6).is_too_high
