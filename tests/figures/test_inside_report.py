"""Pictures inside the report page of a demo."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dpepo.figures.inside_report import report_figures
from dpepo.runs.report import ReportFigure, write_report

pytest.importorskip("matplotlib")


def test_the_report_of_a_demo_shows_pictures_with_ids_that_differ(demo: Path, tmp_path: Path) -> None:
    run = shutil.copytree(demo, tmp_path / "demo")
    figures = report_figures(run)
    assert [figure.title for figure in figures] == [
        "Success and tokens against the number of copies",
        "Success against average turns",
        "Repeats, exploration and length of episodes",
        "Parallel actions over the turns of an episode",
        "Time per stage",
    ]
    page = write_report(run, figures=figures).read_text(encoding="utf-8")
    assert page.count('<figure class="picture">') == 5
    ids = re.findall(r'\bid="(fig-[^"]+)"', page)
    assert ids and len(ids) == len(set(ids))
    assert page.count("<style") == 1  # the page's own


def test_without_matplotlib_there_is_no_section(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shutil.copytree(demo, tmp_path / "demo")
    monkeypatch.setattr("dpepo.figures.inside_report.find_spec", lambda name: None)
    assert report_figures(run) == []
    assert "<h2>Pictures</h2>" not in write_report(run).read_text(encoding="utf-8")


def test_titles_and_captions_are_text(demo: Path, tmp_path: Path) -> None:
    run = shutil.copytree(demo, tmp_path / "demo")
    page = write_report(run, figures=[ReportFigure("<b>title</b>", "a & b", "<svg></svg>")]).read_text(encoding="utf-8")
    assert "&lt;b&gt;title&lt;/b&gt;" in page and "a &amp; b" in page
