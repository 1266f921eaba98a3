"""What the viewer page holds, without a browser; test_pages_in_browser.py looks at it through one."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_episodes import HOSTILE, hostile_episode, lifespan_episode, lost_episode, scored

from dpepo.errors import RunFolderError
from dpepo.runs import viewer
from dpepo.runs.episodes import write_episodes
from dpepo.runs.viewer import write_viewer
from dpepo.types import Episode, ScoredEpisode, StopReason


def recorded(page: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The index and the unpacked chunks of a page."""
    text = page.read_text(encoding="utf-8")
    index = re.search(r'<script type="application/json" id="index">(.*?)</script>', text, re.DOTALL)
    assert index is not None
    chunks = re.findall(r'<script type="text/plain" id="chunk-\d+">(.*?)</script>', text, re.DOTALL)
    return json.loads(index[1]), [json.loads(zlib.decompress(base64.b64decode(chunk))) for chunk in chunks]


def run_with(folder: Path, episodes: Sequence[Episode | ScoredEpisode], *, stage: str = "rl", step: int = 0) -> Path:
    write_episodes(folder / "episodes", stage, step, episodes)
    return folder


def test_every_episode_has_a_row_and_its_details_are_where_the_row_says(tmp_path: Path) -> None:
    episodes = [lifespan_episode(number, skill=0.5, num_envs=4, seed=1) for number in range(viewer.CHUNK_EPISODES + 3)]
    index, chunks = recorded(write_viewer(run_with(tmp_path, episodes)))
    assert [row["task"] for row in index["rows"]] == [episode.task.id for episode in episodes]
    assert len(chunks) == 2
    for row, episode in zip(index["rows"], episodes, strict=True):
        detail = chunks[row["chunk"]]["episodes"][row["place"]]
        assert detail["key"] == row["key"]
        assert len(detail["turns"]) == len(episode.turns)
        assert row["outcome"] == episode.outcome
        assert row["actions"] == episode.num_actions


def test_links_to_an_episode_stay_the_same_when_the_run_goes_on(tmp_path: Path) -> None:
    run_with(tmp_path, [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)], step=3)
    (before,) = recorded(write_viewer(tmp_path))[0]["rows"]
    run_with(tmp_path, [lifespan_episode(2, skill=0.5, num_envs=4, seed=1)] * 2, step=1)
    run_with(tmp_path, [lifespan_episode(3, skill=0.5, num_envs=4, seed=1)], step=3)
    keys = {row["key"]: row["task"] for row in recorded(write_viewer(tmp_path))[0]["rows"]}
    assert len(keys) == 4
    assert keys[before["key"]] == before["task"]


def test_step_rewards_arrive_with_the_counts_behind_them(tmp_path: Path) -> None:
    episode = scored(lifespan_episode(1, skill=0.5, num_envs=4, seed=1))
    index, chunks = recorded(write_viewer(run_with(tmp_path, [episode])))
    shown = chunks[0]["episodes"][0]["turns"][0]["reward"]
    reward = episode.step_rewards[0]
    assert (shown["value"], shown["cWidth"], shown["actions"]) == (reward.value, reward.c_width, reward.num_actions)
    assert shown["cDepth"] == {str(env): count for env, count in reward.c_depth.items()}
    assert index["prompts"] is True


def test_hostile_text_leaves_no_markup_in_the_file(tmp_path: Path) -> None:
    page = write_viewer(run_with(tmp_path, [scored(hostile_episode())]))
    body = page.read_text(encoding="utf-8")
    assert "<script>window" not in body
    assert "<img" not in body
    assert "\u2028" not in body
    texts = recorded(page)[1][0]["texts"]
    assert any(text.startswith(HOSTILE[1]) for text in texts)


def test_an_asked_but_not_executed_action_is_kept_apart_from_the_done_ones(tmp_path: Path) -> None:
    """E17: an action for an environment that ended is shown as asked for, never as done."""
    chunks = recorded(write_viewer(run_with(tmp_path, [hostile_episode()])))[1]
    turn = chunks[0]["episodes"][0]["turns"][0]
    assert turn["skipped"] == {"4": "inventory"}
    assert [step["env"] for step in turn["steps"]] == [1, 2]


def test_lost_episodes_have_no_outcome_and_say_what_broke(tmp_path: Path) -> None:
    """V10: a lost episode is neither a success nor a failure."""
    index, chunks = recorded(write_viewer(run_with(tmp_path, [lost_episode()])))
    (row,) = index["rows"]
    assert row["outcome"] is None
    assert row["stop"] == StopReason.POLICY_FAILED.value
    assert "TimeoutError" in chunks[0]["episodes"][0]["error"]


def test_cut_and_foreign_lines_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    run_with(tmp_path, [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)])
    file = tmp_path / "episodes" / "rl-0000.jsonl"
    whole = file.read_text(encoding="utf-8")
    file.write_text('{"version": 9, "text": "another format"}\n' + whole + whole[: len(whole) // 2], encoding="utf-8")
    index, _ = recorded(write_viewer(tmp_path))
    assert len(index["rows"]) == 1
    assert len(index["notices"]) == 2
    assert all("rl-0000.jsonl, line" in notice for notice in index["notices"])


def test_thousands_of_damaged_lines_are_counted_not_listed(tmp_path: Path) -> None:
    (tmp_path / "episodes").mkdir()
    (tmp_path / "episodes" / "rl-0000.jsonl").write_text("nonsense\n" * 5000, encoding="utf-8")
    index, _ = recorded(write_viewer(tmp_path))
    assert len(index["notices"]) == viewer.MAX_NOTICES + 1
    assert index["notices"][-1] == "... and 4,800 more damaged lines"


def test_a_run_without_episodes_makes_an_empty_page(tmp_path: Path) -> None:
    index, chunks = recorded(write_viewer(tmp_path))
    assert (index["rows"], chunks) == ([], [])


def test_prompts_are_left_out_of_large_runs_or_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_with(tmp_path, [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)])
    assert recorded(write_viewer(tmp_path, prompts=False))[1][0]["episodes"][0]["turns"][0]["prompt"] is None
    monkeypatch.setattr(viewer, "PROMPT_BYTES", 10)
    assert recorded(write_viewer(tmp_path))[0]["prompts"] is False
    assert recorded(write_viewer(tmp_path, prompts=True))[0]["prompts"] is True


def test_the_page_goes_where_it_is_asked_to_and_leaves_the_run_alone(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)])
    page = write_viewer(run, tmp_path / "pages" / "look.html")
    assert page == tmp_path / "pages" / "look.html"
    assert [path.name for path in run.iterdir()] == ["episodes"]
    assert [path.name for path in page.parent.iterdir()] == ["look.html"]


def test_the_same_run_gives_the_same_page_to_the_byte(tmp_path: Path) -> None:
    run = run_with(tmp_path, [scored(hostile_episode())])
    assert write_viewer(run).read_bytes() == write_viewer(run).read_bytes()


def test_a_place_that_is_no_run_or_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a folder"):
        write_viewer(tmp_path / "nowhere")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunFolderError, match="cannot be written"):
        write_viewer(tmp_path, tmp_path / "file" / "page.html")
