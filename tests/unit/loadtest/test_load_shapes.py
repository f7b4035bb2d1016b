"""A load shape runs its scenes in order and then ends."""

from __future__ import annotations

import pytest

from loadtest.load_shapes import BOTS, IMPATIENT, PEOPLE, SHAPES, target_at


def test_the_sale_shape_begins_with_page_refreshes_and_ends_with_a_tail() -> None:
    before, opening, storm, tail = (target_at("sale", second, 1000) for second in (0, 20, 35, 55))
    assert before is not None and before.users == 600 and BOTS not in before.groups
    assert opening is not None and opening.users == 1000 and set(opening.groups) == {PEOPLE, IMPATIENT, BOTS}
    assert storm is not None and storm.users == 1500 and PEOPLE not in storm.groups
    assert tail is not None and tail.users == 200
    assert target_at("sale", 95, 1000) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_every_scene_of_every_shape_has_users(shape: str) -> None:
    second, scenes = 0.0, []
    while (target := target_at(shape, second, 1)) is not None:
        assert target.users >= 1 and target.rate >= 1 and target.groups
        scenes.append(target.scene)
        second += 1
    assert set(scenes) == {scene.name for scene in SHAPES[shape]}
