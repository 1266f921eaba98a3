"""What a prompt says about ScienceWorld as a whole: the agent's role and the forms of action, each explained in a few words."""

from __future__ import annotations

from dpepo.types import ActionTemplate, WorldGuide

ROLE = (
    "You are an agent in a small house with a garden, a workshop and a greenhouse, simulated in text, "
    "where you solve elementary science tasks."
)

# The forms that exist under every set of simplifications, in the simulator's order.
COMMON: dict[str, str] = {
    "activate OBJ": "turn a device on",
    "close OBJ": "close a container or a door",
    "deactivate OBJ": "turn a device off",
    "dunk OBJ in OBJ": "dip a container into a liquid",
    "eat OBJ": "eat something edible",
    "flush OBJ": "flush a toilet",
    "focus on OBJ": "declare that this is the object the task asks for; focusing on a wrong one can end the task",
    "go OBJ": "go to a neighbouring room through an open door, e.g. go to kitchen",
    "inventory": "list what you carry",
    "look around": "describe the room",
    "look at OBJ": "describe one thing",
    "look in OBJ": "describe what a container holds",
    "mix OBJ": "mix the contents of a container",
    "move OBJ to OBJ": "put a thing into a container or room",
    "open OBJ": "open a container or a door",
    "pick up OBJ": "take a thing with you",
    "pour OBJ in OBJ": "pour a liquid, or the contents of a container, into another container",
    "put down OBJ": "leave a thing in this room",
    "read OBJ": "read a note, a recipe or a book",
    "reset task": "start the task's progress anew",
    "task": "repeat the task's description",
    "use OBJ on OBJ": "use a tool or an instrument on something",
    "wait": "let ten moments pass",
    "wait1": "let one moment pass",
}
ELECTRICAL: dict[str, str] = {
    "connect OBJ to OBJ": "connect two contacts of electrical parts",
    "disconnect OBJ": "undo a connection",
}
TELEPORT: dict[str, str] = {"teleport OBJ": "be in another room at once, e.g. teleport to kitchen"}
ONLY_ELECTRICAL_TASKS = " (only in tasks about electricity)"


def is_electrical(task_name: str) -> bool:
    """Whether a task is about electricity, by the simulator's own rule."""
    return "power-component" in task_name or "conductivity" in task_name


def templates(simplifications: str, *, task_name: str) -> tuple[str, ...]:
    """Forms of action in a task, in the simulator's order.

    >>> len(templates("easy", task_name="boil")), len(templates("easy", task_name="test-conductivity"))
    (25, 27)
    """
    forms = dict(COMMON)
    easy = simplifications == "easy"
    if easy or "teleportAction" in simplifications:
        forms |= TELEPORT
    if is_electrical(task_name) if easy else "noElectricalAction" not in simplifications:
        forms |= ELECTRICAL
    return tuple(sorted(forms))


def world_guide(simplifications: str) -> WorldGuide:
    """The guide under a set of simplifications; it covers all tasks."""
    helps = COMMON | ELECTRICAL | TELEPORT
    if simplifications == "easy":
        helps |= {form: text + ONLY_ELECTRICAL_TASKS for form, text in ELECTRICAL.items()}
    forms = templates(simplifications, task_name="power-component")
    return WorldGuide(role=ROLE, action_templates=tuple(ActionTemplate(template=form, help=helps[form]) for form in forms))
