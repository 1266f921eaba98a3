"""What a demonstrated ScienceWorld agent says: several wordings of each kind of sentence. Pure.

Sentences name only what their caller passes in, and callers pass only what has been shown (`scienceworld_seen`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from dpepo.synthesis.oracle.scienceworld_plan import verb

_TWO = {
    "move": re.compile(r"(?P<a>.+) to (?P<b>.+)"),
    "connect": re.compile(r"(?P<a>.+) to (?P<b>.+)"),
    "pour": re.compile(r"(?P<a>.+) in(?:to)? (?P<b>.+)"),
    "use": re.compile(r"(?P<a>.+?) on (?P<b>.+)"),
}

SENTENCES: dict[str, tuple[str, ...]] = {
    "open": (
        "I do not know yet where to find {thing}, so I send the environments to different rooms and compare what they show.",
        "All copies start alike, so doing the same in each would be a waste: every one looks for {thing} in another room.",
        "First I need to find {thing}. I split the search, one room per environment.",
        "Where to find {thing} is an open question. I visit different rooms at once and read what turns up.",
    ),
    "open_one": (
        "I do not know yet where to find {thing}. I start looking in the {room}.",
        "First I need to find {thing}; the {room} is worth a look.",
        "Nothing here tells me where to find {thing}, so I try the {room}.",
    ),
    "open_named": (
        "The task names the {room}, so one environment goes there. The others look into different rooms meanwhile.",
        "One copy goes straight to the {room} that the task speaks of; the rest find out what else there is.",
        "I know from the task that the {room} matters. What the other rooms hold I do not know, so the copies split up.",
    ),
    "open_named_one": (
        "The task names the {room}, so I go there first.",
        "According to the task the {room} matters. I go there.",
    ),
    "search": (
        "None of the rooms seen so far shows {thing}, so I go on to rooms that have not been visited.",
        "Still no sign of {thing}. I continue with rooms that are new to me.",
        "What I have read so far does not show {thing}; I keep looking elsewhere.",
    ),
    "read": (
        "I have arrived and read what the room holds before I decide.",
        "Now I look around to see what is really there.",
        "Before I go on I want the full description of where I am.",
    ),
    "found": (
        "Environment {env} is in the {room} and shows {thing}. I concentrate on it.",
        "The {room} of environment {env} has {thing}, so the work goes on there.",
        "Environment {env} found {thing} in the {room}; that is the copy to work in.",
    ),
    "found_one": (
        "The {room} has {thing}, so I work here.",
        "I found {thing} in the {room}.",
    ),
    "ready": (
        "Environment {env} stands in the {room}, a sensible place to begin; I work there.",
        "The {room} of environment {env} looks useful, so I concentrate on it.",
    ),
    "ready_one": (
        "The {room} is a sensible place to begin.",
        "I can start working in the {room}.",
    ),
    "go_seen": (
        "Environment {witness} showed {thing} in the {room}, so environment {env} goes there.",
        "{thing}: environment {witness} has seen it in the {room}. I go there in environment {env}.",
        "From environment {witness} I know that the {room} has {thing}; environment {env} moves there.",
    ),
    "go_seen_one": (
        "I saw {thing} in the {room}, so I go back there.",
        "The {room} has {thing}; I go there.",
    ),
    "go_named": (
        "The task names the {room}, so environment {env} goes there next.",
        "Next comes the {room} that the task speaks of; environment {env} goes there.",
    ),
    "go_named_one": ("The task names the {room}, so I go there next.", "Next comes the {room} that the task speaks of."),
    "go_try_one": (
        "What is needed next has not turned up, so I try the {room}.",
        "I have not looked into the {room} with this in mind yet; I go there.",
    ),
    "go_back_one": (
        "The next step belongs into the {room}, which I know; I go there.",
        "For the next step I go to the {room}, where I have been before.",
    ),
    "go_try": (
        "What is needed next has not turned up, so environment {env} tries the {room}.",
        "I have not looked into the {room} with this in mind yet; environment {env} goes there.",
    ),
    "go_back": (
        "The next step belongs into the {room}, which I know; environment {env} goes there.",
        "For the next step environment {env} goes to the {room}, which has been visited before.",
    ),
    "ended": (
        "Not the answer: {what} ended {which} without success. I rule it out.",
        "{what} failed and cost {which}; I know now that it is wrong.",
        "After {what}, {which} can no longer be used: that was wrong.",
    ),
    "says": (
        "Environment {env} answers: {text}",
        "In environment {env} I read: {text}",
        "Result in environment {env}: {text}",
    ),
    "says_one": (
        "The answer was: {text}",
        "I read: {text}",
    ),
    "scout": (
        "Meanwhile {list}, to know more about the house.",
        "The other copies are free: {list}.",
        "At the same time {list}; what they show may be needed later.",
    ),
    "help": (
        "To find {thing}, {list}.",
        "I am still looking for {thing}: {list}.",
        "No environment has shown {thing} yet, so {list}.",
    ),
    "test": (
        "I cannot tell which answer is right, and there are copies to spare: {list}.",
        "Instead of guessing once I test the possibilities side by side: {list}.",
        "Each possibility is a hypothesis; one copy tries each: {list}.",
    ),
    "test_first": (
        "A wrong try only costs its copy, so I rule things out first: {list}.",
        "Before I commit environment {env}, I test other candidates: {list}.",
    ),
    "too_long": (
        "A full experiment would take more turns than there are.",
        "An experiment would take very long here.",
    ),
    "believe": (
        "As far as I know, {thing} fits best of what is listed.",
        "Among the things shown, {thing} seems right to me.",
        "From general knowledge I expect {thing} to be right.",
    ),
    "choice": (
        "Several things fit the name and I am asked for a number; the first one will do.",
        "The request is ambiguous. The listed things are alike, so I answer 0.",
    ),
    "mirror": (
        "I prepare a second copy in the same way, so that both answers can be tested.",
        "Environment {env} makes the same preparation for the other answer.",
    ),
    "split_planes": (
        "The two planes can be compared at the same time: {list}, then I let the same time pass in both.",
        "A fair comparison needs equal time, which two copies give me: {list}.",
    ),
    "plane": (
        "I put the block on the first plane and see how far it gets in a fixed time.",
        "To compare the planes I time the block on each; the first one now.",
    ),
    "plane_again": (
        "Now the same for the other plane, with the same waiting time.",
        "The same measurement on the second plane.",
    ),
    "same_time": (
        "I let the same time pass wherever a block slides.",
        "The block needs time; I wait.",
    ),
    "positions": (
        "I read how far the block has come.",
        "Now I compare positions.",
    ),
    "verdict": (
        "After the same time the block is at {first} on the {first_name} and at {second} on the {second_name}: it is {answer}.",
        "Equal time, {first_name}: {first}, {second_name}: {second}. That makes {answer} the one asked for.",
    ),
}
"""Kind of sentence to wordings; ``_one`` is for an agent with a single environment."""

ACTIONS: dict[str, tuple[str, ...]] = {
    "focus on": (
        "The task wants a focus on the right thing, and {a} is what I declare{at}.",
        "I focus on {a}{at}, as the task asks.",
        "{a} is what the task is about; I focus on it{at}.",
    ),
    "pick up": (
        "I take {a} with me{at}.",
        "{a} will be needed, so I pick it up{at}.",
        "I pick up {a}{at} to use it later.",
    ),
    "open": (
        "{a} may hold something useful; I open it{at}.",
        "I open {a}{at} to get at what is inside.",
    ),
    "close": ("I close {a}{at}.", "{a} had better be closed{at}."),
    "move": (
        "I put {a} into {b}{at}.",
        "Next {a} goes to {b}{at}.",
        "{b} is where {a} should be; I move it{at}.",
    ),
    "pour": (
        "I pour {a} into {b}{at}.",
        "The contents of {a} go into {b}{at}.",
    ),
    "use": (
        "I use {a} on {b}{at} and read the result.",
        "Using {a} on {b}{at} should tell me more.",
    ),
    "thermometer": (
        "I measure the temperature of {b}{at} to see how far it is.",
        "A reading of the thermometer{at} tells me whether it is working.",
        "I check the temperature of {b}{at} again.",
    ),
    "connect": (
        "The circuit has to be closed: I connect {a} to {b}{at}.",
        "Next wire{at}: {a} to {b}.",
        "I join {a} and {b}{at} to build the circuit.",
    ),
    "mix": (
        "Everything is together in {a}; I mix it{at}.",
        "I mix {a}{at} and see what comes out.",
    ),
    "activate": ("I switch on {a}{at}.", "{a} has to run, so I activate it{at}."),
    "deactivate": ("That is enough, I switch off {a}{at}.", "I turn off {a}{at} again."),
    "examine": ("I examine {a}{at} to see its state.", "I check {a}{at}."),
    "look at": ("I look at {a}{at}.", "I check {a}{at} more closely."),
    "read": ("I read {a}{at}; it may say what is needed.", "{a} may explain how it is done; I read it{at}."),
    "drop": ("I put down {a}{at}, it is needed here.", "{a} has to be in this room, so I drop it{at}."),
    "wait": ("This takes time, I wait{at}.", "I let some time pass{at} and see what happens.", "Patience: I wait{at}."),
    "wait1": ("I wait a moment{at}.", "A short wait{at}, then I look at the result.", "I let one moment pass{at}."),
    "look around": ("I look around{at} to see what is here.", "I read the room{at} first."),
    "": ("I do the next step{at}.",),
}
"""Kind of action to reasons; ``a`` and ``b`` are what it names, ``at`` says where (empty with a single environment)."""


_SUBJECTS = (
    (re.compile(r"find an? ?\(n\) ([a-z -]+?)\."), "a {0}"),
    (re.compile(r"find the animal with"), "the animals"),
    (re.compile(r"life stages of the ([a-z ]+?),"), "the {0}"),
    (re.compile(r"(?:boil|melt|freeze|state of matter of) ([a-z ]+?)\."), "{0} and something to work with"),
    (re.compile(r"create the substance '([a-z ]+)'"), "what it takes to make {0}"),
    (re.compile(r"create ([a-z -]+ paint)"), "the paints for {0}"),
    (re.compile(r"grow an? ([a-z ]+?)(?: plant)?(?: from seed)?\."), "seeds of the {0}"),
    (re.compile(r"determine if ([A-Za-z ]+?) is electrically"), "the {0}"),
    (re.compile(r"measure the (?:melting point|temperature) of ([A-Za-z ]+?),"), "the thermometer and the {0}"),
    (re.compile(r"turn on the ([a-z ]+?)(?: by|\.)"), "the {0}"),
    (re.compile(r"two (inclined planes)"), "the two {0}"),
    (re.compile(r"trait in the ([A-Za-z ]+?)\."), "the {0} and the boxes"),
)
"""What a goal is about: pattern to words for it."""


def goal_subject(goal: str) -> str:
    """What one would look for after reading a goal.

    >>> goal_subject("Your task is to find a(n) living thing. First, focus on the thing.")
    'a living thing'
    """
    for pattern, words in _SUBJECTS:
        found = pattern.search(goal)
        if found:
            return words.format(*found.groups())
    return "what this task needs"


class Wording:
    """Draws wordings; the same seed draws the same ones."""

    def __init__(self, seed: int, *, num_envs: int) -> None:
        self._rng = random.Random(seed)
        self._single = num_envs == 1

    def say(self, kind: str, **fields: object) -> str:
        """One sentence of a kind, with its first letter made large."""
        choices = SENTENCES.get(f"{kind}_one", SENTENCES[kind]) if self._single else SENTENCES[kind]
        return _sentence(self._rng.choice(choices).format(**fields))

    def because(self, action: str, *, env_id: int) -> str:
        """Why an action is done."""
        kind = "thermometer" if action.startswith("use thermometer") else verb(action)
        named = action.removeprefix(verb(action)).strip().removesuffix(" in inventory")
        a, b = _two(verb(action), named.replace(" in inventory", "")) or (named, "it")
        at = "" if self._single else f" in environment {env_id}"
        return _sentence(self._rng.choice(ACTIONS.get(kind, ACTIONS[""])).format(a=_the(a), b=_the(b), at=at))

    def often(self, share: float) -> bool:
        """True in a share of calls."""
        return self._rng.random() < share


def listed(actions: Mapping[int, str]) -> str:
    """What several environments do, in a row.

    >>> listed({1: "teleport to kitchen", 2: "open cupboard"})
    'environment 1 goes to the kitchen, environment 2 opens the cupboard'
    """
    return ", ".join(f"environment {env_id} {_does(action)}" for env_id, action in sorted(actions.items()))


def _does(action: str) -> str:
    kind = verb(action)
    rest = action.removeprefix(kind).strip().replace(" in inventory", "")
    known = {
        "teleport to": "goes outside" if rest == "outside" else f"goes to the {rest}",
        "look around": "looks around",
        "open": f"opens {_the(rest)}",
        "focus on": f"tries {_the(rest)}",
        "look at": f"looks at {_the(rest)}",
        "read": f"reads {_the(rest)}",
    }
    if kind in ("move", "pour"):
        two = _two(kind, rest)
        return f"puts {_the(two[0])} into {_the(two[1])}" if two else f"does: {action}"
    return known.get(kind, f"does: {action}")


def _two(kind: str, named: str) -> tuple[str, str] | None:
    """The two things that an action of some kinds is about."""
    found = _TWO[kind].fullmatch(named) if kind in _TWO else None
    return (found["a"], found["b"]) if found else None


def _the(name: str) -> str:
    return name if name in ("it", "") or name.startswith(("the ", "a ", "an ")) else f"the {name}"


def _sentence(text: str) -> str:
    text = text.strip().replace("the outside", "the outside area")
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    return text[:1].upper() + text[1:]
