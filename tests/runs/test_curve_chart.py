"""The learning curve picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from dpepo.runs.curve_chart import curve_svg, series_names, ticks
from dpepo.runs.summary import CurvePoint, Reference


def point(step: float, value: float, *, series: str = "K = 4", n: int = 64) -> CurvePoint:
    return CurvePoint(step=step, series=series, value=value, n=n)


def test_higher_values_are_drawn_higher_and_later_steps_further_right() -> None:
    svg = curve_svg([point(10, 0.8), point(0, 0.2)], axis="step")
    places = re.search(r'<polyline class="line" points="([^"]+)"', svg)
    assert places is not None
    (x0, y0), (x1, y1) = (map(float, place.split(",")) for place in places[1].split())
    assert x0 < x1
    assert y0 > y1


def test_each_series_is_one_line_with_a_band_where_the_counts_are_known() -> None:
    points = [point(0, 0.1), point(1, 0.2), point(0, 0.3, series="K = 1", n=0), point(1, 0.4, series="K = 1", n=0)]
    svg = curve_svg(points, axis="step")
    assert series_names(points) == ["K = 4", "K = 1"]
    assert svg.count('class="line"') == 2
    assert svg.count('class="band"') == 1


def test_a_single_point_and_equal_steps_still_make_a_picture() -> None:
    ET.fromstring(curve_svg([point(3, 0.5)], axis="step"))
    ET.fromstring(curve_svg([point(3, 0.5), point(3, 0.7)], axis="step"))
    assert ticks(3, 3, most=5) == [3]
    assert all(step == int(step) for step in ticks(0, 2, most=9))


def test_names_cannot_add_markup_to_the_picture() -> None:
    evil = '"><script>x</script>'
    svg = curve_svg(
        [point(0, 0.5, series=evil), point(1, 0.5, series=evil)], axis=evil, references=[Reference(label=evil, value=0.3)]
    )
    assert "<script" not in svg
    ET.fromstring(svg)
