"""A game of ALFWorld as data: the file ``game.tw-pddl``, or one that was generated."""

from __future__ import annotations

import hashlib
import json
import re
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from dpepo.envs.alfworld.pddl import PddlError, rules_key
from dpepo.errors import TaskError
from dpepo.types import Record

GAME_FILE = "game.tw-pddl"
TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
_ASKED = (
    ("istoggled", "look_at_obj_in_light"),
    ("(not (=", "pick_two_obj_and_place"),
    ("isclean", "pick_clean_then_place_in_recep"),
    ("ishot", "pick_heat_then_place_in_recep"),
    ("iscool", "pick_cool_then_place_in_recep"),
    ("inreceptacle", "pick_and_place_simple"),
)
_TASK = re.compile(r'"rhs"\s*:\s*("Your task is to: (?:[^"\\]|\\.)*")')
_PREFIX = "Your task is to: "


class Wording(StrEnum):
    """Which release's commands and sentences a game is played in."""

    V2_1_1 = "2.1.1"  # "put X in/on Y", "You arrive at loc 5"
    V2_1_2 = "2.1.2"  # "move X to Y", "You arrive at shelf 2", and the command "help"


# Digests of the rules and the sentences of the official releases: any other game would be played wrongly.
_RULES = "ca1fd4adfe8040a5"
_SENTENCES = {"d85e90de4ace34e2": Wording.V2_1_1, "fa4c33e764f3c710": Wording.V2_1_2}
_SENTENCE = re.compile(r'"(?:rhs|condition)"\s*:\s*"((?:[^"\\]|\\.)*)"|(?:template|feedback)\s*::\s*"([^"]*)"')


class Game(Record):
    """Everything that fixes how a game plays."""

    problem: str  # PDDL
    sentence: str  # the task in words, e.g. "put two watch in dresser."
    task_type: str  # one of TASK_TYPES, or "unknown"
    wording: Wording  # of its file


def read_game(path: Path) -> Game:
    """Read a ``game.tw-pddl``.

    Raises:
        TaskError: There is no such file, it is no game, it cannot be solved, or it follows rules that are not known here.
    """
    try:
        parts = json.loads(path.read_text(encoding="utf-8"))
        domain, grammar, problem = parts["pddl_domain"], parts["grammar"], parts["pddl_problem"]
    except FileNotFoundError:
        raise TaskError(f"There is no game {path}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaskError(f"{path} is no game of ALFWorld ({type(error).__name__}: {error})") from None
    if not (isinstance(domain, str) and isinstance(grammar, str) and isinstance(problem, str)):
        raise TaskError(f"{path} is no game of ALFWorld: its parts are no texts")
    if parts.get("solvable") is False:
        raise TaskError(f"{path} is marked as a game that cannot be solved")
    return Game(
        problem=problem,
        sentence=_sentence(grammar, path),
        task_type=_task_type(problem),
        wording=_wording(domain, grammar, path),
    )


def _sentence(grammar: str, path: Path) -> str:
    found = _TASK.search(grammar)
    if found is None:
        raise TaskError(f"{path} states no task")
    return str(json.loads(found.group(1))).removeprefix(_PREFIX)


def _wording(domain: str, grammar: str, path: Path) -> Wording:
    try:
        wording = _SENTENCES.get(_sentences_key(_TASK.sub("", grammar))) if _rules_key(domain) == _RULES else None
    except PddlError:
        wording = None
    if wording is None or ("(:action help" in domain) != (wording is Wording.V2_1_2):
        raise TaskError(
            f"{path} follows rules that are neither those of ALFWorld 2.1.1 nor 2.1.2, so it would be played wrongly. "
            "Use the games of the official releases"
        )
    return wording


_rules_key = lru_cache(maxsize=4)(rules_key)  # a release has one domain and one grammar, repeated in every file


@lru_cache(maxsize=4)
def _sentences_key(grammar: str) -> str:
    """A digest of a grammar's sentences, conditions and commands, but for its help."""
    found = {" ".join((quoted or plain).split()) for quoted, plain in _SENTENCE.findall(grammar)}
    kept = sorted(text for text in found if "help" not in text and "Available commands" not in text)
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]


def _task_type(problem: str) -> str:
    """The type, told by what the goal asks for."""
    goal = problem.lower().rpartition("(:goal")[2]
    if "issliced" in goal or "inreceptacleobject" in goal:
        return "unknown"  # official files hold such games, and the lists leave them out
    return next((kind for word, kind in _ASKED if word in goal), "unknown")
