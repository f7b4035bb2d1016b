"""The compact set of users that stay in their queue during a divert."""

from __future__ import annotations

from seckill.messaging.pinned_users import PinnedUsers, user_mark


def test_pinned_users_contain_exactly_their_members_after_a_round_trip() -> None:
    keys = [b"user%d" % number for number in range(1000)]
    users = PinnedUsers.decode(PinnedUsers(map(user_mark, keys[:500])).encode())
    assert len(users) == 500
    assert [key in users for key in keys] == [True] * 500 + [False] * 500
    assert b"ann" not in PinnedUsers(())
