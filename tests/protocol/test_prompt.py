"""Prompts: whole texts against golden files, and the cases that broke others."""

import os
from pathlib import Path

import pytest

from dpepo.config import Form, Memory, PromptConfig
from dpepo.errors import ConfigError
from dpepo.protocol import PromptBuilder, parse_reply
from dpepo.types import ActionTemplate, EpisodeView, Observation, Prompt, Step, WorldGuide

GOLDEN = Path(__file__).parent.parent / "golden" / "prompts"

LAB = WorldGuide(
    role="You are an assistant that does science experiments in a text-based lab.",
    action_templates=(
        ActionTemplate(template="open OBJ", help="open a container or a door"),
        ActionTemplate(template="focus on OBJ", help="signal interest in an object of the task"),
        ActionTemplate(template="look around", help="describe the present room"),
        ActionTemplate(template="wait"),
    ),
)
LAB_TEMPLATES = tuple(form.template for form in LAB.action_templates)
HOUSE = WorldGuide(role="You are an agent in a household.", hidden_actions=("help",), free_actions=("look",))
PLAIN = WorldGuide(role="role")


def step(env_id: int, action: str, text: str, *actions: str, objects: tuple[str, ...] = (), ended: bool = False) -> Step:
    observation = Observation(text=text, admissible_actions=actions, objects=objects, ended=ended)
    return Step(env_id=env_id, action=action, observation=observation)


def lab(*turns: tuple[Step, ...], num_envs: int | None = 4) -> EpisodeView:
    start = Observation(
        text="This room is called the hallway. In it, you see:\n\ta picture\nYou also see:\n\tA door to the kitchen",
        admissible_actions=LAB_TEMPLATES,
        objects=("kitchen door", "picture"),
    )
    goal = "Your task is to boil water. First, focus on the substance."
    return EpisodeView(goal=goal, guide=LAB, initial=start, turns=turns, num_envs=num_envs)


LAB_TURNS = (
    (
        step(1, "open kitchen door", "The door is already open.", *LAB_TEMPLATES, objects=("kitchen door", "picture")),
        step(2, "teleport to kitchen", "You teleport to the kitchen.", *LAB_TEMPLATES, objects=("sink", "stove", "water")),
    ),
    (
        step(
            2, "focus on water", "Ambiguous request: Please enter the number\n0:\twater (in sink)\n1:\twater (in cup)", "0", "1"
        ),
        step(4, "focus on picture", "You focus on the picture.", *LAB_TEMPLATES, objects=("picture",), ended=True),
    ),
)


def house(*turns: tuple[Step, ...], num_envs: int | None = 4) -> EpisodeView:
    start = Observation(
        text="You are in the middle of a room. Looking quickly around you, you see a desk 1, and a drawer 1.",
        admissible_actions=("go to desk 1", "go to drawer 1", "help", "inventory", "look"),
    )
    return EpisodeView(goal="put a mug in drawer.", guide=HOUSE, initial=start, turns=turns, num_envs=num_envs)


HOUSE_TURNS = (
    (
        step(1, "go to desk 1", "On the desk 1, you see a mug 1.", "take mug 1 from desk 1", "help", "look"),
        step(3, "go to drawer 1", "The drawer 1 is closed.", "open drawer 1", "help", "look"),
    ),
    (step(1, "take mug 1 from desk 1", "You pick up the mug 1 from the desk 1.", "go to drawer 1", "help", "look"),),
)


def rooms(*turns: tuple[Step, ...], num_envs: int | None = 3) -> EpisodeView:
    start = Observation(text="at hallway : door , picture")
    return EpisodeView(goal="animal with longest life span outside", guide=PLAIN, initial=start, turns=turns, num_envs=num_envs)


ROOM_TURNS = (
    (step(1, "teleport to outside", "at outside : axe , dove egg"), step(2, "focus on axe", "at hallway : door", ended=True)),
)


def alone(turns: tuple[tuple[Step, ...], ...]) -> tuple[tuple[Step, ...], ...]:
    return tuple(tuple(done.model_copy(update={"env_id": 1}) for done in turn[:1]) for turn in turns)


def text_of(prompt: Prompt) -> str:
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in prompt.messages)


def user_text(view: EpisodeView, config: PromptConfig | None = None) -> str:
    return PromptBuilder(config or PromptConfig()).build(view).messages[-1].content


