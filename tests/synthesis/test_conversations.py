"""Conversations of others: what is understood, what is counted as bad, and what a replay makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.toy_jobs import Notes, open_run, toy_config

from dpepo.cli import main
from dpepo.config import Form
from dpepo.errors import MissingPackage, TaskError
from dpepo.protocol import format_reply
from dpepo.synthesis import run_synth
from dpepo.synthesis.formats import ImportedData, import_data
from dpepo.synthesis.formats.conversations import read_conversation
from dpepo.synthesis.formats.restore import BadRow
from dpepo.training.demonstrations import load_demonstrations
from dpepo.types import Episode

REPLY = "<think>both</think><parallel><env_1>look</env_1><env_3>open box</env_3></parallel>"
TALK = [{"role": "user", "content": "What now?"}, {"role": "assistant", "content": REPLY}]


def imported(source: Path, out: Path, *settings: str, notes: Notes | None = None, replay: bool = False) -> ImportedData:
    run = open_run(config := toy_config(out, *settings), "import")
    try:
        return import_data(config, source=source, run=run, progress=notes or Notes(), replay=replay)
    finally:
        run.close()


def episodes_of(folder: Path) -> list[Episode]:
    return load_demonstrations(str(folder), progress=Notes())


@pytest.mark.parametrize(
    "row",
    [
        TALK,
        {"messages": TALK},
        {"conversations": [{"from": "human", "value": "What now?"}, {"from": "gpt", "value": REPLY}]},
        {"conversation": [{"from": "human", "value": "What now?"}, {"from": "gpt", "value": REPLY}], "id": 7},
        {"prompt": TALK[:1], "completion": TALK[1:]},
        {"prompt": "What now?", "response": REPLY},
        {"instruction": "What now?", "input": "", "output": REPLY, "system": "", "history": []},
        {"input": TALK[:1], "output": TALK[1:]},
    ],
)
def test_the_usual_shapes_of_a_conversation_are_understood(row: Any) -> None:
    found = read_conversation(row)
    assert [[one.content for one in prompt.messages] for prompt in found.prompts] == [["What now?"]]
    assert found.replies == (REPLY,)
    assert dict(found.parsed[0].actions) == {1: "look", 3: "open box"}
    assert (found.num_envs, found.form) == (3, Form.PARALLEL)


def test_a_system_text_stands_where_it_is_given_and_an_input_follows_its_instruction() -> None:
    found = read_conversation({"conversations": TALK, "system": "You act."})
    assert [one.role for one in found.prompts[0].messages] == ["system", "user"]
    found = read_conversation({"instruction": "What now?", "input": "A door.", "output": REPLY})
    assert found.prompts[0].messages[-1].content == "What now?\nA door."


def test_every_reply_of_a_long_conversation_is_a_turn_and_thoughts_do_not_come_back() -> None:
    rest = [{"role": "user", "content": "In Environment 1: a lamp."}, {"role": "assistant", "content": REPLY}]
    found = read_conversation({"messages": [{"role": "system", "content": "S"}, *TALK, *rest], "num_envs": 4})
    assert found.num_envs == 4
    [first, second] = [prompt.messages[-1].content for prompt in found.prompts]
    assert first == "What now?"
    body = REPLY.partition("</think>")[2]
    assert second == f"What now?\n\n{body}\n\nIn Environment 1: a lamp."


def test_a_sequential_conversation_is_played_in_one_environment() -> None:
    found = read_conversation({"prompt": "What now?", "completion": "<think>t</think><action>look</action>"})
    assert (found.form, found.num_envs, dict(found.parsed[0].actions)) == (Form.SEQUENTIAL, 1, {1: "look"})


BAD: list[tuple[Any, str]] = [
    (3, "no conversation"),
    ({}, "no conversation"),
    ({"prompt": "the prompt is dynamic"}, "no conversation"),
    ([{"role": "user", "content": "hi"}], "no reply"),
    ([], "no reply"),
    ([TALK[1]], "a reply to nothing"),
    (["hi"], "a message is no record"),
    ([{"role": "tool", "content": "x"}, TALK[1]], "a message of an unknown role"),
    ([{"role": "user", "content": " "}, TALK[1]], "an empty message"),
    ([{"role": "user", "content": None}, TALK[1]], "an empty message"),
    ([TALK[0], {"role": "assistant", "content": "I would look."}], "malformed (no_action)"),
    ([TALK[0], {"role": "assistant", "content": REPLY + " and so on"}], "malformed (stray_text)"),
    ({"messages": TALK, "num_envs": 2}, "malformed (over_limit)"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_row_that_cannot_be_used_says_why(row: Any, reason: str) -> None:
    with pytest.raises(BadRow) as caught:
        read_conversation(row)
    assert str(caught.value) == reason


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_bad_rows_are_counted_by_reason_and_the_others_imported(tmp_path: Path, ending: str) -> None:
    rows = [TALK, *(row for row, _ in BAD), {"messages": TALK, "task": "toy/room/1", "split": "train"}]
    text = json.dumps(rows) if ending == ".json" else "\n".join(map(json.dumps, rows))
    (tmp_path / f"rows{ending}").write_text(text)
    notes = Notes()
    result = imported(tmp_path / f"rows{ending}", tmp_path / "run", notes=notes)
    assert (result.rows, result.episodes, result.turns) == (len(rows), 2, 2)
    assert result.skipped["no conversation"] == 3 and sum(result.skipped.values()) == len(BAD)
    assert any(note.startswith("1 rows name no task") for note in notes.notes)
    unknown, known = episodes_of(tmp_path / "run")
    assert (unknown.task.id, unknown.task.world) == ("imported/1", "imported")
    assert (known.task.id, known.task.world, known.task.name, known.task.split) == ("toy/room/1", "toy", "room", "train")
    assert not known.success and known.num_actions == 2
    card = (tmp_path / "run" / "README.md").read_text()
    assert "3 no conversation" in card and "is not known" in card


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    """Case F08: a mark and three lines are three rows."""
    lines = "".join(json.dumps({"messages": TALK, "task": f"toy/room/{n}"}) + "\r\n" for n in range(3))
    (tmp_path / "rows.jsonl").write_text("\ufeff" + lines, encoding="utf-8")
    (tmp_path / "rows.json").write_text("\ufeff" + json.dumps([TALK] * 3), encoding="utf-8")
    assert imported(tmp_path / "rows.jsonl", tmp_path / "a").episodes == 3
    assert [one.task.id for one in episodes_of(tmp_path / "a")] == ["toy/room/0", "toy/room/1", "toy/room/2"]
    assert imported(tmp_path / "rows.json", tmp_path / "b").episodes == 3


def test_a_list_and_a_dict_of_conversations_are_the_same(tmp_path: Path) -> None:
    """Case F05."""
    (tmp_path / "a.json").write_text(json.dumps([TALK, TALK]))
    (tmp_path / "b.json").write_text(json.dumps({"0": TALK, "first": TALK}))
    for name in ("a", "b"):
        imported(tmp_path / f"{name}.json", tmp_path / name)
    assert episodes_of(tmp_path / "a") == episodes_of(tmp_path / "b")
    (tmp_path / "c.json").write_text("3")
    with pytest.raises(TaskError, match="int where a list of rows"):
        imported(tmp_path / "c.json", tmp_path / "c")
    (tmp_path / "d.json").write_text(json.dumps(TALK) + "\n" + json.dumps(TALK))
    with pytest.raises(TaskError, match=r"a row per line ends in \.jsonl"):
        imported(tmp_path / "d.json", tmp_path / "d")


def test_a_parquet_file_without_conversations_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case F07: column and file are named before anything is read or written; a missing task column is one note."""
    pytest.importorskip("pyarrow")
    from dpepo.synthesis.formats.files import write_rows

    write_rows(tmp_path / "rl.parquet", [{"gamefile": "x", "answer": ""}] * 3)
    with pytest.raises(TaskError, match=r"rl\.parquet has the columns gamefile, answer, and none that holds a conversation"):
        imported(tmp_path / "rl.parquet", tmp_path / "a")
    write_rows(tmp_path / "talks.parquet", [{"messages": TALK}] * 3)
    notes = Notes()
    assert imported(tmp_path / "talks.parquet", tmp_path / "b", notes=notes).episodes == 3
    assert len(notes.notes) == 1 and "gamefile" in notes.notes[0]
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises(TaskError, match="no parquet file"):
        imported(tmp_path / "no.parquet", tmp_path / "c")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingPackage, match=r"pip install 'dpepo\[data\]'"):
        imported(tmp_path / "talks.parquet", tmp_path / "d")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Episode], list[dict[str, Any]]]:
    """Real play of the toy world, and the same written as conversations of the authors' kind."""
    folder = tmp_path_factory.mktemp("played")
    config = toy_config(
        folder, "synth.num_envs=[3]", "env.options.observation=full", "rollout.max_turns=6", "tasks.train.limit=4"
    )
    run = open_run(config, "synth")
    run_synth(config, run=run, progress=Notes())
    run.close()
    episodes = episodes_of(folder)
    rows = []
    for episode in episodes:
        talk: list[dict[str, str]] = [{"role": "user", "content": episode.initial.text}]
        for turn in episode.turns:
            talk.append({"role": "assistant", "content": turn.completion.text})
            said = "\n".join(f"Environment {step.env_id}: {step.observation.text}" for step in turn.steps)
            talk.append({"role": "user", "content": said})
        rows.append({"conversations": talk[:-1], "gamefile": episode.task.id, "num_envs": 3})
    return episodes, rows


