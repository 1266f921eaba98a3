"""Datasets in files: what is written for whom, and that what can come back comes back as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sample_episodes import hostile_episode, lifespan_episode, lost_episode, scored, wide_episode
from tests.support.toy_jobs import Notes, open_run, toy_config, write_model

from dpepo.cli import main
from dpepo.cli.data import FORMATS_HELP
from dpepo.errors import ConfigError, JobError, TaskError
from dpepo.protocol import parse_reply
from dpepo.runs.episodes import write_episodes
from dpepo.synthesis import run_synth
from dpepo.synthesis.formats import FORMATS, ImportedData, export_data, import_data
from dpepo.synthesis.formats.files import read_rows, write_rows
from dpepo.training.demonstrations import load_demonstrations
from dpepo.training.sft import run_sft
from dpepo.types import Episode

LOSSLESS = [name for name, shape in FORMATS.items() if shape.lossless]
REPLY = "<think>both</think><parallel><env_1>look</env_1><env_2>open box</env_2></parallel>"


def write_run(folder: Path, episodes: list[Episode]) -> Path:
    write_episodes(folder / "episodes", "synth", 4, episodes)
    return folder


def imported(source: Path, out: Path, *settings: str, **options: Any) -> ImportedData:
    config = toy_config(out, *settings)
    run = open_run(config, "import")
    try:
        return import_data(config, source=source, run=run, progress=options.pop("progress", Notes()), **options)
    finally:
        run.close()


def episodes_of(folder: Path) -> list[Episode]:
    return load_demonstrations(str(folder), progress=Notes())


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = list(read_rows(path))
    assert not any(row.problem for row in rows)
    return [row.value for row in rows]


TEXT = st.text(st.characters(codec=None, categories=("L", "N", "P", "S", "Z", "Cc", "Cf", "Cs")), max_size=12)


@st.composite
def odd_episodes(draw: st.DrawFn) -> Episode:
    """Episodes with any text anywhere, half surrogate pairs included, with and without token ids."""
    base = draw(st.sampled_from([wide_episode(), hostile_episode(), lifespan_episode(1, skill=0.5, num_envs=3, seed=1)]))
    turns = []
    for turn in base.turns[: draw(st.integers(1, 3))]:
        completion = turn.completion.model_copy(update={"text": draw(TEXT), "logprobs": (), "token_ids": ()})
        prompt = turn.prompt.model_copy(
            update={"messages": tuple(one.model_copy(update={"content": draw(TEXT)}) for one in turn.prompt.messages)}
        )
        reply = parse_reply(completion.text, num_envs=base.num_envs)
        kept = turn.completion if draw(st.booleans()) else completion
        turns.append(turn.model_copy(update={"completion": kept, "prompt": prompt, "reply": reply}))
    task = base.task.model_copy(update={"id": draw(TEXT) or "t", "name": draw(TEXT), "split": draw(TEXT)})
    return base.model_copy(
        update={"turns": tuple(turns), "goal": draw(TEXT), "task": task, "seed": draw(st.integers(0, 2**60))}
    )


@pytest.mark.parametrize("format", LOSSLESS)
@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(episodes=st.lists(odd_episodes(), min_size=1, max_size=3))
def test_what_our_own_formats_hold_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, format: str, ending: str, episodes: list[Episode]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    file = folder / f"rows{ending}"
    written = export_data(write_run(folder / "run", episodes), format=format, out=file)
    assert written.episodes == len(episodes)
    result = imported(file, folder / "back")
    assert result.skipped == {} and (result.rows, result.episodes) == (written.rows, len(episodes))
    # a file per K
    assert episodes_of(folder / "back") == sorted(episodes, key=lambda one: one.num_envs)


def test_turns_come_back_in_whatever_order_they_stand(tmp_path: Path) -> None:
    episodes = [lifespan_episode(n, skill=0.2, num_envs=4, seed=n) for n in range(5)]
    export_data(write_run(tmp_path / "run", episodes), format="turns", out=tmp_path / "a.jsonl")
    rows = rows_of(tmp_path / "a.jsonl")
    write_rows(tmp_path / "b.jsonl", rows[::-1])
    imported(tmp_path / "b.jsonl", tmp_path / "back")
    assert sorted(episodes_of(tmp_path / "back"), key=lambda one: one.seed) == episodes
    write_rows(tmp_path / "c.jsonl", rows[1:])
    assert imported(tmp_path / "c.jsonl", tmp_path / "cut").skipped == {"turns of an episode are missing or double": 1}


def test_every_format_holds_the_prompts_and_replies_of_every_turn(tmp_path: Path) -> None:
    """What a trainer learns from is the prompt that the model reads at a turn, and the reply to it, nothing more."""
    episodes = [lifespan_episode(n, skill=0.2, num_envs=4, seed=n) for n in range(3)]
    run = write_run(tmp_path / "run", episodes)
    asked = [turn.prompt.messages[-1].content for one in episodes for turn in one.turns]
    said = [turn.completion.text for one in episodes for turn in one.turns]

    def rows(name: str) -> list[dict[str, Any]]:
        export_data(run, format=name, out=tmp_path / name)
        return rows_of(tmp_path / name / "train.jsonl")

    for name in ("turns", "ms-swift"):
        assert [[one["content"] for one in row["messages"][-2:]] for row in rows(name)] == [
            list(x) for x in zip(asked, said, strict=True)
        ]
    assert all(
        [one["role"] for one in row["messages"]].count("assistant") == 1 for row in rows_of(tmp_path / "turns/train.jsonl")
    )
    assert [(row["prompt"][-1]["content"], row["completion"]) for row in rows("trl")] == [
        (a, [{"role": "assistant", "content": b}]) for a, b in zip(asked, said, strict=True)
    ]
    assert [[one["value"] for one in row["conversations"]] for row in rows("llamafactory-sharegpt")] == [
        list(x) for x in zip(asked, said, strict=True)
    ]
    assert [(row["instruction"], row["input"], row["output"]) for row in rows("llamafactory-alpaca")] == [
        (a, "", b) for a, b in zip(asked, said, strict=True)
    ]
    assert [(row["input"][-1]["content"], row["output"][0]["content"]) for row in rows("openrlhf")] == list(
        zip(asked, said, strict=True)
    )
    [first, *_] = rows("conversations")
    assert [one["role"] for one in first["messages"]][:3] == ["user", "assistant", "user"]
    assert [one["content"] for one in first["messages"] if one["role"] == "assistant"] == said[: first["num_turns"]]
    assert first["messages"][2]["content"].startswith("In Environment 1:\n")


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in LOSSLESS])
def test_rows_for_other_trainers_can_be_learnt_from_here_too(tmp_path: Path, name: str) -> None:
    episodes = [lifespan_episode(n, skill=0.5, num_envs=2, seed=n) for n in range(3)]
    export_data(write_run(tmp_path / "run", episodes), format=name, out=tmp_path / "rows.parquet")
    result = imported(tmp_path / "rows.parquet", tmp_path / "back")
    turns = [turn for one in episodes for turn in one.turns]
    back = [turn for one in episodes_of(tmp_path / "back") for turn in one.turns]
    assert result.episodes == len(turns) == len(back)
    key = lambda turn: (turn.prompt, turn.completion.text)  # noqa: E731
    assert sorted(map(repr, map(key, back))) == sorted(map(repr, map(key, turns)))


def test_llamafactory_finds_the_datasets_in_its_list(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [wide_episode()])
    export_data(run, format="llamafactory-sharegpt", out=tmp_path / "data" / "a.jsonl")
    export_data(run, format="llamafactory-alpaca", out=tmp_path / "data" / "b.json")
    entries = json.loads((tmp_path / "data" / "dataset_info.json").read_text())
    assert [entries[name]["file_name"] for name in ("a", "b")] == ["a.jsonl", "b.json"]
    for name, entry in entries.items():
        rows = rows_of(tmp_path / "data" / entry["file_name"])
        assert all(set(entry["columns"].values()) <= set(row) for row in rows), name
    with pytest.raises(ConfigError, match="names a dataset 'a' already"):
        export_data(run, format="llamafactory-alpaca", out=tmp_path / "data" / "a.parquet")


def test_hugging_face_datasets_reads_every_format(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    run = write_run(tmp_path / "run", [wide_episode(), lifespan_episode(1, skill=0.5, num_envs=2, seed=1)])
    for name in FORMATS:
        for ending in ("jsonl", "parquet"):
            export_data(run, format=name, out=tmp_path / name / f"{ending}.{ending}")
            rows = rows_of(tmp_path / name / f"{ending}.{ending}")
            loader = "json" if ending == "jsonl" else "parquet"
            file = str(tmp_path / name / f"{ending}.{ending}")
            loaded = datasets.load_dataset(loader, data_files=file, split="train", cache_dir=str(tmp_path / "cache"))
            assert loaded.to_list() == rows, (name, ending)


@pytest.mark.filterwarnings("ignore")  # TRL's own, about names of transformers that changed
def test_trl_puts_the_loss_on_the_reply_only(tmp_path: Path) -> None:
    """With rows of the format trl and its defaults, what TRL's trainer masks is exactly the prompt."""
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    from transformers import PreTrainedTokenizerFast

    model = write_model(tmp_path / "model")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
    config = toy_config(tmp_path / "run")
    run = open_run(config, "synth")
    run_synth(config, run=run, progress=Notes())
    run.close()
    export_data(tmp_path / "run", format="trl", out=tmp_path / "rows.jsonl")
    rows = datasets.Dataset.from_list(rows_of(tmp_path / "rows.jsonl")[:6])
    arguments = trl.SFTConfig(output_dir=str(tmp_path / "out"), max_length=None, report_to=[], use_cpu=True, bf16=False)
    trainer = trl.SFTTrainer(model=str(model), args=arguments, train_dataset=rows, processing_class=tokenizer)
    batch = trainer.data_collator([trainer.train_dataset[n] for n in range(6)])
    for ids, labels, row in zip(batch["input_ids"], batch["labels"], rows, strict=True):
        learnt = tokenizer.decode(ids[labels != -100], skip_special_tokens=True)
        assert learnt.split() == tokenizer.decode(tokenizer.encode(row["completion"][0]["content"])).split()


