"""The reply parser: cases that broke others, and properties over any text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpepo.actions import normalize_action
from dpepo.config import Form
from dpepo.protocol import parse_reply
from dpepo.types import ParsedReply, ReplyProblem

K = 4


def actions_of(text: str, *, num_envs: int | None = K, form: Form = Form.PARALLEL) -> dict[int, str]:
    return dict(parse_reply(text, num_envs=num_envs, form=form).actions)


def test_an_action_goes_to_the_environment_its_tag_names() -> None:
    """P01: ids come from the tags, not from the order of appearance."""
    reply = parse_reply("<parallel><env_3>look</env_3><env_1>inventory</env_1></parallel>", num_envs=K)
    assert dict(reply.actions) == {3: "look", 1: "inventory"}
    assert list(reply.actions) == [1, 3]


def test_an_action_discussed_in_the_thought_is_not_done() -> None:
    """P03."""
    text = "<think>maybe <env_1>open drawer 1</env_1></think><parallel><env_1>go to shelf 1</env_1></parallel>"
    reply = parse_reply(text, num_envs=K)
    assert dict(reply.actions) == {1: "go to shelf 1"}
    assert reply.problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "<think>use <parallel><env_1>no</env_1></parallel></think><parallel><env_1>yes</env_1></parallel>",
        "<think>a</think><think>or <env_1>no</env_1></think><parallel><env_1>yes</env_1></parallel>",
        "<think>a</think><think><parallel><env_1>no</env_1></parallel></think><parallel><env_1>yes</env_1></parallel>",
        "<think>a <think>b</think> or <env_1>no</env_1></think><parallel><env_1>yes</env_1></parallel>",
        "<think>a <think>b</think><parallel><env_1>no</env_1></parallel></think><parallel><env_1>yes</env_1></parallel>",
        "a</think> or <parallel><env_2>no</env_2></parallel></think><parallel><env_1>yes</env_1></parallel>",
        "<parallel><env_2>no</env_2></parallel><think>a</think><parallel><env_1>yes</env_1></parallel>",
        "<env_2>no</env_2></think><parallel><env_1>yes</env_1></parallel>",
        "<think>t</think><parallel><env_1>yes</env_1><think><env_2>no</env_2></think></parallel>",
        "<think>t</think> first <env_2>no</env_2> then <parallel><env_1>yes</env_1></parallel>",
        "<think>t</think><parallel><env_1>yes</env_1></parallel> or <env_2>no</env_2>",
        "<think>t</think><parallel><env_1>yes</env_1></parallel><think>next <env_2>no</env_2>",
    ],
)
def test_nothing_said_in_any_thought_or_beside_the_block_is_done(text: str) -> None:
    """P03, and the same fault by other ways."""
    assert actions_of(text) == {1: "yes"}


def test_a_thought_that_never_ends_holds_no_actions() -> None:
    """P04."""
    reply = parse_reply("<think>plan... <parallel><env_1>look</env_1></parallel>", num_envs=K)
    assert not reply.actions
    assert reply.problems == (ReplyProblem.NO_ACTION, ReplyProblem.UNCLOSED_THINK)
    assert reply.thought.startswith("plan...")


def test_plain_text_is_no_thought_and_no_action() -> None:
    """P04: not an empty thought with success."""
    reply = parse_reply("plain text, no tags", num_envs=K)
    assert (reply.thought, dict(reply.actions)) == ("", {})
    assert {ReplyProblem.NO_ACTION, ReplyProblem.MISSING_THINK, ReplyProblem.MISSING_PARALLEL} <= set(reply.problems)


def test_an_empty_thought_is_a_missing_thought() -> None:
    """P04: an empty thought earns no marks for form."""
    reply = parse_reply("<think> </think><parallel><env_1>look</env_1></parallel>", num_envs=K)
    assert reply.problems == (ReplyProblem.MISSING_THINK,)
    assert dict(reply.actions) == {1: "look"}


@pytest.mark.parametrize("opening", ["", "<think>", " <think>\n"])
def test_the_opening_of_the_thought_may_stand_in_the_prompt(opening: str) -> None:
    """P07."""
    reply = parse_reply(opening + "reason</think><parallel><env_1>look</env_1></parallel>", num_envs=K)
    assert reply.thought == "reason"
    assert dict(reply.actions) == {1: "look"}
    assert reply.problems == ()


def test_an_environment_addressed_twice_does_its_first_action_only() -> None:
    """P09."""
    reply = parse_reply("<env_1>look</env_1><env_1>inventory</env_1>", num_envs=K)
    assert dict(reply.actions) == {1: "look"}
    assert {ReplyProblem.DUPLICATE_ENV, ReplyProblem.MISSING_PARALLEL} <= set(reply.problems)


def test_only_the_first_of_several_blocks_counts() -> None:
    """P09."""
    block = "<parallel><env_1>{}</env_1></parallel>"
    reply = parse_reply("<think>t</think>" + block.format("look") + block.format("inventory"), num_envs=K)
    assert dict(reply.actions) == {1: "look"}
    assert reply.problems == (ReplyProblem.MULTIPLE_PARALLEL,)


def test_a_block_that_opens_inside_an_open_block_ends_it() -> None:
    """P09."""
    text = "<think>t</think><parallel><env_1>look</env_1><parallel><env_2>wait</env_2></parallel>"
    reply = parse_reply(text, num_envs=K)
    assert dict(reply.actions) == {1: "look"}
    assert reply.problems == (ReplyProblem.MULTIPLE_PARALLEL, ReplyProblem.UNCLOSED_PARALLEL)


def test_ids_outside_one_to_k_are_dropped_and_named() -> None:
    """P10."""
    ids = ("0", "5", "-1", "99999999999999999999", "01")
    text = "".join(f"<env_{env_id}>wait</env_{env_id}>" for env_id in ids) + "<env_2>look</env_2>"
    reply = parse_reply(text, num_envs=K)
    assert dict(reply.actions) == {2: "look"}
    assert {ReplyProblem.BAD_ENV_ID, ReplyProblem.OVER_LIMIT} <= set(reply.problems)
    messages = dict(zip(reply.problems, reply.messages, strict=True))
    assert messages[ReplyProblem.OVER_LIMIT] == "Environments run from 1 to 4; the reply asks for 5, 99999999999999999999."
    assert messages[ReplyProblem.BAD_ENV_ID] == "Environments are numbered 1 to 4; the reply names <env_0>, <env_-1>, <env_01>."


@pytest.mark.parametrize(
    "env_id", ["_0", "_-1", "_01", "_1.0", "_+1", "_1_0", "_٣", "_²", "_\uff11", "_one", "_i", "_", "", " 1", "_1 2", "_1/"]
)
def test_what_is_not_a_plain_number_from_one_on_is_a_bad_id(env_id: str) -> None:
    """P10: int() would take some of these for numbers."""
    text = f"<think>t</think><parallel><env{env_id}>wait</env{env_id}><env_2>look</env_2></parallel>"
    reply = parse_reply(text, num_envs=None)
    assert dict(reply.actions) == {2: "look"}
    assert reply.problems == (ReplyProblem.BAD_ENV_ID,)


@pytest.mark.parametrize("num_envs", [1, 4, 10, None])
def test_a_number_of_thousands_of_digits_is_over_the_limit(num_envs: int | None) -> None:
    """P10: int() refuses more than 4300 digits."""
    reply = parse_reply(f"<env_{'9' * 10_000}>look</env_{'9' * 10_000}>", num_envs=num_envs)
    assert ReplyProblem.OVER_LIMIT in reply.problems
    assert not reply.actions
    assert all(len(message) < 200 for message in reply.messages)


def test_without_a_limit_every_number_from_one_on_is_an_environment() -> None:
    assert actions_of("<env_17>look</env_17>", num_envs=None) == {17: "look"}


def test_the_last_environment_is_inside_the_limit_and_the_next_is_not() -> None:
    assert actions_of("<env_10>look</env_10><env_11>wait</env_11>", num_envs=10) == {10: "look"}


@pytest.mark.parametrize("inner", ["", " \n ", "\u200b", "\x00", "\u00a0"])
def test_an_empty_action_is_no_action(inner: str) -> None:
    """P11."""
    reply = parse_reply(f"<think>t</think><parallel><env_2>{inner}</env_2></parallel>", num_envs=K)
    assert not reply.actions
    assert reply.problems == (ReplyProblem.NO_ACTION, ReplyProblem.EMPTY_ACTION)


def test_the_first_usable_action_counts_after_an_empty_one() -> None:
    """P11 and P09."""
    reply = parse_reply("<think>t</think><parallel><env_2></env_2><env_2>look</env_2></parallel>", num_envs=K)
    assert dict(reply.actions) == {2: "look"}
    assert reply.problems == (ReplyProblem.DUPLICATE_ENV, ReplyProblem.EMPTY_ACTION)


def test_an_action_cut_off_by_the_token_limit_is_never_sent() -> None:
    """P14."""
    reply = parse_reply("<think>t</think><parallel><env_1>look</env_1><env_2>go to", num_envs=K)
    assert dict(reply.actions) == {1: "look"}
    assert reply.problems == (ReplyProblem.UNCLOSED_PARALLEL, ReplyProblem.UNCLOSED_ENV)


def test_an_entry_without_its_end_tag_does_not_swallow_the_next_one() -> None:
    """P14."""
    reply = parse_reply("<env_1>go to desk 1\n<env_2>look</env_2>", num_envs=K)
    assert dict(reply.actions) == {2: "look"}
    assert ReplyProblem.UNCLOSED_ENV in reply.problems


@pytest.mark.parametrize(
    "inner",
    [
        "go <env_2>look</env_2>",
        "go <env_2",
        "go </think>",
        "go <think>x</think> on",
        "go < / env_3 >",
        "go <ENV_2>",
        "<action>go</action>",
        "go </env_2>",
        "go </env",
    ],
)
def test_text_that_holds_a_tag_or_a_piece_of_one_is_never_sent(inner: str) -> None:
    """P14."""
    text = f"<think>t</think><parallel><env_1>{inner}</env_1><env_4>wait</env_4></parallel>"
    reply = parse_reply(text, num_envs=K)
    assert 1 not in reply.actions
    assert reply.actions[4] == "wait"
    assert ReplyProblem.UNCLOSED_ENV in reply.problems


def test_an_entry_that_holds_the_opening_of_a_block_is_not_sent() -> None:
    """P14 and P09: the first block ends where another begins."""
    assert actions_of("<parallel><env_2>wait</env_2><env_1>go <parallel></env_1></parallel>") == {2: "wait"}


def test_signs_that_are_no_tags_may_stand_in_an_action() -> None:
    assert actions_of("<env_1>type x < 3 > y <b> <environment></env_1>") == {1: "type x < 3 > y <b> <environment>"}


def test_text_outside_the_tags_is_noted() -> None:
    for text in (
        "so <think>t</think><parallel><env_1>look</env_1></parallel>",
        "<think>t</think> so <parallel><env_1>look</env_1></parallel>",
        "<think>t</think><parallel> so <env_1>look</env_1></parallel>",
        "<think>t</think><parallel><env_1>look</env_1> so </parallel>",
        "<think>t</think><parallel><env_1>look</env_1></parallel> so",
    ):
        reply = parse_reply(text, num_envs=K)
        assert dict(reply.actions) == {1: "look"}
        assert reply.problems == (ReplyProblem.STRAY_TEXT,)


@pytest.mark.parametrize(
    "junk",
    [
        "<env_1>",
        "</env_1>",
        "<env_1>look</env_1>",
        "<env_",
        "<env_1",
        "<",
        "< ",
        "<\n/ ",
        "<think>",
        "</think>",
        "<think></think>",
        "<parallel>",
        "<parallel></parallel>",
        "</parallel>",
        "<action>",
        "<env_0>a</env_0>",
        "<env_99>",
        "\ud800",
        " ",
        "a",
        "é\x00",
    ],
)
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("lead", ["", "<think>t</think><parallel><env_1>"])
def test_junk_to_the_token_limit_is_read_in_linear_time(junk: str, form: Form, lead: str) -> None:
    """P18: a non-greedy match over many unclosed tags takes 34 s for 140 kB."""
    text = lead + junk * (140_000 // len(junk))
    start = time.process_time()
    reply = parse_reply(text, num_envs=K, form=form)
    assert time.process_time() - start < 1.0
    assert len(reply.actions) <= 1
    assert sum(map(len, reply.messages)) < 2_000


def test_twenty_thousand_unclosed_tags_hold_no_action() -> None:
    """P18."""
    reply = parse_reply("<env_1>" * 20_000, num_envs=K)
    assert not reply.actions
    assert ReplyProblem.NO_ACTION in reply.problems


def test_a_space_around_every_word_changes_nothing() -> None:
    """Tokenizers that know whole words decode with a space between any two."""
    text = "<think> go </think> <parallel> <env_1> focus on dove egg </env_1> < env_2 > wait < /env_2 > </parallel>"
    reply = parse_reply(text, num_envs=K)
    assert (reply.thought, dict(reply.actions), reply.problems) == ("go", {1: "focus on dove egg", 2: "wait"}, ())


def test_the_sequential_form_has_one_action_for_environment_one() -> None:
    reply = parse_reply("<think>maybe <action>no</action></think><action>open  door</action>", num_envs=1, form=Form.SEQUENTIAL)
    assert (reply.thought[:5], dict(reply.actions), reply.problems) == ("maybe", {1: "open door"}, ())


@pytest.mark.parametrize(
    ("text", "actions", "problem"),
    [
        ("<think>t</think><action>look</action><action>wait</action>", {1: "look"}, ReplyProblem.DUPLICATE_ENV),
        ("<think>t</think><action>look", {}, ReplyProblem.UNCLOSED_ENV),
        ("<think>t</think><action>go <action>look</action>", {1: "look"}, ReplyProblem.UNCLOSED_ENV),
        ("<think>t</think><action> </action>", {}, ReplyProblem.EMPTY_ACTION),
        ("<think>t</think><parallel><env_1>look</env_1></parallel>", {}, ReplyProblem.MISSING_PARALLEL),
        ("<think>t <action>look</action>", {}, ReplyProblem.UNCLOSED_THINK),
        ("<think>t</think><action>look</action> so", {1: "look"}, ReplyProblem.STRAY_TEXT),
        ("t <think>b</think> or <action>no</action></think><action>yes</action>", {1: "yes"}, ReplyProblem.MULTIPLE_THINK),
    ],
)
def test_the_sequential_form_follows_the_same_rules(text: str, actions: dict[int, str], problem: ReplyProblem) -> None:
    """P03, P04, P09, P11, P14 for one environment."""
    reply = parse_reply(text, num_envs=1, form=Form.SEQUENTIAL)
    assert dict(reply.actions) == actions
    assert problem in reply.problems


def test_a_reply_with_broken_unicode_can_be_stored() -> None:
    reply = parse_reply("<think>\udcff</think><parallel><env_1>go \ud800 on</env_1></parallel>", num_envs=K)
    assert ParsedReply.model_validate_json(reply.model_dump_json()) == reply
    assert dict(reply.actions) == {1: "go \ufffd on"}


# Properties over any text.

PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<parallel>", "</parallel>", "<action>", "</action>"),
        *("<env_1>", "</env_1>", "<env_2>", "</env_2>", "< env_3 >", "</env_3>", "<env_9>", "</env_9>", "<env_0>", "<ENV_1>"),
        *("<env_1", "</", "<", ">", "env_2>", "look", " ", "\n", "go to desk 1", "\x00", "\ud800", "é"),
    ]
)
SOUP = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(st.characters(codec=None), max_size=80))
WORDS = st.text("abz <>12\n", min_size=1, max_size=12).filter(lambda text: normalize_action(text) != "")
ACTIONS = st.dictionaries(st.integers(1, K), WORDS, min_size=1, max_size=K)


def written(actions: dict[int, str]) -> str:
    return (
        "<parallel>" + "\n".join(f"<env_{env_id}>{action}</env_{env_id}>" for env_id, action in actions.items()) + "</parallel>"
    )


@given(SOUP, st.sampled_from([None, 1, K]), st.sampled_from(list(Form)))
def test_any_text_gives_a_reply_whose_actions_are_ready_to_send(text: str, num_envs: int | None, form: Form) -> None:
    """P10, P11, P14: whatever comes, ids lie in 1..K and actions are clean."""
    reply = parse_reply(text, num_envs=num_envs, form=form)
    for env_id, action in reply.actions.items():
        assert 1 <= env_id <= (num_envs or 10**6)
        assert action != ""
        assert action == normalize_action(action)
        lowered = action.casefold().replace(" ", "")
        assert not any(
            f"<{slash}{name}" in lowered for slash in ("", "/") for name in ("env_", "think>", "parallel>", "action>")
        )
    assert len(reply.problems) == len(set(reply.problems)) == len(reply.messages)
    assert (ReplyProblem.NO_ACTION in reply.problems) == (not reply.actions)
    reply.model_dump_json()


@given(ACTIONS, SOUP.filter(lambda text: "think>" not in text and "<think" not in text and text.strip()))
def test_a_well_formed_reply_is_read_back_whatever_its_thought_says(actions: dict[int, str], thought: str) -> None:
    """P01, P03: order and ids are kept, and the thought changes nothing."""
    for opening in ("<think>", ""):
        reply = parse_reply(f"{opening}{thought}</think>{written(actions)}", num_envs=K)
        assert dict(reply.actions) == {env_id: normalize_action(action) for env_id, action in actions.items()}
        assert reply.problems in ((), (ReplyProblem.MISSING_THINK,))  # the soup may be invisible


@given(ACTIONS, st.integers(0, 200))
def test_a_reply_cut_anywhere_does_nothing_that_the_whole_reply_would_not(actions: dict[int, str], cut: int) -> None:
    """P14."""
    whole = f"<think>I may <env_1>wait</env_1>.</think>\n{written(actions)}"
    expected = actions_of(whole)
    assert actions_of(whole[:cut]).items() <= expected.items()


@given(ACTIONS, SOUP.filter(lambda text: "think" not in text.casefold()))
def test_nothing_after_the_block_changes_what_is_done(actions: dict[int, str], rest: str) -> None:
    """P09."""
    text = f"<think>t</think>{written(actions)}"
    assert actions_of(text + rest) == actions_of(text)