def test_a_replay_gives_the_prompts_observations_and_success_of_the_world(
    played: tuple[list[Episode], list[dict[str, Any]]], tmp_path: Path
) -> None:
    episodes, rows = played
    wrong = {"messages": TALK, "task": episodes[0].task.id}
    nowhere = {**rows[0], "gamefile": "toy/room/no"}
    (tmp_path / "talks.json").write_text(json.dumps([*rows, wrong, nowhere, TALK]))
    settings = ("env.options.observation=full",)
    result = imported(tmp_path / "talks.json", tmp_path / "run", *settings, replay=True)
    assert result.skipped == {
        "no success in the replay": 1,
        "a task that the world does not have": 1,
        "no task to replay": 1,
    }
    back = episodes_of(tmp_path / "run")
    assert len(back) == len(episodes) and all(one.success for one in back)
    for one, before in zip(back, episodes, strict=True):
        assert (one.task, one.initial, one.goal) == (before.task, before.initial, before.goal)
        assert [turn.steps for turn in one.turns] == [turn.steps for turn in before.turns]
        assert [turn.prompt for turn in one.turns] == [turn.prompt for turn in before.turns]
    assert "were played again" in (tmp_path / "run" / "README.md").read_text()


def test_the_import_command_looks_tasks_up_in_the_world_that_is_named(
    played: tuple[list[Episode], list[dict[str, Any]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes, rows = played
    (tmp_path / "talks.json").write_text(json.dumps(rows))
    out = tmp_path / "run"
    assert main(["data", "import", str(tmp_path / "talks.json"), "--out", str(out), "env.world=toy"]) == 0
    assert [one.task for one in episodes_of(out)] == [one.task for one in episodes]
    again = ["env.world=toy", "env.workers=0", "env.options.observation=full", "prompt.templates=compact", "--replay"]
    assert main(["data", "import", str(tmp_path / "talks.json"), "--out", str(tmp_path / "replayed"), *again]) == 0
    assert all(one.success for one in episodes_of(tmp_path / "replayed"))


def test_conversations_in_a_game_of_alfworld_are_played_again(tmp_path: Path) -> None:
    """A conversation of the authors' kind in a generated ALFWorld game, played again."""
    from dpepo.envs import load_world

    with load_world("alfworld", {}) as world:
        task = next(one for one in world.tasks("generated_train"))
        plan = world.expert(task.id)
    assert plan
    talk = [{"from": "human", "value": "You are in the middle of a room."}]
    for action in plan:
        talk.append({"from": "gpt", "value": format_reply("On with it.", {1: action, 2: action})})
        talk.append({"from": "human", "value": "What now?"})
    (tmp_path / "talks.json").write_text(json.dumps([{"conversations": talk[:-1], "task": task.id}]))
    words = ["data", "import", str(tmp_path / "talks.json"), "--out", str(tmp_path / "run"), "--replay"]
    assert main([*words, "env.world=alfworld", "env.workers=0"]) == 0
    [episode] = episodes_of(tmp_path / "run")
    assert episode.success and len(episode.turns) == len(plan)
