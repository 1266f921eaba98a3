"""Pictures as files: SVG is parsed for its words and shapes, PNG for its size."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.support.figure_runs import eval_run, play

from dpepo.errors import RunFolderError
from dpepo.figures import KINDS, NothingToShow, Options, Picture, find_material, make_picture

pytest.importorskip("matplotlib")

from dpepo.figures.drawing import svg_text, write_picture
from dpepo.figures.labels import spread
from dpepo.figures.palette import css_variables, load_palette

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def pictures(sweep: Path) -> dict[str, Picture]:
    material = find_material([str(sweep)])
    made = {}
    for kind in KINDS:
        try:
            made[kind] = make_picture(kind, material, Options(smooth=1))
        except NothingToShow:
            assert kind == "size"
    return made


def words(svg: str) -> str:
    root = ElementTree.fromstring(svg)
    return " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("turns", ["cold start only", "DPEPO, K = 1", "DPEPO, K = 4", "turns per episode (mean)", "episodes solved"]),
        ("copies", ["DPEPO: K copies", "best of K tries", "K (copies, or tries)", "tokens (prompts and replies)"]),
        (
            "diversity",
            ["repeated actions", "repeated transitions", "exploration share", "episode length", "in width", "in depth"],
        ),
        ("parallel", ["turn of the episode", "actions at that turn (mean)"]),
        ("time", ["RL: sampling", "RL: update", "evaluation", "One step of reinforcement learning (mean), seconds"]),
        ("prompts", ["compact memory: median", "full memory: median", "prompt length in words", "share of turns"]),
        ("learning", ["DPEPO, K = 1", "step of reinforcement learning", "training episodes solved"]),
    ],
)
def test_a_picture_says_in_words_what_it_shows(kind: str, expected: list[str], pictures: dict[str, Picture]) -> None:
    svg = svg_text(pictures[kind])
    said = words(svg)
    for part in (pictures[kind].title, *expected):
        assert part in said
    assert pictures[kind].caption.split(" Source: ")[0][:60] in said  # the caption is broken into lines
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-label") == pictures[kind].title


def test_every_method_has_its_marker_and_its_whiskers(pictures: dict[str, Picture]) -> None:
    root = ElementTree.fromstring(svg_text(pictures["turns"]))
    colours = load_palette(dark=False).series
    drawn = [use for use in root.iter(f"{SVG}use") if any(colour in (use.get("style") or "") for colour in colours)]
    assert len(drawn) == 3


def test_the_same_picture_is_the_same_file(pictures: dict[str, Picture], tmp_path: Path) -> None:
    one, two = (write_picture(pictures["turns"], tmp_path / name / "turns.svg") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_png_is_sharp_and_small_and_dark_is_dark(pictures: dict[str, Picture], tmp_path: Path) -> None:
    light = write_picture(pictures["turns"], tmp_path / "light.png").read_bytes()
    dark = write_picture(pictures["turns"], tmp_path / "dark.png", dark=True).read_bytes()
    assert struct.unpack(">I", light[16:20]) == (1280,)
    assert len(light) < 200_000 and light != dark
    assert load_palette(dark=True).background in svg_text(pictures["turns"], dark=True)


def test_inside_a_page_a_picture_follows_its_colours_and_reaches_nothing_else(pictures: dict[str, Picture]) -> None:
    one, two = (svg_text(pictures[kind], inside_page=True) for kind in ("turns", "parallel"))
    assert "<style" not in one and "<?xml" not in one and "<metadata" not in one
    assert "var(--s1)" in one and "var(--sans)" in one
    assert [colour for colour in css_variables() if colour in one] == []
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0] and not ids[0] & ids[1]
    assert set(re.findall(r"url\(#([^)]+)\)", one)) <= ids[0]
    assert pictures["turns"].caption[:20] not in words(one)  # the page writes it


def test_markup_in_a_method_is_text(tmp_path: Path) -> None:
    run = eval_run(tmp_path / "run", play(2, skill=0.5))
    material = find_material([f"<script>alert(1)</script> & $x^2$={run}"])
    svg = svg_text(make_picture("turns", material, Options()), inside_page=True)
    assert "<script" not in svg
    assert "<script>alert(1)</script> & $x^2$" in words(svg)


@pytest.mark.parametrize("kind", ["turns", "diversity", "parallel", "prompts", "time"])
def test_one_episode_without_success_can_be_drawn(kind: str, tmp_path: Path) -> None:
    run = eval_run(tmp_path / "run", play(2, skill=-1.0, tasks=1, tries=1))
    svg_text(make_picture(kind, find_material([str(run)]), Options()))


def test_a_place_that_cannot_be_written_is_said_to_be_so(pictures: dict[str, Picture], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot be written.*--out"):
        write_picture(pictures["turns"], tmp_path / "file" / "turns.png")


def test_names_keep_their_order_and_a_distance() -> None:
    assert spread([0.1, 0.9], gap=0.2, low=0, high=1) == [0.1, 0.9]
    places = spread([0.95, 0.94, 0.2, 0.96], gap=0.1, low=0, high=1)
    assert sorted(places) == [0.2, 0.8, 0.9, 1.0]
    assert places[1] < places[0] < places[3]
