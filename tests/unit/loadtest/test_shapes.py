"""A story is told from beginning to end, and then it is over."""

from __future__ import annotations

import pytest

from loadtest.shapes import BOTS, IMPATIENT, PEOPLE, SHAPES, at


def test_a_sale_begins_with_people_who_refresh_and_ends_with_a_tail() -> None:
    before, gong, storm, tail = (at("sale", second, 1000) for second in (0, 20, 35, 55))
    assert before is not None and before.users == 600 and BOTS not in before.who
    assert gong is not None and gong.users == 1000 and set(gong.who) == {PEOPLE, IMPATIENT, BOTS}
    assert storm is not None and storm.users == 1500 and PEOPLE not in storm.who
    assert tail is not None and tail.users == 200
    assert at("sale", 95, 1000) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_every_scene_of_every_story_has_somebody_in_it(shape: str) -> None:
    second, scenes = 0.0, []
    while (wanted := at(shape, second, 1)) is not None:
        assert wanted.users >= 1 and wanted.rate >= 1 and wanted.who
        scenes.append(wanted.scene)
        second += 1
    assert set(scenes) == {scene.name for scene in SHAPES[shape]}
