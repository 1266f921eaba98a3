"""What the viewer page holds, without a browser; test_pages_in_browser.py looks at it through one."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_episodes import (
    HOSTILE,
    credited,
    hostile_episode,
    lifespan_episode,
    lost_episode,
    sample_group,
    scored,
)

from dpepo.errors import RunFolderError
from dpepo.runs import viewer
from dpepo.runs.advantages import episode_advantages, write_advantages
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


def test_advantages_stand_beside_the_step_rewards_they_follow_from(tmp_path: Path) -> None:
    group = credited(sample_group(1, skill=0.5, seed=3, num_siblings=4))
    run_with(tmp_path, group.group.siblings, step=2)
    write_advantages(tmp_path, "rl", 2, episode_advantages([group], algorithm="dpepo"))
    index, chunks = recorded(write_viewer(tmp_path))
    for row, phi, turns in zip(index["rows"], group.trajectory, group.turns, strict=True):
        detail = chunks[row["chunk"]]["episodes"][row["place"]]
        assert detail["algorithm"] == "dpepo"
        assert row["phi"] == pytest.approx(phi, abs=1e-4)
        assert [turn["advantage"] for turn in detail["turns"]] == pytest.approx(turns, abs=1e-4)


def test_a_run_without_recorded_advantages_opens_without_them(tmp_path: Path) -> None:
    """Folders of before advantages were recorded, and stages that have none."""
    index, chunks = recorded(write_viewer(run_with(tmp_path, [scored(lifespan_episode(1, skill=0.5, num_envs=4, seed=1))])))
    assert index["rows"][0]["phi"] is None
    assert {turn["advantage"] for turn in chunks[0]["episodes"][0]["turns"]} == {None}
    assert index["notices"] == []


def test_tokens_are_counted_whether_their_ids_are_known_or_only_their_number(tmp_path: Path) -> None:
    episode = lifespan_episode(1, skill=0.5, num_envs=4, seed=1)
    completion = episode.turns[0].completion
    counted = completion.model_copy(
        update={"token_ids": (), "logprobs": (), "prompt_token_ids": (), "num_reply_tokens": 31, "num_prompt_tokens": 207}
    )
    turn = episode.turns[0].model_copy(update={"completion": counted, "seconds": 2.5, "env_seconds": 0.5})
    run_with(tmp_path, [episode.model_copy(update={"turns": (turn,)})])
    index, chunks = recorded(write_viewer(tmp_path))
    shown = chunks[0]["episodes"][0]["turns"][0]
    assert (shown["tokens"], shown["promptTokens"], shown["seconds"], shown["envSeconds"]) == (31, 207, 2.5, 0.5)
    assert (index["rows"][0]["tokens"], index["rows"][0]["seconds"]) == (31, 2.5)


def test_stages_are_listed_in_the_order_in_which_they_were_played(tmp_path: Path) -> None:
    episode = lifespan_episode(1, skill=0.5, num_envs=4, seed=1)
    for stage in ("synth", "eval-sft", "rl", "eval-rl", "added-later"):
        run_with(tmp_path, [episode], stage=stage)
    sessions = [{"stages": ["synth", "eval-sft"]}, {"stages": ["rl", "eval-rl", "added-later"]}]
    (tmp_path / "run.json").write_text(json.dumps({"format": 1, "job": "demo", "sessions": sessions}))
    for number, path in enumerate(sorted((tmp_path / "episodes").iterdir())):
        os.utime(path, (number, number))  # a copy: by name
    rows = recorded(write_viewer(tmp_path))[0]["rows"]
    assert [row["stage"] for row in rows] == ["synth", "eval-sft", "rl", "eval-rl", "added-later"]


def test_stages_of_a_run_that_did_not_record_their_order_are_listed_by_the_age_of_their_files(tmp_path: Path) -> None:
    episode = lifespan_episode(1, skill=0.5, num_envs=4, seed=1)
    for age, stage in enumerate(("synth", "eval-sft", "rl", "eval-rl")):
        run_with(tmp_path, [episode], stage=stage)
        os.utime(tmp_path / "episodes" / f"{stage}-0000.jsonl", (age, age))
    rows = recorded(write_viewer(tmp_path))[0]["rows"]
    assert [row["stage"] for row in rows] == ["synth", "eval-sft", "rl", "eval-rl"]


def test_episodes_of_a_newer_version_are_shown_without_what_is_unknown_here(tmp_path: Path) -> None:
    run_with(tmp_path, [scored(lifespan_episode(1, skill=0.5, num_envs=4, seed=1))])
    file = tmp_path / "episodes" / "rl-0000.jsonl"
    line = json.loads(file.read_text(encoding="utf-8"))
    line["record"]["mood"] = "good"
    line["record"]["episode"]["turns"][0]["colour"] = 3
    file.write_text(json.dumps(line), encoding="utf-8")
    index, _ = recorded(write_viewer(tmp_path))
    assert len(index["rows"]) == 1
    assert index["notices"] == ["rl-0000.jsonl, line 1 has fields of another version (colour, mood); left out"]


def test_a_folder_of_another_format_or_with_a_damaged_run_file_is_shown_and_said_to_be_so(tmp_path: Path) -> None:
    run_with(tmp_path, [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)])
    for text, notice in (
        ('{"format": 9, "job": "train", "sessions": []}', "run.json is of format 9, this version of dpepo knows 1"),
        ('{"format": 1, "jo', "run.json cannot be read (JSONDecodeError), so job and state are unknown"),
        ('{"format": 1, "job": "train", "sessions": 3}', "run.json cannot be read (TypeError), so job and state are unknown"),
    ):
        (tmp_path / "run.json").write_text(text)
        index, _ = recorded(write_viewer(tmp_path))
        assert len(index["rows"]) == 1
        assert index["notices"] == [notice]


def test_half_written_advantages_are_named_and_the_episodes_shown(tmp_path: Path) -> None:
    group = credited(sample_group(1, skill=0.5, seed=3, num_siblings=2))
    run_with(tmp_path, group.group.siblings)
    path = write_advantages(tmp_path, "rl", 0, episode_advantages([group], algorithm="dpepo"))
    path.write_text(path.read_text()[:-30])
    index, _ = recorded(write_viewer(tmp_path))
    assert [row["phi"] is None for row in index["rows"]] == [False, True]
    assert len(index["notices"]) == 1


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
