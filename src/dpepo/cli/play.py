"""The command ``dpepo play``: a person in the agent's place."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dpepo.cli.guard import guarded
from dpepo.config import Config
from dpepo.envs import LocalPool, load_world
from dpepo.errors import DpepoError
from dpepo.protocol import PromptBuilder
from dpepo.recipes import load_config
from dpepo.rollout import Session, latest_observations, play_settings
from dpepo.runs.rundir import RunFolder
from dpepo.types import Observation

HELP = """\
look around             in the environment whose number the prompt shows
2: look around          in environment 2, which you are then in
1: go north; 3: look    in several at once, one turn
all: inventory          in every environment still in play
/actions [2]            what can be done there
/prompt                 what an agent would read now
/think TEXT             the thought of your next turn
/undo                   take the last turn back
/save FOLDER            keep the episode as a demonstration
/help, /quit            this; leave (also Ctrl-D)"""
_NO_THOUGHT = "I go on."  # a reply without any thought is not well-formed
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ADDRESSED = re.compile(r"\s*(\d+|all)\s*:\s*(.*)", re.DOTALL)
_LANE = 44  # columns that a lane needs to be read beside another

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="A task id, e.g. scienceworld/boil/0, or a game.tw-pddl.")]
Settings = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. env.options.observation=compact.")
]
NumEnvs = Annotated[int, typer.Option("--num-envs", min=1, max=99, help="K, copies of the task.")]
Save = Annotated[Path | None, typer.Option("--save", help="Keep the episode in this folder when leaving.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")]


def play(task: TaskId, settings: Settings = None, num_envs: NumEnvs = 2, save: Save = None, debug: Debug = False) -> None:
    """Play copies of a task yourself; keep what you played as a demonstration."""
    with guarded(debug=debug):
        world_name = "alfworld" if task.endswith("game.tw-pddl") else task.partition("/")[0]
        task_id = f"alfworld/{task}" if task.endswith("game.tw-pddl") else task
        chosen = [f"env.world={world_name}", f"env.num_envs={num_envs}", "rollout.max_turns=1000", *(settings or [])]
        config = load_config(None, chosen)
        with load_world(config.env.world, config.env.options) as world, LocalPool(world) as pool:
            found, prompts = world.task(task_id), PromptBuilder(config.prompt)
            with Session(found, pool=pool, settings=play_settings(config), prompts=prompts) as session:
                _Table(session, prompts=prompts, config=config, console=Console(highlight=False)).play(save=save)


class _Table:
    """What a person sees and types."""

    def __init__(self, session: Session, *, prompts: PromptBuilder, config: Config, console: Console) -> None:
        self._session, self._prompts, self._config, self._console = session, prompts, config, console
        self._current = 1
        self._thought = ""
        self._saved: Path | None = None

    def play(self, *, save: Path | None) -> None:
        """Read lines until the person leaves."""
        view = self._session.state.view
        self._console.print(Text(_plain(f"Task: {view.goal}"), style="bold"))
        self._lanes(latest_observations(view))
        self._say("Type an action, or /help.")
        while (line := self._asked()) is not None and line.strip() not in ("/quit", "/exit"):
            try:
                self._do(line.strip())
            except (ValueError, DpepoError) as error:
                self._say(str(error))
        if save is not None and self._saved is None:
            self._save(save)

    def _asked(self) -> str | None:
        try:
            if sys.stdin.isatty():
                return input(f"[{self._current}]> ")
            line = sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            self._say("")
            return None
        return line if line else None

    def _do(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "":
                return
            case "/help" | "?":
                self._say(HELP)
            case "/actions":
                self._actions(int(rest) if rest.strip().isdigit() else self._current)
            case "/prompt":
                for message in self._prompts.build(self._session.state.view).messages:
                    self._say(f"--- {message.role}\n{message.content}")
            case "/think":
                self._thought = rest.strip()
            case "/undo":
                self._session.undo()
                self._say("The last turn is taken back.")
                self._lanes(latest_observations(self._session.state.view))
            case "/save":
                self._save(Path(rest.strip() or "runs/played"))
            case _ if word.startswith("/"):
                self._say(f"There is no {word}. Try: /help")
            case _:
                self._act(line)

    def _act(self, line: str) -> None:
        actions = self._read(line)
        if self._session.finished:
            raise ValueError("The episode has ended. /undo takes the last turn back, /save FOLDER keeps it, /quit leaves.")
        over = set(actions) & set(self._session.state.ended_envs())
        if over:
            raise ValueError(f"Environment {min(over)} has ended and takes no more actions.")
        seen = self._session.act(actions, thought=self._thought or _NO_THOUGHT)
        self._thought = ""
        self._lanes(seen)
        if self._session.finished:
            solved = "Solved" if self._session.episode().success else "Over, not solved"
            self._say(
                f"{solved} in {len(self._session.state.turns)} turns. /save FOLDER keeps it, /undo goes back, /quit leaves."
            )

    def _read(self, line: str) -> dict[int, str]:
        """Actions by environment; the last one addressed is the one the person is in."""
        actions: dict[int, str] = {}
        for part in line.split(";"):
            match = _ADDRESSED.fullmatch(part)
            if match is None:
                actions[self._current] = part.strip()
            elif match[1] == "all":
                live = set(latest_observations(self._session.state.view)) - set(self._session.state.ended_envs())
                actions.update(dict.fromkeys(sorted(live), match[2].strip()))
            else:
                self._current = self._known(int(match[1]))
                actions[self._current] = match[2].strip()
        if not all(actions.values()):
            raise ValueError("An action is missing. Try: 1: look; 2: inventory")
        return actions

    def _known(self, env_id: int) -> int:
        most = self._config.env.num_envs
        if not 1 <= env_id <= most:
            raise ValueError(f"There is no environment {env_id}: they are numbered 1 to {most}.")
        return env_id

    def _actions(self, env_id: int) -> None:
        view = self._session.state.view
        seen = latest_observations(view)[self._known(env_id)]
        offered = seen.admissible_actions or tuple(form.template for form in view.guide.action_templates)
        self._say(f"Environment {env_id}: " + (", ".join(offered) or "the world names no actions"))
        if seen.objects:
            self._say("Objects: " + ", ".join(seen.objects))

    def _save(self, folder: Path) -> None:
        episode = self._session.episode()
        if not episode.turns:
            self._say("Nothing was played, so nothing is kept.")
            return
        run = RunFolder.create(folder, config=self._config, job="synth")
        try:
            run.write_episodes("synth", episode.num_envs, [episode])
            run.finish({"played": 1, "kept": 1, "succeeded": int(episode.success)})
        finally:
            run.close()
        self._saved = folder
        kind = "a solved episode" if episode.success else "an episode that is not solved"
        self._say(f"Kept {kind} of {len(episode.turns)} turns in {folder}. Learn from it: sft.demonstrations={folder}")

    def _lanes(self, shown: Mapping[int, Observation]) -> None:
        panels = [self._lane(env_id, shown[env_id]) for env_id in sorted(shown)]
        if len(panels) > 1 and self._console.width >= _LANE * len(panels):
            grid = Table.grid(expand=True)
            for _ in panels:
                grid.add_column(ratio=1)
            grid.add_row(*panels)
            self._console.print(grid)
        else:
            for panel in panels:
                self._console.print(panel)

    def _lane(self, env_id: int, seen: Observation) -> Panel:
        state = " solved" if seen.success else " ended" if seen.ended else " not understood" if not seen.valid else ""
        score = f", score {seen.score:g}" if seen.score else ""
        return Panel(Text(_plain(seen.text.strip())), title=f"Environment {env_id}{state}{score}", title_align="left")

    def _say(self, text: str) -> None:
        self._console.print(Text(_plain(text)))


def _plain(text: str) -> str:
    """Text of a world without the control characters that would steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
