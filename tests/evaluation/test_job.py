"""Evaluation as a job: every task once, nothing twice after a kill, the same numbers again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.support.toy_jobs import ColdStart, Killed, KilledAt, Notes, open_run, toy_config

from dpepo.config import Config
from dpepo.errors import JobError
from dpepo.evaluation import EvalResult, run_eval
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode

# An agent that fails at every second task while a file exists.
FLAKY = """
from pathlib import Path
from dpepo.rollout.agents import RandomAgent

class Flaky(RandomAgent):
    def reply(self, view, rng):
        if int(view.task_id[-1]) % 2 == 0 and Path(FLAG).exists():
            raise ConnectionError("not today")
        return super().reply(view, rng)
"""


def run_it(config: Config, progress: Notes | None = None) -> EvalResult:
    run = open_run(config, "eval")
    try:
        return run_eval(config, run=run, progress=progress or Notes())
    finally:
        run.close()


def resumed(config: Config) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update={"resume": True})})


def untimed(result: EvalResult) -> EvalResult:
    """Everything but the clock."""
    return result.model_copy(update={"seconds_per_episode": 0.0, "env_seconds_per_episode": 0.0})


def episodes_of(folder: Path) -> list[Episode]:
    problems: list[str] = []
    found = [line.episode for line in RunFolder.open(folder).read_episodes(stage="eval", problems=problems)]
    assert problems == []
    return found


def counted(folder: Path) -> Counter[tuple[str, int]]:
    return Counter((episode.task.id, episode.sibling) for episode in episodes_of(folder))


def test_every_task_of_the_list_is_played_once(tmp_path: Path) -> None:
    result = run_it(toy_config(tmp_path / "r", "eval.policy=random", "tasks.eval.names=[room,house]"))
    expected = {(f"toy/{name}/{number}", 0): 1 for name in ("room", "house") for number in range(20, 30)}
    assert counted(tmp_path / "r") == expected
    assert (result.n, result.lost) == (20, 0)
    assert sum(row.n for row in result.by_type.values()) == 20
    assert result.successes == sum(episode.success for episode in episodes_of(tmp_path / "r"))


def test_the_oracle_solves_everything(tmp_path: Path) -> None:
    result = run_it(toy_config(tmp_path / "r", "eval.policy=oracle", "tasks.eval.split=test"))
    assert (result.successes, result.n, result.success_rate) == (10, 10, 1.0)


@pytest.mark.parametrize("policy", ["random", "oracle"])
def test_after_a_kill_only_what_is_missing_is_played(tmp_path: Path, policy: str) -> None:
    settings = (f"eval.policy={policy}", "eval.episodes_per_task=2", "sampling.batch_size=4")
    whole = run_it(toy_config(tmp_path / "whole", *settings))
    config = toy_config(tmp_path / "cut", *settings)
    with pytest.raises(Killed):
        run_it(config, KilledAt(7))
    before = episodes_of(tmp_path / "cut")
    assert len(before) == 7
    notes = Notes()
    again = run_it(resumed(config), notes)
    assert untimed(again) == untimed(whole)
    assert notes.advanced == 20
    assert counted(tmp_path / "cut") == counted(tmp_path / "whole")
    assert max(counted(tmp_path / "cut").values()) == 1
    assert episodes_of(tmp_path / "cut")[:7] == before


def test_a_line_cut_off_by_a_kill_is_named_and_its_episode_played_again(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "r", "eval.policy=random")
    whole = run_it(config)
    [file] = (tmp_path / "r" / "episodes").glob("*.jsonl")
    content = file.read_bytes()
    file.write_bytes(content[:-50])
    notes = Notes()
    assert untimed(run_it(resumed(config), notes)) == untimed(whole)
    assert any(file.name in note for note in notes.notes)


def test_a_finished_evaluation_that_is_resumed_plays_nothing(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "r", "eval.policy=random")
    first = run_it(config)
    before = {path: path.read_bytes() for path in (tmp_path / "r" / "episodes").iterdir()}
    assert run_it(resumed(config)) == first
    assert {path: path.read_bytes() for path in (tmp_path / "r" / "episodes").iterdir()} == before


def test_a_greedy_evaluation_gives_the_same_result_to_the_digit(cold_start: ColdStart, tmp_path: Path) -> None:
    tasks = ("tasks.eval.split=train", "tasks.eval.limit=5", "rollout.max_turns=4", f"model.path={cold_start.model}")
    results = [
        run_it(toy_config(tmp_path / name, *tasks, "eval.temperature=0", f"seed={seed}", "tasks.eval.limit=0"))
        for name, seed in (("a", 0), ("b", 0), ("other seed", 1))
    ]
    assert untimed(results[0]) == untimed(results[1]) == untimed(results[2])
    assert results[0].reply_tokens > 0


def test_a_sampled_evaluation_depends_on_the_seed_and_nothing_else(cold_start: ColdStart, tmp_path: Path) -> None:
    tasks = ("tasks.eval.split=train", "tasks.eval.limit=1", "eval.episodes_per_task=16", f"model.path={cold_start.model}")
    sampled = ("eval.temperature=1.0", "rollout.max_turns=4")
    results = [
        run_it(toy_config(tmp_path / name, *tasks, *sampled, f"seed={seed}", "tasks.eval.ids=[toy/room/0]"))
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert untimed(results[0]) == untimed(results[1]) != untimed(results[2])
    assert set(results[0].pass_at) == set(range(1, 17))
    assert list(results[0].pass_at.values()) == sorted(results[0].pass_at.values())


def test_episodes_lost_to_faults_are_counted_apart_with_both_denominators(tmp_path: Path) -> None:
    """V10 in a job: a container that breaks its environment when it is opened first."""
    faults = ("env.num_envs=1", "env.options.fail_at=1", "env.options.fault_action=open box")
    result = run_it(
        toy_config(tmp_path / "r", "eval.policy=random", "eval.episodes_per_task=4", *faults, "tasks.eval.split=train")
    )
    assert result.lost > 0 and result.n > 0
    assert result.played == result.n + result.lost == 80
    assert result.success_rate == pytest.approx(result.successes / result.n)
    assert result.success_rate_played == pytest.approx(result.successes / 80)
    [row] = RunFolder.open(tmp_path / "r").read_metrics().rows
    expected = {
        "val/success_rate": result.success_rate,
        "val/n": result.n,
        "val/lost": result.lost,
        "val/success_rate_played": result.success_rate_played,
        "val/turns": result.turns,
        "val/actions_per_turn": result.actions_per_turn,
    }
    assert {name: value for name, value in row.values.items() if name in expected} == expected


def test_a_resume_plays_lost_episodes_again_and_only_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flaky_agent.py").write_text(FLAKY.replace("FLAG", repr(str(tmp_path / "broken"))))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken").touch()
    config = toy_config(tmp_path / "r", "eval.policy=flaky_agent:Flaky")
    first = run_it(config)
    assert (first.n, first.lost) == (5, 5)
    assert run_it(resumed(config)) == first  # once per resume, and no longer
    (tmp_path / "broken").unlink()
    mended = run_it(resumed(config))
    assert (mended.n, mended.lost) == (10, 0)
    assert counted(tmp_path / "r") == {(f"toy/room/{number}", 0): 1 if number % 2 else 3 for number in range(20, 30)}


def test_an_evaluation_in_which_everything_is_lost_fails_aloud(tmp_path: Path) -> None:
    """E18: no success rate of 0 where nothing was measured."""
    with pytest.raises(JobError, match=r"all 10 episodes were lost.*toy fault"):
        run_it(toy_config(tmp_path / "r", "eval.policy=random", "env.options.fail_at=0"))
    assert RunFolder.open(tmp_path / "r").read_metrics().rows == ()


def test_another_number_of_copies_than_in_training_can_be_evaluated(tmp_path: Path) -> None:
    run_it(toy_config(tmp_path / "r", "eval.policy=random", "eval.num_envs=3", "env.num_envs=2"))
    assert {episode.num_envs for episode in episodes_of(tmp_path / "r")} == {3}


def test_the_settings_in_effect_are_said_once(cold_start: ColdStart, tmp_path: Path) -> None:
    """T08."""
    notes = Notes()
    settings = (f"model.path={cold_start.untrained}", "eval.temperature=0.7", "tasks.eval.limit=1", "sampling.max_new_tokens=5")
    run_it(toy_config(tmp_path / "r", *settings), notes)
    [said] = [note for note in notes.notes if note.startswith("sampling:")]
    assert "temperature 0.7" in said and "top_k off" in said and "max_new_tokens 5" in said and "do not apply" not in said
    silent = Notes()
    run_it(toy_config(tmp_path / "agent", "eval.policy=random"), silent)
    assert silent.notes == []


def test_a_result_states_how_it_was_played(tmp_path: Path) -> None:
    """V07, V04: K and whether the prompt names it, turns, temperature, the rule above K, the list of tasks and its size."""
    settings = ("eval.policy=random", "eval.num_envs=3", "eval.temperature=0.4", "rollout.max_turns=4", "tasks.eval.limit=2")
    result = run_it(toy_config(tmp_path / "r", *settings))
    assert result.conditions is not None
    assert (result.conditions.num_envs, result.conditions.max_turns, result.conditions.temperature) == (3, 4, 0.4)
    assert (result.conditions.limit_stated, result.tasks) == (True, 2)
    for part in (
        "toy dev (room); K = 3, named in the prompt (asking for more fails the episode)",
        "at most 4 turns",
        "2 tasks",
    ):
        assert part in str(result)


def test_a_prompt_that_keeps_k_to_itself_is_said_where_asking_for_more_fails(tmp_path: Path) -> None:
    """V07: an agent that is not told how many environments there are cannot keep the rule."""
    words = tmp_path / "words"
    words.mkdir()
    for name in ("system", "first_turn", "later_turn"):
        (words / f"{name}.j2").write_text("Task: {{ goal }}. You have many environments.")
    notes = Notes()
    result = run_it(toy_config(tmp_path / "r", "eval.policy=random", f"prompt.templates={words}"), notes)
    assert any("do not say how many environments there are (K = 2)" in note for note in notes.notes)
    assert result.conditions is not None and result.conditions.limit_stated is False
    quiet = Notes()
    run_it(toy_config(tmp_path / "s", "eval.policy=random", "eval.over_limit=ignore", f"prompt.templates={words}"), quiet)
    assert quiet.notes == []


def test_the_result_is_plain_data(tmp_path: Path) -> None:
    result = run_it(toy_config(tmp_path / "r", "eval.policy=random"))
    assert EvalResult.model_validate(json.loads(json.dumps(result.model_dump(mode="json")))) == result
