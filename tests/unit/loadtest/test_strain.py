"""A generator that is itself the bottleneck says so; one that is not, does not."""

from loadtest.strain import Strain


def test_a_loop_that_is_late_now_and_then_is_no_bottleneck() -> None:
    strain = Strain(0.0, 0.0)
    for look in range(100):
        strain.note(0.2 if look < 3 else 0.001)
    assert not strain.so_far(10.0, 4.0).is_too_much


def test_a_loop_that_is_often_late_is_one() -> None:
    strain = Strain(0.0, 0.0)
    for look in range(100):
        strain.note(0.2 if look < 10 else 0.001)
    strained = strain.so_far(10.0, 4.0)
    assert strained.is_too_much
    assert strained.worst_ms == 200
    assert "40% of a core" in str(strained)


def test_so_is_a_process_that_uses_up_its_core() -> None:
    assert Strain(0.0, 0.0).so_far(10.0, 9.6).is_too_much
