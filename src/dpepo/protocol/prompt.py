"""From an episode to the prompt of its next turn, through a set of Jinja2 templates. Pure once the templates are loaded.

`build` looks at one `EpisodeView` and nothing else, so a prompt can hold nothing of other tasks. What templates may use is
the fields of `_context`, described in docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2

from dpepo.actions import action_key
from dpepo.config import Form, Memory, PromptConfig
from dpepo.errors import ConfigError, did_you_mean
from dpepo.protocol.memory import EnvironmentMemory, PastStep, recall
from dpepo.types import ActionTemplate, EpisodeView, Message, Observation, Prompt, Step, WorldGuide

__all__ = ["BUILTIN_TEMPLATES", "PromptBuilder"]

BUILTIN_TEMPLATES = ("compact", "default")
"""Template sets that ship with dpepo; `default` has a second folder, `sequential`, for the sequential form."""

_FOLDER = Path(__file__).parent / "templates"
_FILES = ("system.j2", "first_turn.j2", "later_turn.j2")


class ShownObservation:
    """An observation as a template sees it: `text`, `actions` and `objects`."""

    def __init__(self, observation: Observation, *, left_out: frozenset[str]) -> None:
        self.text = observation.text.strip()
        self.objects = observation.objects
        self._admissible = observation.admissible_actions
        self._left_out = left_out

    @cached_property  # most observations of a long history never list their actions
    def actions(self) -> tuple[str, ...]:
        """Admissible actions, without those of `_never_listed`."""
        return tuple(action for action in self._admissible if action_key(action) not in self._left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """One earlier action as a template sees it."""

    number: int  # k, from 1 within its environment
    action: str
    observation: ShownObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEnvironment:
    """One environment as a template sees it."""

    env_id: int
    history: tuple[ShownStep, ...]  # remembered steps before the last turn
    num_omitted: int  # older steps left out by the memory window
    latest: ShownStep | None  # the newest step; None when never acted in
    current: bool  # acted in during the last turn in which anything was done
    ended: bool
    broken: bool


class PromptBuilder:
    """Builds prompts in the words of one template set."""

    def __init__(self, config: PromptConfig) -> None:
        """Load the templates and try each of them once.

        Raises:
            ConfigError: The set does not exist, a file of it is missing, or one cannot be rendered; file and line are named.
        """
        self._config = config
        folder = _template_folder(config)
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader([folder, _FOLDER / "shared"]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,  # plain text, not HTML
        )
        environment.filters["ids"] = _join_ids
        environment.filters["squeeze"] = _squeeze
        self._system, self._first, self._later = (_load(environment, folder, name) for name in _FILES)
        for view in _trial_views():
            self.build(view)

    def build(self, view: EpisodeView) -> Prompt:
        """The prompt of the turn that follows.

        Args:
            view: The episode so far; `turns` empty before the first turn.

        Raises:
            ConfigError: A template uses a name that does not exist, or leaves the user message empty.
        """
        context = _context(view, self._config)
        system = _render(self._system, context)
        template = self._later if view.turns else self._first
        user = _render(template, context)
        if not user:
            raise ConfigError(
                f"the template {template.filename} rendered an empty user message. Try: templates=default as a model"
            )
        messages = (Message(role="user", content=user),)
        return Prompt(messages=(Message(role="system", content=system), *messages) if system else messages)


def _template_folder(config: PromptConfig) -> Path:
    """Where the files of the chosen set lie."""
    name = config.templates
    if name in BUILTIN_TEMPLATES:
        return _FOLDER / ("sequential" if name == "default" and config.form is Form.SEQUENTIAL else name)
    folder = Path(name)
    if not folder.is_dir():
        raise ConfigError(
            f"prompt.templates: {name!r} is neither a built-in set nor a folder. {did_you_mean(name, BUILTIN_TEMPLATES)}"
        )
    return folder


def _load(environment: jinja2.Environment, folder: Path, name: str) -> jinja2.Template:
    try:
        return environment.get_template(name)
    except jinja2.TemplateNotFound as error:
        missing = folder / (error.name or name)
        raise ConfigError(f"prompt.templates: {missing} does not exist; a set needs {', '.join(_FILES)}") from error
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(
            f"prompt.templates: {error.filename or folder / name}, line {error.lineno}: {error.message}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt.templates: {folder / name} cannot be read: {error}") from error


def _render(template: jinja2.Template, context: dict[str, Any]) -> str:
    """The text, stripped. Whatever a template does wrong is a `ConfigError` with file and line."""
    try:
        return template.render(context).strip()
    except Exception as error:  # a template can raise anything, e.g. ZeroDivisionError; it is the user's file that is wrong
        raise ConfigError(f"prompt.templates: {_place(template, error)}: {error}") from error


def _place(template: jinja2.Template, error: Exception) -> str:
    """File and line of the innermost template line on the error's traceback."""
    if isinstance(error, jinja2.TemplateSyntaxError):  # in an included file
        return f"{error.filename or error.name}, line {error.lineno}"
    place = str(template.filename)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(".j2"):
            place = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _context(view: EpisodeView, config: PromptConfig) -> dict[str, Any]:
    """Everything a template may use; each is described in docs/protocol.md."""
    recollection = recall(view, memory=config.memory, window=config.window)
    memories = {memory.env_id: memory for memory in recollection.environments}
    # without a limit, the next unused copy stands for all that could be opened
    ids = range(1, view.num_envs + 1) if view.num_envs is not None else range(1, max(memories, default=0) + 2)
    left_out = _never_listed(view.guide)
    environments = tuple(_shown_environment(env_id, memories.get(env_id), left_out) for env_id in ids)
    return {
        "role": view.guide.role,
        "action_templates": view.guide.action_templates,
        "goal": view.goal,
        "num_envs": view.num_envs,
        "turn": len(view.turns) + 1,
        "initial": ShownObservation(view.initial, left_out=left_out),
        "environments": environments,
        "unused": tuple(env.env_id for env in environments if env.latest is None),
        "ended": tuple(env.env_id for env in environments if env.ended and not env.broken),
        "broken": tuple(env.env_id for env in environments if env.broken),
        "last_turn_idle": recollection.last_turn_idle,
        "show_past_actions": config.memory is Memory.FULL,
    }


