"""Replies written by teachers are read back as they were meant."""

from hypothesis import given
from hypothesis import strategies as st

from dpepo.actions import normalize_action
from dpepo.config import Form
from dpepo.protocol import format_reply, parse_reply

ACTION = st.text("abc 12,'", min_size=1, max_size=20).map(normalize_action).filter(bool)
THOUGHT = st.text("abc <>/.\n", min_size=1, max_size=30).filter(str.strip)


@given(THOUGHT, st.dictionaries(st.integers(1, 8), ACTION, min_size=1, max_size=8))
def test_a_written_reply_is_read_back_without_problems(thought: str, actions: dict[int, str]) -> None:
    reply = parse_reply(format_reply(thought, actions), num_envs=8)
    assert (reply.thought, dict(reply.actions), reply.problems) == (thought.strip(), actions, ())


@given(THOUGHT, ACTION)
def test_a_written_sequential_reply_is_read_back_without_problems(thought: str, action: str) -> None:
    reply = parse_reply(format_reply(thought, {1: action}, form=Form.SEQUENTIAL), num_envs=1, form=Form.SEQUENTIAL)
    assert (reply.thought, dict(reply.actions), reply.problems) == (thought.strip(), {1: action}, ())