def test_a_card_says_what_is_in_a_dataset_and_how_to_make_it_again(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "synth", "synth.num_envs=[1,2]", "env.options.observation=full", "rollout.max_turns=6")
    run = open_run(config, "synth")
    kept = run_synth(config, run=run, progress=Notes()).kept
    run.close()
    written = export_data(tmp_path / "synth", format="openrlhf", out=tmp_path / "data" / "first.parquet")
    card = Path(written.card).read_text()
    assert f"{written.rows} rows of {kept} episodes" in card
    assert f"dpepo data export {tmp_path / 'synth'} --format openrlhf" in card and "World: world toy" in card
    assert "from the lists train (" in card and "K = 1: " in card and "## Licence" in card
    second = export_data(tmp_path / "synth", format="turns", out=tmp_path / "data" / "second.jsonl")
    assert Path(second.card).name == "second.README.md" and Path(written.card).read_text() == card
    imported(tmp_path / "data" / "second.jsonl", tmp_path / "back")
    card = (tmp_path / "back" / "README.md").read_text()
    assert f"{kept} episodes" in card and "SHA-256" in card and "Rows left out: nothing" in card


def test_scored_and_lost_episodes_and_damaged_lines(tmp_path: Path) -> None:
    """Episodes of other stages are exported on request; an episode without turns gives no row, a cut line a note."""
    run = tmp_path / "run"
    path = write_episodes(run / "episodes", "rl", 1, [scored(wide_episode()), lost_episode()])
    with path.open("a") as file:
        file.write('{"kind": "epi')
    with pytest.raises(TaskError, match=r"no episodes of the stage 'synth'\. It has: rl"):
        export_data(run, format="turns", out=tmp_path / "a.jsonl")
    written = export_data(run, format="turns", out=tmp_path / "a.jsonl", stage="rl")
    assert written.rows == len(wide_episode().turns) and "cut off" in written.notes[0]
    imported(tmp_path / "a.jsonl", tmp_path / "back")
    assert episodes_of(tmp_path / "back") == [wide_episode()]
    with pytest.raises(ConfigError, match="exists; nothing is overwritten"):
        export_data(run, format="turns", out=tmp_path / "a.jsonl", stage="rl")


