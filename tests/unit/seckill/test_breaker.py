"""The breaker, by a clock of the test's own."""

from __future__ import annotations

from seckill.breaker import Breaker, Permit, State


def broken() -> Breaker:
    breaker = Breaker(most_failures=3, open_s=10)
    for now in (0, 1, 2):
        assert breaker.may_try(now)
        breaker.failed(now)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row_and_not_before() -> None:
    breaker = Breaker(most_failures=3, open_s=10)
    for _ in range(5):
        breaker.failed(0)
        breaker.failed(0)
        breaker.succeeded()
    assert breaker.may_try(0)
    assert not broken().may_try(2)


def test_half_open_one_tries_for_all() -> None:
    breaker = broken()
    assert breaker.state(11.9) is State.OPEN
    assert breaker.state(12) is State.HALF_OPEN
    assert [breaker.may_try(12), breaker.may_try(12), breaker.may_try(13)] == [True, False, False]


def test_his_success_closes_it_and_his_failure_opens_it_again() -> None:
    well, ill = broken(), broken()
    assert well.may_try(12) and ill.may_try(12)
    well.succeeded()
    ill.failed(13)
    assert well.state(13) is State.CLOSED
    assert not ill.may_try(22)
    assert ill.may_try(23)


def test_one_that_never_says_what_came_of_it_does_not_keep_it_for_ever() -> None:
    breaker = broken()
    assert breaker.may_try(12)
    assert breaker.may_try(22)


def test_who_tries_may_be_given_longer_than_the_rest_before() -> None:
    breaker = Breaker(most_failures=1, open_s=1, try_s=3)
    breaker.failed(10)
    assert not breaker.may_try(10.5)
    assert [breaker.may_try(11) for _ in range(3)] == [True, False, False]
    assert not breaker.may_try(13.9), "he is still trying"
    assert breaker.may_try(14), "he has not come back: another one"


def test_a_probe_that_was_not_tried_is_given_back_to_the_next_caller() -> None:
    breaker = broken()
    assert breaker.permit(11.9) is Permit.NO
    for _ in range(20):  # calls that are refused for another reason
        assert breaker.permit(12) is Permit.PROBE
        breaker.give_back(12)
    assert breaker.permit(12) is Permit.PROBE
    assert breaker.permit(12) is Permit.NO


def test_a_probe_given_back_after_its_result_is_known_changes_nothing() -> None:
    well, ill = broken(), broken()
    assert well.may_try(12) and ill.may_try(12)
    well.succeeded()
    well.give_back(12)
    ill.failed(12)
    ill.give_back(12)
    assert well.permit(12) is Permit.YES
    assert ill.permit(12) is Permit.NO
