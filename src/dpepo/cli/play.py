"""The command ``dpepo play``: a person in the agent's place. docs/play.md describes it for users."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from dpepo.cli.guard import guarded, terminate_like_interrupt
from dpepo.cli.lanes import plain, show_lanes
from dpepo.cli.played import Keeper
from dpepo.config import Config, Form
from dpepo.envs import LocalPool, load_world
from dpepo.errors import ConfigError, DpepoError, JobError, RunFolderError
from dpepo.protocol import PromptBuilder
from dpepo.recipes import load_config
from dpepo.rewards import score_episode
from dpepo.rollout import Session, latest_observations, play_settings

HELP = """\
look around             in the environment whose number the prompt shows
2: look around          in environment 2, which you are then in
1: go north; 3: look    in several at once, one turn
all: inventory          in every environment still in play
/actions [2] [WORD]     what can be done there, and with which objects; only lines with WORD
/show                   the environments as they are now
/prompt                 what an agent would read now
/think TEXT             the thought of your next turn
/reward                 the step reward of the last turn, with its counts
/undo                   take the last turn back
/save FOLDER            keep the episode as a demonstration
? or /help, /quit       this; leave (also Ctrl-D)"""
_NO_THOUGHT = "I go on."  # a reply without any thought is not well-formed
_ADDRESSED = re.compile(r"\s*(\d+|all)\s*:\s*(.*)", re.DOTALL)

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="A task id, e.g. scienceworld/boil/0, or a game.tw-pddl.")]
Settings = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. env.options.observation=compact.")
]
NumEnvs = Annotated[int, typer.Option("--num-envs", min=1, max=99, help="K, copies of the task.")]
Save = Annotated[Path | None, typer.Option("--save", help="Keep the episode in this folder when leaving.")]
Think = Annotated[bool, typer.Option("--think", help="Ask for a thought at every turn.")]
Reward = Annotated[bool, typer.Option("--reward", help="Show the step reward of every turn.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something fails.")]


def play(
    task: TaskId,
    settings: Settings = None,
    num_envs: NumEnvs = 2,
    save: Save = None,
    think: Think = False,
    reward: Reward = False,
    debug: Debug = False,
) -> None:
    """Play copies of a task yourself; keep what you played as a demonstration."""
    with guarded(debug=debug):
        task_id = f"alfworld/{task}" if task.endswith("game.tw-pddl") else task
        chosen = [f"env.world={task_id.partition('/')[0]}", f"env.num_envs={num_envs}", "rollout.max_turns=1000"]
        config = load_config(None, [*chosen, "synth.teacher=person", "synth.keep=all", *(settings or [])])
        if config.prompt.form is Form.SEQUENTIAL and config.env.num_envs > 1:
            raise ConfigError("prompt.form sequential needs one environment. Try: --num-envs 1")
        with load_world(config.env.world, config.env.options) as world, LocalPool(world) as pool:
            found, prompts = world.task(task_id), PromptBuilder(config.prompt)
            with Session(found, pool=pool, settings=play_settings(config), prompts=prompts) as session:
                keeper = Keeper(config, world=pool.metadata())
                _Table(session, prompts=prompts, config=config, keeper=keeper, think=think, reward=reward).play(save=save)


class _Table:
    """What a person sees and types."""

    def __init__(
        self, session: Session, *, prompts: PromptBuilder, config: Config, keeper: Keeper, think: bool, reward: bool
    ) -> None:
        self._session, self._prompts, self._config, self._keeper = session, prompts, config, keeper
        self._always_think, self._always_reward = think, reward
        self._console = Console(highlight=False)
        self._current = 1
        self._thought = ""

    def play(self, *, save: Path | None) -> None:
        """Read lines until the person leaves, by a word, the end of the input, or an interruption."""
        state = self._session.state
        if state.start.initial.failure:
            raise JobError(f"{state.request.task.id} could not be started: {state.start.initial.failure}")
        self._console.print(Text(plain(f"Task: {state.view.goal}"), style="bold"))
        self._show()
        self._say("Type an action, or ? for help.")
        try:
            with terminate_like_interrupt():
                while (line := self._asked(f"[{self._current}]> ")) is not None and line not in ("/quit", "/exit"):
                    self._try(line)
        except KeyboardInterrupt:
            self._say("\nInterrupted.")
        self._leave(save)

    def _try(self, line: str) -> None:
        try:
            self._do(line)
        except (ValueError, DpepoError) as error:
            self._say(str(error))

    def _asked(self, mark: str) -> str | None:
        """A line, stripped; None at the end of the input. What comes through a pipe is shown, as a terminal would."""
        if sys.stdin.isatty():
            import_module("readline")  # gives `input` a history and cursor keys
            try:
                return input(mark).strip()
            except EOFError:
                self._say("")
                return None
        line = sys.stdin.readline()
        if line:
            self._say(f"{mark}{line.strip()}")
        return line.strip() if line else None

    def _do(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "":
                return
            case "/help" | "?":
                self._say(HELP)
            case "/actions":
                self._actions(rest.split())
            case "/show":
                self._show()
            case "/prompt":
                for message in self._prompts.build(self._session.state.view).messages:
                    self._say(f"--- {message.role}\n{message.content}")
            case "/think":
                self._thought = rest.strip()
            case "/reward":
                self._reward()
            case "/undo":
                self._session.undo()
                self._say("The last turn is taken back.")
                self._show()
            case "/save":
                if not rest.strip():
                    raise ValueError("Where? Try: /save runs/played")
                self._save(Path(rest.strip()))
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
        if self._always_think and not self._thought:
            self._thought = self._asked("thought> ") or ""
        seen = self._session.act(actions, thought=self._thought or _NO_THOUGHT)
        self._thought = ""
        show_lanes(seen, console=self._console)
        if self._always_reward:
            self._reward()
        if self._session.finished:
            solved = "Solved" if self._session.episode().success else "Over, not solved"
            self._say(
                f"{solved} in {len(self._session.state.turns)} turns. /save FOLDER keeps it, /undo goes back, /quit leaves."
            )

    def _read(self, line: str) -> dict[int, str]:
        """Actions by environment; the last one addressed is the one the person is in, once the whole line is understood."""
        actions: dict[int, str] = {}
        current = self._current
        for part in line.split(";"):
            match = _ADDRESSED.fullmatch(part)
            if match is not None and match[1] == "all":
                ended = self._session.state.ended_envs()
                targets = [env_id for env_id in latest_observations(self._session.state.view) if env_id not in ended]
            else:
                current = self._known(match[1]) if match else current
                targets = [current]
            for env_id in targets:
                if env_id in actions:
                    raise ValueError(f"Environment {env_id} can do one action in a turn.")
                actions[env_id] = (match[2] if match else part).strip()
        if not all(actions.values()):
            raise ValueError("An action is missing. Try: 1: look; 2: inventory")
        self._current = current
        return actions

    def _known(self, env_id: str) -> int:
        most = self._config.env.num_envs
        if not 1 <= int(env_id) <= most:
            raise ValueError(f"There is no environment {env_id}: they are numbered 1 to {most}.")
        return int(env_id)

    def _actions(self, words: list[str]) -> None:
        env_id = self._known(words.pop(0)) if words and words[0].isdecimal() else self._current
        view = self._session.state.view
        seen = latest_observations(view)[env_id]
        offered = seen.admissible_actions or tuple(form.template for form in view.guide.action_templates)
        found = [action for action in offered if " ".join(words) in action]
        self._say(f"Environment {env_id}: " + (", ".join(found) or "no actions are named"))
        objects = [name for name in seen.objects if " ".join(words) in name]
        if objects:
            self._say("Objects: " + ", ".join(objects))

    def _reward(self) -> None:
        episode = self._session.episode()
        if not episode.turns:
            raise ValueError("Nothing was played yet.")
        reward = score_episode(episode, self._config.step_reward).step_rewards[-1]
        repeats = [f"{reward.c_width} the same as in another environment"] if reward.c_width else []
        for what, counts in (
            ("done before in", reward.c_depth),
            ("transition seen before in", reward.m_depth),
            ("transition seen elsewhere from", reward.m_width),
        ):
            repeats += [f"{what} environment {env_id}: {count}" for env_id, count in sorted(counts.items()) if count]
        said = "; ".join(repeats) or "nothing repeated"
        self._say(f"Step reward {reward.value:.3f} ({reward.scale}), actions {reward.num_actions}: {said}")

    def _save(self, folder: Path) -> None:
        episode = self._session.episode()
        if not episode.turns:
            self._say("Nothing was played, so nothing is kept.")
            return
        total = self._keeper.keep(episode, folder)
        kind = "a solved episode" if episode.success else "an episode that is not solved"
        self._say(
            f"Kept {kind} of {len(episode.turns)} turns in {folder}, {total} there now. "
            f"Learn from it: dpepo sft sft.demonstrations={folder}"
        )

    def _leave(self, save: Path | None) -> None:
        episode = self._session.episode()
        if not episode.turns or self._keeper.has(episode):
            return
        if save is None:
            self._say(f"{len(episode.turns)} turns were not kept. Next time: /save FOLDER, or --save FOLDER")
            return
        try:
            self._save(save)
        except RunFolderError as error:  # what a person played is not lost over the name of a folder
            self._say(str(error))
            others = (save.with_name(f"{save.name}-{number}") for number in count(2))
            self._save(next(folder for folder in others if not folder.exists()))

    def _show(self) -> None:
        show_lanes(latest_observations(self._session.state.view), console=self._console)

    def _say(self, text: str) -> None:
        self._console.print(Text(plain(text)), soft_wrap=True)
