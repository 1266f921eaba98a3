"""Columns of success rates: worlds, their lists of tasks, task types. Names and order are the paper's where it has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpepo.evaluation.tables.model import Column

SPLITS = ("valid_seen", "valid_unseen", "L0_test", "L1_test", "L1_only_test", "L2_test")
"""Lists of tasks that stand first, in this order; others follow as they come."""

SPLIT_NOTES = {
    "L1_test": "L1_test is all 1,684 tasks of L1; the 549 of L2_test are among them, played by another model there",
    "L1_only_test": "L1_only_test is the 1,135 tasks of L1 that are not also L2's",
}

TYPES = {
    "pick_and_place_simple": "Pick",
    "pick_cool_then_place_in_recep": "Cool",
    "pick_heat_then_place_in_recep": "Heat",
    "look_at_obj_in_light": "Look",
    "pick_two_obj_and_place": "Pick2",
    "pick_clean_then_place_in_recep": "Clean",
}
"""Short names of ALFWorld's task types, in the order of the paper's tables."""

MEANS = {"alfworld": ("valid_seen", "valid_unseen"), "scienceworld": ("L0_test", "L1_test", "L2_test")}
"""Lists whose mean the paper gives, per world."""

MANY_TYPES = 6  # more are shown with --types all only

TYPE_CHOICES = ("first", "all", "none")


def parts(key: str) -> tuple[str, str, str]:
    """World, list of tasks and task type of a key; empty where it names none.

    >>> parts("alfworld/valid_seen//look_at_obj_in_light"), parts("alfworld")
    (('alfworld', 'valid_seen', 'look_at_obj_in_light'), ('alfworld', '', ''))
    """
    world, _, rest = key.partition("/")
    split, _, task_type = rest.partition("//")
    return world, split, task_type


def rate_columns(keys: Iterable[str], *, types: str) -> list[Column]:
    """The columns of a table of success rates.

    Args:
        keys: ``world/split`` and ``world/split//type`` of everything there is to show.
        types: Whose task types get columns: "first" list of each world that has 2 to `MANY_TYPES`, "all" lists, or "none".
    """
    worlds: dict[str, dict[str, list[str]]] = {}
    for key in dict.fromkeys(key for key in keys if "/" in key):
        world, split, task_type = parts(key)
        kinds = worlds.setdefault(world, {}).setdefault(split, [])
        if task_type:
            kinds.append(task_type)
    columns: list[Column] = []
    for world, splits in worlds.items():
        shown = False
        for split in sorted(splits, key=_place):
            kinds = sorted(splits[split], key=lambda name: (list(TYPES).index(name) if name in TYPES else len(TYPES), name))
            wanted = types == "all" or (types == "first" and not shown and len(kinds) <= MANY_TYPES)
            columns += _of_split(world, split, kinds if wanted and len(kinds) > 1 else [])
            shown = shown or (wanted and len(kinds) > 1)
        if set(MEANS.get(world, ("",))) <= set(splits):
            columns.append(Column(key=world, group=world, name="mean"))
    return columns


def _of_split(world: str, split: str, kinds: Sequence[str]) -> list[Column]:
    if not kinds:
        return [Column(key=f"{world}/{split}", group=world, name=split)]
    group = f"{world} {split}"
    of_types = [Column(key=f"{world}/{split}//{kind}", group=group, name=TYPES.get(kind, kind)) for kind in kinds]
    return [*of_types, Column(key=f"{world}/{split}", group=group, name="all")]


def _place(split: str) -> int:
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)
