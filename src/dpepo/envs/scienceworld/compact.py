"""The option ``observation: compact``: a room in one line, for models with a small vocabulary.

The simulator's description of a room becomes its name and the things that lie in it, by names that work in actions. Left out
are the agent, the ground, substances, doors, and what is inside or on top of another thing.
"""

from __future__ import annotations

import re

_ROOM = re.compile(r"This (?:room|outside location) is called the (?P<room>[^.\n]+)\.")
_LIST_END = "\nYou also see:"  # the doors follow
_DETAIL = re.compile(r"[.,(]|, which| titled | in the \w+ stage")  # what a thing holds, shows or is like
_ARTICLE = re.compile(r"^(?:an?|the) ", re.IGNORECASE)
_OTHER_NAMES = {"blank paper": "paper"}  # the one description that is no name
_LEFT_OUT = frozenset({"agent", "ground"})
UNKNOWN = "unknown action | "


def room_name(look: str) -> str:
    """The name of the room in a description, empty when there is none.

    >>> room_name("This room is called the art studio. In it, you see: ")
    'art studio'
    """
    match = _ROOM.match(look)
    return match["room"] if match else ""


def visible_things(look: str) -> tuple[str, ...]:
    r"""Names of the things in a room, in the order of the description, each once.

    >>> visible_things("This room is called the kitchen. In it, you see: \n\tthe agent\n\ta substance called air\n\tan axe\n"
    ...                "\ta sink, which is turned off. In the sink is: nothing.\nYou also see:\n\tA door to the hallway")
    ('axe', 'sink')
    """
    names: dict[str, None] = {}
    for line in look.partition(_LIST_END)[0].split("\n")[1:]:
        if not line.startswith("\t"):
            continue
        text = _ARTICLE.sub("", line.strip())
        name = _DETAIL.split(text, maxsplit=1)[0].strip()
        if name and name not in _LEFT_OUT and not name.startswith("substance called "):
            names[_OTHER_NAMES.get(name, name)] = None
    return tuple(names)


def compact_look(look: str) -> str:
    r"""A room in one line; a text that is no description of a room is returned as it is.

    >>> compact_look("This outside location is called the outside. Here you see: \n\tan axe\n\ta dove egg\n")
    'at outside : axe , dove egg'
    """
    room = room_name(look)
    if not room:
        return look
    return f"at {room} : {' , '.join(visible_things(look))}".rstrip()