@pytest.mark.parametrize(
    ("name", "config", "view"),
    [
        ("lab_first_turn", PromptConfig(), lab()),
        ("lab_second_turn", PromptConfig(), lab(*LAB_TURNS[:1])),
        ("lab_third_turn", PromptConfig(), lab(*LAB_TURNS)),
        ("lab_unlimited", PromptConfig(), lab(*LAB_TURNS, num_envs=None)),
        ("lab_nothing_done", PromptConfig(), lab(())),
        ("house_first_turn", PromptConfig(), house()),
        ("house_third_turn", PromptConfig(), house(*HOUSE_TURNS)),
        ("house_full_memory", PromptConfig(memory=Memory.FULL), house(*HOUSE_TURNS, ())),
        ("house_window_of_one", PromptConfig(memory=Memory.WINDOW, window=1), house(*HOUSE_TURNS)),
        ("house_one_environment", PromptConfig(), house(*alone(HOUSE_TURNS), num_envs=1)),
        ("house_sequential", PromptConfig(form=Form.SEQUENTIAL), house(*alone(HOUSE_TURNS), num_envs=1)),
        ("rooms_compact_first_turn", PromptConfig(templates="compact"), rooms()),
        ("rooms_compact_second_turn", PromptConfig(templates="compact"), rooms(*ROOM_TURNS)),
    ],
)
def test_the_whole_prompt_reads_as_in_its_golden_file(name: str, config: PromptConfig, view: EpisodeView) -> None:
    """Rewrite the files with UPDATE_GOLDEN=1 and read the difference: models are sensitive to every word."""
    text = text_of(PromptBuilder(config).build(view)) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("num_envs", [1, 2, 4, None])
def test_the_example_reply_of_the_prompt_is_a_reply_without_problems(num_envs: int | None) -> None:
    """What we tell the model to write is what our parser takes."""
    system = PromptBuilder(PromptConfig()).build(lab(num_envs=num_envs)).messages[0].content
    for part in system.split("<think>")[1:]:
        reply = parse_reply("<think>" + part[: part.index("</parallel>")] + "</parallel>", num_envs=num_envs)
        assert reply.problems == ()
        assert list(reply.actions) == ([1] if num_envs == 1 else [1, 2])


def test_the_example_reply_of_the_sequential_prompt_is_a_reply_without_problems() -> None:
    builder = PromptBuilder(PromptConfig(form=Form.SEQUENTIAL))
    system = builder.build(lab(num_envs=1)).messages[0].content
    assert "<parallel>" not in system
    assert "<env_" not in system
    for part in system.split("<think>")[1:]:
        reply = parse_reply("<think>" + part[: part.index("</action>")] + "</action>", num_envs=1, form=Form.SEQUENTIAL)
        assert reply.problems == ()


def test_a_prompt_holds_only_its_own_task() -> None:
    """B01: one builder, two tasks, in any order."""
    builder = PromptBuilder(PromptConfig())
    first = text_of(builder.build(lab(*LAB_TURNS)))
    second = text_of(builder.build(house(*HOUSE_TURNS)))
    assert "boil water" in first
    assert "mug" not in first
    assert "mug" in second
    assert "boil water" not in second
    assert text_of(builder.build(lab(*LAB_TURNS))) == first


def test_the_section_of_an_environment_lists_its_own_actions_only() -> None:
    """B03."""
    view = house((step(1, "x", "one", "a1"), step(2, "y", "two", "b1")))
    for memory in Memory:
        text = user_text(view, PromptConfig(memory=memory))
        first, second = text.split("In Environment 1:")[1].split("In Environment 2:")
        assert "a1" in first.splitlines()
        assert "b1" not in first
        assert "b1" in second.splitlines()
        assert "a1" not in second


@pytest.mark.parametrize("actions", ["search[x]\nclick[y]", ("search[x]", "click[y]"), ["search[x]", "click[y]"]])
def test_actions_stand_one_per_line_even_when_they_come_as_one_text(actions: object) -> None:
    """B04."""
    start = Observation.model_validate({"text": "shop", "admissible_actions": actions, "objects": "red mug"})
    lines = user_text(house().model_copy(update={"initial": start})).splitlines()
    at = lines.index("Admissible actions:")
    assert lines[at + 1 : at + 4] == ["search[x]", "click[y]", "Objects at hand: red mug"]


def test_hidden_actions_are_never_offered_and_explained_forms_are_not_repeated() -> None:
    assert "help" not in text_of(PromptBuilder(PromptConfig(memory=Memory.FULL)).build(house(*HOUSE_TURNS)))
    prompt = PromptBuilder(PromptConfig()).build(lab(*LAB_TURNS))
    assert prompt.messages[0].content.count("open OBJ: open a container or a door") == 1
    assert "OBJ" not in prompt.messages[1].content


def test_the_history_leaves_out_the_last_turn_and_environments_without_one() -> None:
    text = user_text(lab(*LAB_TURNS))
    history, last = text.split("Last actions:")
    assert "Action 1: teleport to kitchen" in history
    assert "focus on water" not in history
    assert "In Environment 4" not in history
    assert "Action 2: focus on water" in last
    assert "In Environment 1" not in last
    assert "In Environment 3" not in text


def test_an_environment_that_ended_is_named_as_ended() -> None:
    """E17: the model is told."""
    text = user_text(lab(*LAB_TURNS))
    assert "Environment 4: ended without success." in text
    assert "Environments 1" not in text.split("Environment 4: ended")[0].splitlines()[-1]
    broken = Step(env_id=2, action="wait", observation=Observation(text="", ended=True, failure="Error: gone"))
    text = user_text(lab(*LAB_TURNS, (broken,)))
    assert "Environment 2: out of order." in text
    assert "Error: gone" not in text


