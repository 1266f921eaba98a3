"""The command ``dpepo envs``: list worlds or tasks, check a world of one's own, fetch games."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dpepo.cli.guard import guarded
from dpepo.cli.jobs import load_job
from dpepo.config import TaskSelection
from dpepo.envs import World, load_world, select_tasks, world_names, world_status
from dpepo.envs.check import check_world
from dpepo.envs.check_process import check_loading
from dpepo.errors import ConfigError, JobError, TaskError
from dpepo.recipes import load_config

CHECK, FETCH = "check", "fetch"
FETCHABLE = ("alfworld",)

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WORLD | check WORLD | fetch alfworld] [OPTION=VALUE]...",
        help="A world, to list its tasks; check and a world (or module:Class), to test that it keeps its promises; "
        "fetch alfworld, to download its official games. Options of the world follow.",
        show_default=False,
    ),
]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="With check: play this task; may be given several times.")]
Steps = Annotated[int, typer.Option("--steps", min=1, help="With check: random actions per task.")]
Root = Annotated[Path | None, typer.Option("--data-root", help="With fetch: the folder to fill.", show_default="ALFWORLD_DATA")]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")]


def envs(words: Words = None, task: Tasks = None, steps: Steps = 20, data_root: Root = None, debug: Debug = False) -> None:
    """List worlds and whether they work here, or the tasks of one; check a world; fetch games."""
    with guarded(debug=debug):
        names = [word for word in words or [] if "=" not in word]
        options = load_config(None, [f"env.options.{word}" for word in words or [] if "=" in word]).env.options
        match names:
            case []:
                _list_worlds()
            case ["check", name]:
                _check(name, options, tasks=task or [], steps=steps)
            case ["fetch", name]:
                _fetch(name, data_root)
            case [name] if name not in (CHECK, FETCH):
                _list_tasks(name, options)
            case _:
                raise ConfigError("Try: dpepo envs, dpepo envs WORLD, dpepo envs check WORLD, or dpepo envs fetch alfworld")


def _list_worlds() -> None:
    for name in world_names():
        status = world_status(name)
        typer.echo(f"{name:<16} {'ready' if status.ready else 'not ready':<10} {status.detail}")


def _list_tasks(name: str, options: dict[str, object]) -> None:
    counts, missing = {}, []
    with load_world(name, options) as world:
        for split in world.splits:
            try:
                counts[split] = Counter(task.name for task in world.tasks(split))
            except TaskError as error:  # its files are not on this machine; the other splits may be
                missing.append(f"{split}: {error}")
    widths = {split: max(8, len(split)) for split in counts}
    typer.echo(f"{'task':<60} " + " ".join(f"{split:>{widths[split]}}" for split in counts))
    for task in sorted(set().union(*counts.values())):
        typer.echo(f"{task:<60} " + " ".join(f"{count[task]:>{widths[split]}}" for split, count in counts.items()))
    for line in missing:
        typer.echo(line)


def _check(name: str, options: dict[str, object], *, tasks: list[str], steps: int) -> None:
    with load_world(name, options) as world:
        chosen = tasks or _one_of_each_type(world)
        problems = check_world(world, chosen, steps=steps)
    if not problems:  # a world that breaks here says nothing new elsewhere
        problems = check_loading(name, options, chosen, steps=steps)
    if problems:
        raise JobError("\n".join([f"{name} breaks {_counted(problems, 'promise')}:", *(f"  {one}" for one in problems)]))
    typer.echo(f"{name} keeps its promises ({_counted(chosen, 'task')}, at most {steps} actions in each): {', '.join(chosen)}")


def _counted(things: Sequence[str], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _one_of_each_type(world: World) -> list[str]:
    """A task of every type, from the first split that is here; three types at most, since some worlds are slow."""
    for split in world.splits:
        try:
            found = select_tasks(world, TaskSelection(split=split, limit=1), seed=0)
        except TaskError:
            continue
        return [task.id for task in found[:3]]
    raise TaskError("The world lists no task")


def _fetch(name: str, root: Path | None) -> None:
    if name not in FETCHABLE:
        raise ConfigError(f"There is nothing to fetch for {name!r}. Try: dpepo envs fetch alfworld")
    root = root or load_job("dpepo.envs.alfworld.index:find_root")()
    found = load_job("dpepo.envs.alfworld.fetch:fetch_games")(root, note=lambda text: typer.echo(text, err=True))
    typer.echo(f"Games in {root}: " + ", ".join(f"{split} {count}" for split, count in found.items()))