def _shown_environment(env_id: int, memory: EnvironmentMemory | None, left_out: frozenset[str]) -> ShownEnvironment:
    if memory is None:
        return ShownEnvironment(env_id=env_id, history=(), num_omitted=0, latest=None, current=False, ended=False, broken=False)
    return ShownEnvironment(
        env_id=env_id,
        history=tuple(_shown_step(step, left_out) for step in memory.history),
        num_omitted=memory.num_omitted,
        latest=_shown_step(memory.latest, left_out),
        current=memory.latest_is_current,
        ended=memory.ended,
        broken=memory.broken,
    )


def _shown_step(step: PastStep, left_out: frozenset[str]) -> ShownStep:
    return ShownStep(number=step.number, action=step.action, observation=ShownObservation(step.observation, left_out=left_out))


def _never_listed(guide: WorldGuide) -> frozenset[str]:
    """Keys of the actions that no list repeats: the hidden ones, and the forms that the system message explains."""
    return frozenset(map(action_key, (*guide.hidden_actions, *(form.template for form in guide.action_templates))))


def _join_ids(ids: Sequence[int]) -> str:
    """Environment numbers as words: "1", "1 and 3", "1, 2 and 3"."""
    words = [str(env_id) for env_id in ids]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _squeeze(text: str) -> str:
    """Every run of white space as one space, for tokenizers that know words only."""
    return " ".join(text.split())


def _trial_views() -> tuple[EpisodeView, ...]:
    """Small episodes that reach every part of a template, so that a mistake shows before a job starts."""
    start = Observation(text="start", admissible_actions=("look",), objects=("door",))
    ended = Observation(text="ended", ended=True)
    broken = Observation(text="", ended=True, failure="Error: broken")
    first = tuple(Step(env_id=env_id, action="look", observation=start) for env_id in (1, 2))
    second = tuple(
        Step(env_id=env_id, action="look", observation=observation)
        for env_id, observation in ((1, start), (2, start), (3, ended), (4, broken))
    )
    guide = WorldGuide(role="role", action_templates=(ActionTemplate(template="open OBJ", help="open it"),))
    histories: tuple[tuple[tuple[Step, ...], ...], ...] = ((), ((),), (first,), (first, second), (first, second, ()))
    return tuple(
        EpisodeView(goal="goal", guide=guide, initial=start, turns=turns, num_envs=num_envs)
        for turns in histories
        for num_envs in (5, None)
    )