def test_a_file_of_a_run_can_be_imported_as_it_is(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [wide_episode()])
    imported(run / "episodes" / "synth-0004.jsonl", tmp_path / "back")
    assert episodes_of(tmp_path / "back") == [wide_episode()]


def test_replies_that_no_locale_can_hold_are_written_and_learnt_from(tmp_path: Path) -> None:
    """Case F16: LC_ALL=C; an arrow, CJK and half a surrogate pair go out and come back."""
    base = wide_episode()
    text = f"<think>\u2192 \u6f22\u5b57 \ud800</think>{REPLY.partition('</think>')[2]}"
    turn = base.turns[0].model_copy(update={"completion": base.turns[0].completion.model_copy(update={"text": text})})
    episode = base.model_copy(update={"turns": (turn,)})
    run = write_run(tmp_path / "run", [episode])
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for ending in ("jsonl", "parquet"):
        file, back = tmp_path / f"rows.{ending}", tmp_path / f"back-{ending}"
        for words in (["export", str(run), "--out", str(file)], ["import", str(file), "--out", str(back)]):
            done = subprocess.run([sys.executable, "-m", "dpepo", "data", *words], env=env, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
        assert episodes_of(back) == [episode]
        assert "\u2192 \u6f22\u5b57 \ufffd" in rows_of(file)[0]["messages"][-1]["content"]


def test_commands_say_what_is_wrong_with_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(write_run(tmp_path / "run", [wide_episode()]))
    out = str(tmp_path / "x.jsonl")
    for words, code, says in (
        (["export", run, "--format", "tlr", "--out", out], 2, "Did you mean 'trl'?"),
        (["export", run, "--out", str(tmp_path / "x.csv")], 2, ".jsonl, .json, .parquet"),
        (["export", str(tmp_path / "no"), "--out", out], 2, "There is no"),
        (["import", str(tmp_path / "no.json"), "--out", str(tmp_path / "r")], 2, "There is no file"),
        (["import", run + "/episodes/synth-0004.jsonl", "--out", str(tmp_path / "r"), "--replay"], 2, "env.world=alfworld"),
    ):
        assert main(["data", *words]) == code
        assert says in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    assert main(["data", "export", run, "--out", out]) == 0
    assert main(["data", "import", out, "--out", str(tmp_path / "back")]) == 0
    assert "sft sft.demonstrations=" in capsys.readouterr().out


def test_sft_trains_on_what_was_imported(tmp_path: Path) -> None:
    """Conversations of others, learnt from like any demonstrations."""
    talk = [{"role": "user", "content": "look"}, {"role": "assistant", "content": REPLY}]
    (tmp_path / "talks.json").write_text(json.dumps([talk] * 4))
    imported(tmp_path / "talks.json", tmp_path / "back")
    model = write_model(tmp_path / "model")
    config = toy_config(tmp_path / "sft", f"model.path={model}", f"sft.demonstrations={tmp_path / 'back'}", "sft.epochs=2")
    run = open_run(config, "sft")
    result = run_sft(config, run=run, progress=Notes())
    run.close()
    assert (result.samples, result.dropped, result.steps) == (4, 0, 2)


def test_a_failed_import_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert main(["data", "import", str(tmp_path / "bad.jsonl"), "--out", str(tmp_path / "run")]) == 1
    assert not (tmp_path / "run").exists()
    with pytest.raises(JobError, match="None of the 1 rows"):
        imported(tmp_path / "bad.jsonl", tmp_path / "other")


def test_every_format_is_told_of_in_the_help_and_in_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "coldstart.md").read_text(encoding="utf-8")
    assert main(["data", "export", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, shape in FORMATS.items():
        assert f"| `{name}` |" in page and shape.source in page, name
        assert name in FORMATS_HELP and FORMATS_HELP.partition(" ")[0] in shown


def test_a_column_of_this_name_in_the_rows_of_others_is_not_taken_for_ours(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "look"}, {"role": "assistant", "content": REPLY}]
    (tmp_path / "talks.json").write_text(json.dumps([{"messages": talk, "record": "seven"}]))
    assert imported(tmp_path / "talks.json", tmp_path / "back").episodes == 1
    (tmp_path / "cut.json").write_text(json.dumps([{"messages": talk, "episode": "0", "turn": 1, "record": "{"}] * 2 + [talk]))
    assert imported(tmp_path / "cut.json", tmp_path / "cut").skipped == {"damaged record": 2}


def test_the_viewer_shows_imported_conversations(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "look"}, {"role": "assistant", "content": REPLY}]
    (tmp_path / "talks.json").write_text(json.dumps([talk]))
    assert main(["data", "import", str(tmp_path / "talks.json"), "--out", str(tmp_path / "back")]) == 0
    assert main(["view", str(tmp_path / "back"), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()
