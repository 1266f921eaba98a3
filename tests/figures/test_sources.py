"""What is found in the folders a person names, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.figure_runs import eval_run, play, sweep_folder, train_run
from tests.support.sample_episodes import lost_episode

from dpepo.errors import ConfigError, RunFolderError
from dpepo.figures import NothingToShow, find_material
from dpepo.recipes import load_config
from dpepo.runs.rundir import RunFolder


def test_a_sweep_brings_its_variants_by_label_with_their_seeds(sweep: Path) -> None:
    material = find_material([str(sweep)])
    methods = material.in_way()
    assert {name: [one.run.config.seed for one in repeats] for name, repeats in methods.items()} == {
        "cold start only": [0, 1],
        "DPEPO, K = 1": [0, 1],
        "DPEPO, K = 4": [0, 1],
    }
    assert material.ways == ["K as trained"]
    assert material.notes == []


def test_what_is_not_finished_of_a_sweep_is_left_out_and_counted(tmp_path: Path) -> None:
    material = find_material([str(sweep_folder(tmp_path / "sweep", unfinished=["seed-1/dpepo"]))])
    assert [one.run.config.seed for one in material.in_way()["DPEPO, K = 4"]] == [0]
    assert material.notes == [f"{tmp_path / 'sweep'}: 1 runs of the sweep are not finished and left out."]


def test_a_demo_brings_the_evaluations_of_its_summary_one_way_at_a_time(demo: Path) -> None:
    material = find_material([str(demo)])
    assert material.ways == ["test, temperature 1", "train, temperature 1"]
    assert list(material.in_way()) == [
        "after cold start, K = 4",
        "after cold start, K = 1",
        "after RL, K = 4",
        "after RL, K = 1",
    ]
    assert "train, temperature 1" in material.others("test, temperature 1")[0]


def test_runs_are_called_after_their_folder_or_as_a_person_says(tmp_path: Path) -> None:
    one = eval_run(tmp_path / "one", play(4, skill=0.5))
    assert list(find_material([str(one)]).in_way()) == ["one"]
    assert list(find_material([f"ours={one}"]).in_way()) == ["ours, K = 4"]
    assert list(find_material([str(tmp_path)]).in_way()) == ["one"]  # a folder of runs


def test_patterns_choose_methods_and_one_that_fits_nothing_is_an_error(sweep: Path) -> None:
    folder = str(sweep)
    assert list(find_material([folder], only=["DPEPO*"]).in_way()) == ["DPEPO, K = 1", "DPEPO, K = 4"]
    with pytest.raises(ConfigError, match=r"no method is called so\. Did you mean 'DPEPO, K = 1'"):
        find_material([folder], only=["DPEPO, K = 11"])


def test_a_folder_without_runs_and_one_that_is_not_there_are_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match="holds no run"):
        find_material([str(tmp_path / "empty")])
    with pytest.raises(RunFolderError, match="There is no folder"):
        find_material([str(tmp_path / "nowhere")])


def test_a_run_of_another_version_is_left_out_with_its_key_named(tmp_path: Path) -> None:
    eval_run(tmp_path / "runs" / "good", play(4, skill=0.5))
    old = eval_run(tmp_path / "runs" / "old", play(4, skill=0.5))
    with (old / "config.yaml").open("a", encoding="utf-8") as file:
        file.write("\nforgotten: {key: 1}\n")
    material = find_material([str(tmp_path / "runs")])
    assert list(material.in_way()) == ["good"]
    assert "forgotten" in material.notes[0]
    with pytest.raises(RunFolderError, match="forgotten"):
        find_material([str(old)])


def test_a_half_written_line_is_named_and_the_rest_counts(tmp_path: Path) -> None:
    run = eval_run(tmp_path / "run", play(4, skill=0.5, tasks=2), finished=False)
    file = run / "episodes" / "eval-0000.jsonl"
    file.write_bytes(file.read_bytes()[:-200])
    material = find_material([str(run)])
    [played] = material.in_way()["run"]
    assert len(played.facts) == 3
    assert material.notes[0].endswith("run is not finished; what it holds so far is shown.")
    assert "is cut off" in material.notes[1]


def test_lost_episodes_count_nowhere(tmp_path: Path) -> None:
    material = find_material([str(eval_run(tmp_path / "run", [lost_episode(), *play(4, skill=0.5, tasks=1)]))])
    assert len(material.in_way()["run"][0].facts) == 2


def test_demonstrations_count_by_their_number_of_copies(tmp_path: Path) -> None:
    config = load_config(None, ["env.world=scienceworld", f"run.dir={tmp_path / 'synth'}"])
    run = RunFolder.create(tmp_path / "synth", config=config, job="synth")
    for copies in (1, 2):
        run.write_episodes("synth", copies, play(copies, skill=0.5, tasks=3))
    run.finish({})
    methods = find_material([str(tmp_path / "synth")]).in_way()
    assert {name: one.num_envs for name, [one] in methods.items()} == {"synth, K = 1": 1, "synth, K = 2": 2}
    assert [len(one.facts) for [one] in methods.values()] == [6, 6]


def test_a_training_without_episodes_holds_nothing_that_was_played(tmp_path: Path) -> None:
    material = find_material([str(train_run(tmp_path / "train", [{"episode/success_rate": 0.5}]))])
    with pytest.raises(NothingToShow, match="no finished episode"):
        material.in_way()
    with pytest.raises(ConfigError, match="nothing was played so"):
        find_material([str(eval_run(tmp_path / "eval", play(1, skill=0.5)))]).in_way("another")
