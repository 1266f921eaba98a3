"""One TextWorld game: its answers as a tree, and the emulator that finds those nobody has asked for yet."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpepo.envs.textworld.games import quiet
from dpepo.types import Observation

REFUSAL = "That is not one action of this game."
_STATUS_LINE = re.compile(r"\n*>[ \t]*-= .*? =-[ \t]*-?\d+/\d+\s*$", re.DOTALL)
_FAREWELL = re.compile(r"\s*Would you like to RESTART.*$", re.DOTALL)
_NOT_UNDERSTOOD = (
    "that's not a verb i recogni",
    "you can't see any such thing",
    "i didn't understand",
    "i only understood you as",
)

_LONGEST = 120  # characters; the emulator's line is not much longer, and no action comes near it
_SEVERAL = re.compile(r"[.,;\"]|\b(?:then|and)\b")
# Commands to the interpreter, not to the game: they write files into the working directory, read those of other copies, ask
# questions that swallow the next action, or switch what the package reads the state from. A game tells words by nine letters.
_META_WORDS = frozenset(
    (
        *("save", "restore", "restart", "quit", "q", "undo", "script", "noscript", "unscript", "transcrip", "recording"),
        *("replay", "commands", "restrict", "verify", "version", "superbrie", "brief", "verbose", "short", "normal", "long"),
        *("notify", "pronouns", "nouns", "again", "g", "oops", "o"),
    )
)


@dataclass
class Node:
    """What a game showed after some commands, and the answers to those that follow."""

    observation: Observation
    children: dict[str, Node] = field(default_factory=dict)


class Game:
    """A game, which answers the same to the same commands; its emulator stands where the last new one left it."""

    def __init__(self, path: Path) -> None:
        """Start the game once, for what it shows at first.

        Args:
            path: The compiled game (``.z8``) with its description (``.json``) beside it.
        """
        self._path = path
        self._env: Any = None
        self._stands: tuple[str, ...] | None = None  # commands that led to the emulator's state; None: not started
        state = self._restart()
        self.goal = " ".join(str(state["objective"]).split())
        self._plan = tuple(state["policy_commands"] or state["extra.walkthrough"] or ())
        self._root = Node(_observation(state, f"{self.goal}\n\n{_tidy(state['description'])}"))
        self.num_answers = 1  # remembered

    def seen(self, commands: tuple[str, ...]) -> Observation:
        """What the game shows after some commands, none of which follows its end."""
        node = self._root
        for number, command in enumerate(commands):
            if command not in node.children:
                node.children[command] = Node(self._answer(commands[: number + 1], before=node.observation))
                self.num_answers += 1
            node = node.children[command]
        return node.observation

    def solution(self) -> list[str] | None:
        """The commands with which the generator solves the game; None when they do not win."""
        won = bool(self._plan) and self.seen(self._plan).success
        return list(self._plan) if won else None

    def forget(self) -> None:
        """Drop all answers but the first; the emulator finds them again, the same."""
        self._root.children.clear()
        self.num_answers = 1

    def close(self) -> None:
        """End the emulator; a new command starts it again."""
        if self._env is not None:
            self._env.close()
        self._env = self._stands = None

    def _answer(self, commands: tuple[str, ...], *, before: Observation) -> Observation:
        command = commands[-1]
        admissible = command in before.admissible_actions
        if not admissible and not is_one_action(command):
            return before.model_copy(update={"text": REFUSAL, "valid": False})
        # refused commands never reached the emulator
        way = tuple(each for number, each in enumerate(commands) if not self._refused(commands[:number], each))
        if self._stands != way[:-1]:
            self._restart()
            for each in way[:-1]:
                self._env.step(each)
        with quiet():
            state, _, _ = self._env.step(command)
        self._stands = way
        text = _tidy(state.feedback) or "Nothing happens."
        return _observation(state, text, valid=admissible or _understood(text))

    def _refused(self, before: tuple[str, ...], command: str) -> bool:
        return not is_one_action(command) and command not in self.seen(before).admissible_actions

    def _restart(self) -> Any:
        with quiet():
            if self._env is None:
                self._env = _start(self._path)
            state = self._env.reset()
        self._stands = ()
        return state


def is_one_action(command: str) -> bool:
    """Whether a command is one action in the game, not several, nor one to the interpreter that plays it.

    >>> is_one_action("open the red box"), is_one_action("save"), is_one_action("go north. go south")
    (True, False, False)
    """
    words = command.casefold().split()
    meta = any(word[:9] in _META_WORDS or word.startswith("tw-") for word in words)
    return 0 < len(command) <= _LONGEST and command.isprintable() and not meta and not _SEVERAL.search(command.casefold())


def _start(path: Path) -> Any:
    import textworld

    wanted = textworld.EnvInfos(
        admissible_commands=True,
        won=True,
        lost=True,
        score=True,
        description=True,
        objective=True,
        policy_commands=True,
        facts=True,
        extras=["walkthrough"],
    )
    return textworld.start(str(path), wanted)


def _observation(state: Any, text: str, *, valid: bool = True) -> Observation:
    won, lost = bool(state["won"]), bool(state["lost"])
    return Observation(
        text=text,
        admissible_actions=tuple(state["admissible_commands"]),
        score=float(state["score"] or 0),
        success=won,
        ended=won or lost,
        valid=valid,
        state=_fingerprint(state),
    )


def _fingerprint(state: Any) -> str:
    facts = sorted(map(str, state["facts"]))
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()


def _understood(text: str) -> bool:
    return not any(refusal in text.lower() for refusal in _NOT_UNDERSTOOD)


def _tidy(text: str) -> str:
    """A game's answer without the status line and the farewell of the emulator."""
    text = _FAREWELL.sub("", _STATUS_LINE.sub("", text))
    return re.sub(r"\n{3,}", "\n\n", text).strip()