def test_the_limit_sentence_names_one_to_k_and_is_left_out_without_a_limit() -> None:
    assert user_text(lab()).endswith("You can act in up to 4 environments, numbered 1 to 4.")
    assert "up to" not in text_of(PromptBuilder(PromptConfig()).build(lab(num_envs=None)))
    assert "environments" not in user_text(lab(num_envs=1))


def test_task_and_initial_observation_come_first_and_stay_the_same_over_turns() -> None:
    """What later turns share with the first can be computed once."""
    builder = PromptBuilder(PromptConfig())
    prompts = [builder.build(lab(*LAB_TURNS[:turns])) for turns in range(3)]
    assert len({prompt.messages[0].content for prompt in prompts}) == 1
    start = f"Task: {lab().goal}\n\nInitial observation, the same in every environment:\n{lab().initial.text}\n"
    assert all(prompt.messages[1].content.startswith(start) for prompt in prompts)


def test_template_signs_in_observations_and_goals_are_shown_as_they_are() -> None:
    odd = "{{ 7 * 7 }} {% raw %} <b> & </env_2>"
    text = user_text(house((step(1, odd, odd, odd),)).model_copy(update={"goal": odd}))
    assert text.count(odd) == 4


def test_compact_prompts_are_one_line_of_single_spaces_without_ended_environments() -> None:
    odd = rooms((step(1, "wait", "at  outside :\n\taxe"), step(2, "focus on axe", "over", ended=True)), ())
    prompt = PromptBuilder(PromptConfig(templates="compact")).build(odd)
    assert [message.content for message in prompt.messages] == [
        "turn 3 <env_1> did wait | at outside : axe </env_1> <env_3> at hallway : door , picture </env_3> "
        "goal : animal with longest life span outside"
    ]


def test_compact_prompts_without_a_limit_offer_the_next_unused_environment() -> None:
    text = user_text(rooms(*ROOM_TURNS, num_envs=None), PromptConfig(templates="compact"))
    assert "<env_3> at hallway : door , picture </env_3> goal" in text
    assert "<env_4>" not in text


# Template sets of one's own.


def folder_with(path: Path, **files: str | None) -> PromptConfig:
    texts: dict[str, str | None] = {"system": "", "first_turn": "{{ goal }}", "later_turn": "{{ goal }} {{ turn }}", **files}
    for name, text in texts.items():
        if text is not None:
            (path / f"{name}.j2").write_text(text, encoding="utf-8")
    return PromptConfig(templates=str(path))


def test_a_folder_of_templates_replaces_the_words(tmp_path: Path) -> None:
    config = folder_with(tmp_path, later_turn='{% from "parts.j2" import possible %}{{ goal }}!\n{{ possible(initial) }}')
    assert text_of(PromptBuilder(config).build(house())) == "[user]\nput a mug in drawer."
    assert user_text(house(()), config).startswith("put a mug in drawer.!\nAdmissible actions:\ngo to desk 1\n")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"later_turn": None}, r"later_turn\.j2 does not exist; a set needs system\.j2, first_turn\.j2, later_turn\.j2"),
        ({"first_turn": "a\n{% if %}"}, r"first_turn\.j2, line 2: "),
        ({"later_turn": "a\n\n{{ goall }}"}, r"later_turn\.j2, line 3: 'goall' is undefined"),
        ({"system": "{{ initial.txt }}"}, r"system\.j2, line 1: .*'txt'"),
        (
            {"later_turn": "{% for e in environments if e.broken %}\n{{ e.nothing }}{% endfor %}x"},
            r"later_turn\.j2, line 2: .*nothing",
        ),
        ({"first_turn": "{{ 1 / 0 }}"}, r"first_turn\.j2, line 1: division by zero"),
        ({"first_turn": " \n"}, r"first_turn\.j2 rendered an empty user message"),
        ({"first_turn": "{% include 'other.j2' %}"}, r"first_turn\.j2, line 1: .*other\.j2"),
        ({"first_turn": "x\n{% include 'bad.j2' %}", "bad": "\n\n{% endif %}"}, r"bad\.j2, line 3: "),
    ],
)
def test_a_mistake_in_a_template_is_named_with_file_and_line_when_the_set_is_loaded(
    tmp_path: Path, files: dict[str, str | None], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        PromptBuilder(folder_with(tmp_path, **files))


def test_a_template_that_is_not_text_is_named(tmp_path: Path) -> None:
    config = folder_with(tmp_path)
    (tmp_path / "system.j2").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"system\.j2 cannot be read"):
        PromptBuilder(config)


def test_an_unknown_set_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"'compct' is neither a built-in set nor a folder\. Did you mean 'compact'\?"):
        PromptBuilder(PromptConfig(templates="compct"))
