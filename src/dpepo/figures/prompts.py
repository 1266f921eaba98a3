"""How long prompts are under compact and under full memory, for the same recorded episodes (Figure 10 of arXiv 2604.24320).

The prompts are built again by the one `PromptBuilder`, so they are what the agent would have read at these turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median

from dpepo.config import Memory, ModelConfig, PromptConfig
from dpepo.figures.options import Options
from dpepo.figures.picture import Amounts, Axis, Histogram, Line, Lines, NothingToShow, Picture, Point, caption_of
from dpepo.figures.sources import Material
from dpepo.protocol import PromptBuilder, encode_prompt
from dpepo.types import Episode, EpisodeView, Prompt

Measure = Callable[[Prompt], int]
_NAMES = {Memory.COMPACT: "compact memory", Memory.FULL: "full memory", Memory.WINDOW: "window of {} turns"}


def make(material: Material, options: Options) -> Picture:
    """The distribution on the left, the growth over turns on the right.

    Raises:
        NothingToShow: No episodes.
        ConfigError: The tokenizer or the templates cannot be loaded.
    """
    methods = material.in_way(options.way)
    played = next(iter(methods.values()))[0]
    all_episodes = [episode for repeats in methods.values() for one in repeats for episode in one.episodes()]
    step = max(1, -(-len(all_episodes) // max(1, options.episodes)))
    episodes = [episode for episode in all_episodes[::step] if episode.turns]
    if not episodes:
        raise NothingToShow("no episode has a turn")
    own = played.run.config.prompt
    config = own.model_copy(update={"templates": options.templates}) if options.templates else own
    measure, unit = (_tokens(options.tokenizer), "tokens") if options.tokenizer else (_words, "words")
    lengths = {
        _NAMES[memory].format(config.window): prompt_lengths(
            episodes, config.model_copy(update={"memory": memory}), measure=measure
        )
        for memory in dict.fromkeys((Memory.COMPACT, Memory.FULL, own.memory))
    }
    amounts = tuple(
        Amounts(name, tuple(length for turn in turns for length in turn), colour)
        for colour, (name, turns) in enumerate(lengths.items())
    )
    return Picture(
        kind="prompts",
        title="Prompt length under compact and full memory",
        caption=caption_of(
            f"{sum(len(one.turns) for one in episodes)} turns of {len(episodes)} episodes ({played.tasks}; "
            f"{len(methods)} method{'s' if len(methods) > 1 else ''}), played under {_NAMES[own.memory].format(own.window)}; "
            f"prompts built again with the templates {config.templates!r}.",
            f"Lengths in tokens of {options.tokenizer}." if options.tokenizer else "Lengths in words (no tokenizer was named).",
            _same(amounts),
            material.source,
        ),
        panels=(
            Histogram(x=Axis(label=f"prompt length in {unit}", from_zero=True), amounts=amounts),
            Lines(
                x=Axis(label="turn of the episode", integer=True),
                y=Axis(label=f"mean prompt length in {unit}", from_zero=True),
                lines=tuple(
                    Line(name, tuple(Point(turn + 1, fmean(some)) for turn, some in enumerate(turns) if some), colour)
                    for colour, (name, turns) in enumerate(lengths.items())
                ),
            ),
        ),
        notes=material.others(played.way),
    )


def prompt_lengths(episodes: Sequence[Episode], config: PromptConfig, *, measure: Measure) -> list[list[int]]:
    """Lengths of the prompts that these episodes would have had, by turn.

    Args:
        episodes: At least one with a turn.
        config: Templates and memory.
        measure: What length is.
    """
    builder = PromptBuilder(config)
    by_turn: list[list[int]] = [[] for _ in range(max(len(episode.turns) for episode in episodes))]
    for episode in episodes:
        for number in range(len(episode.turns)):
            by_turn[number].append(measure(builder.build(_view(episode, number))))
    return by_turn


def _view(episode: Episode, turns: int) -> EpisodeView:
    return EpisodeView(
        goal=episode.goal,
        guide=episode.guide,
        initial=episode.initial,
        turns=tuple(turn.steps for turn in episode.turns[:turns]),
        num_envs=episode.num_envs,
        task_id=episode.task.id,
    )


def _words(prompt: Prompt) -> int:
    return sum(len(message.content.split()) for message in prompt.messages)


def _tokens(path: str) -> Measure:
    from dpepo.policies.models import load_tokenizer

    tokenizer = load_tokenizer(ModelConfig(path=path))
    return lambda prompt: len(encode_prompt(tokenizer, prompt))


def _same(amounts: Sequence[Amounts]) -> str:
    compact, full = amounts[:2]
    if compact.values == full.values:
        return "These templates show no history, so memory changes nothing (another set: --templates default)."
    return f"Medians: {median(compact.values):g} and {median(full.values):g}."
