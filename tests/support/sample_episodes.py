"""Episodes that look like real ones, for tests of the pages and for looking at them: a pretend lifespan task, really scored.

Run it to fill a folder to look at: ``python -m tests.support.sample_episodes FOLDER [number of groups]``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpepo.algorithms import load_algorithm
from dpepo.config import AlgorithmConfig, StepRewardConfig
from dpepo.rewards import score_episode
from dpepo.runs.advantages import episode_advantages, write_advantages
from dpepo.runs.episodes import write_episodes
from dpepo.runs.summary import CurvePoint, Fact, Reference, ResultRow, Summary, write_summary
from dpepo.types import (
    LOST,
    Completion,
    Episode,
    EpisodeGroup,
    FinishReason,
    Message,
    Observation,
    ParsedReply,
    Prompt,
    ReplyProblem,
    ScoredEpisode,
    Step,
    StopReason,
    Task,
    Turn,
    TurnAdvantages,
    WorldGuide,
)

LIFESPANS = {
    "giant tortoise egg": 150,
    "parrot egg": 60,
    "baby elephant": 65,
    "dove egg": 5,
    "baby beaver": 12,
    "crocodile egg": 70,
    "hedgehog": 7,
    "dragonfly egg": 1,
}
THINGS = ("axe", "fire pit", "fountain", "wood", "blue jay feather", "sky")
GOAL = (
    "Your task is to find the animal with the {wanted} life span. The animals are in the 'outside' location. "
    "Focus on the animal with the {wanted} life span."
)
GUIDE = WorldGuide(role="You are an agent in a small world of ten rooms.")
HALLWAY = "at hallway : art studio door , bedroom door , greenhouse door , kitchen door , living room door , picture"
HOSTILE = (
    "<script>window.injected = 1</script>",
    "</script><script>window.injected = 2</script>",
    '<img src=x onerror="window.injected = 3">',
    "{{ constructor.constructor('window.injected = 4')() }} ]]> --> <!--",
    "line\u2028separator\u2029and\u0000null\u001b[31m red\u202etxet desrever",
    "half a pair \ud800 and the other half \udc00, and a whole one \U0001f422",
    "&lt;b&gt; &amp; &#x3c;script&#x3e;",
)


def one_turn(
    actions: Mapping[int, str],
    answers: Mapping[int, Observation],
    *,
    thought: str = "Look in several places at once.",
    problems: Sequence[ReplyProblem] = (),
    raw: str | None = None,
    rng: random.Random | None = None,
) -> Turn:
    """A turn in which `actions` were asked for and those in `answers` were done."""
    rng = rng or random.Random(0)
    body = "".join(f"<env_{env}>{action}</env_{env}>" for env, action in actions.items())
    text = raw if raw is not None else f"<think>{thought}</think><parallel>{body}</parallel>"
    tokens = tuple(range(12 + 5 * len(actions)))
    prompt = (Message(role="user", content=f"turn 1 <env_1> {HALLWAY} </env_1> goal : {GOAL.format(wanted='longest')}"),)
    return Turn(
        prompt=Prompt(messages=prompt),
        completion=Completion(
            text=text,
            finish=FinishReason.STOP,
            prompt_token_ids=tuple(range(104)),
            token_ids=tokens,
            logprobs=tuple(-rng.random() for _ in tokens),
        ),
        reply=ParsedReply(
            thought=thought,
            actions=dict(actions),
            problems=tuple(problems),
            messages=tuple(f"The reply had a problem: {p.value}." for p in problems),
        ),
        steps=tuple(Step(env_id=env, action=actions[env], observation=answers[env]) for env in sorted(answers)),
        seconds=0.03 + rng.random() / 50,
    )


def lifespan_episode(
    variation: int, *, skill: float, num_envs: int, seed: int, sibling: int = 0, split: str = "train"
) -> Episode:
    """A pretend episode of three turns at most: go outside, then focus on an animal in each environment."""
    rng = random.Random(f"{variation}/{seed}/{sibling}/{num_envs}")
    kind = "longest" if variation % 2 else "shortest"
    shuffled = random.Random(variation).sample(sorted(LIFESPANS), 3)
    right = (max if kind == "longest" else min)(shuffled, key=LIFESPANS.__getitem__)
    outside = "at outside : " + " , ".join(sorted([*shuffled, *THINGS[:4]]))
    open_envs = set(range(1, num_envs + 1))
    there: set[int] = set()
    turns: list[Turn] = []
    stop = StopReason.MAX_TURNS
    while len(turns) < 3:
        actions, answers = {}, {}
        for env in sorted(open_envs):
            if env not in there:
                actions[env] = "teleport to outside" if rng.random() < 0.9 else "teleport to outsde"
                good = actions[env].endswith("outside")
                if good:
                    there.add(env)
                text = outside if good else f"unknown action | {HALLWAY}"
                answers[env] = Observation(
                    text=text,
                    valid=good,
                    admissible_actions=("teleport to LOC", "focus on OBJ"),
                    objects=tuple(outside[13:].split(" , ")),
                )
            elif rng.random() < 0.9:
                target = (
                    right
                    if rng.random() < skill
                    else rng.choice([*shuffled, *(["bald eagle egg"] if skill >= 0 else ["bald eagle egg"] * 9)])
                )
                known = target in shuffled
                won = target == right
                actions[env] = f"focus on {target}"
                answers[env] = Observation(
                    text=outside if known else f"unknown action | {outside}",
                    valid=known,
                    score=100.0 if won else -100.0 if known else 0.0,
                    success=won,
                    ended=known,
                )
        won = any(seen.success for seen in answers.values())
        thought = (
            f"find the {kind} life span . candidates : {' , '.join(shuffled)}"
            if there
            else "the animals are outside . go there in every environment"
        )
        turns.append(one_turn(actions, answers, thought=thought, rng=rng))
        open_envs -= {env for env, seen in answers.items() if seen.ended}
        if won or not open_envs:
            stop = StopReason.SUCCESS if won else StopReason.ALL_ENDED
            break
    task = Task(
        id=f"scienceworld/lifespan-{kind}-lived/{variation}", world="scienceworld", name=f"lifespan-{kind}-lived", split=split
    )
    initial = Observation(
        text=HALLWAY, admissible_actions=("teleport to LOC", "focus on OBJ"), objects=("picture", "kitchen door")
    )
    return Episode(
        task=task,
        goal=GOAL.format(wanted=kind),
        guide=GUIDE,
        num_envs=num_envs,
        max_turns=3,
        seed=seed,
        sibling=sibling,
        initial=initial,
        turns=tuple(turns),
        stop=stop,
    )


def hostile_episode() -> Episode:
    """An episode in which every text tries to break out of the page, or is unreasonably long."""
    turns = []
    for number, text in enumerate(HOSTILE):
        answer = Observation(
            text=text + "\n" + "x" * (9000 if number == 0 else 10), admissible_actions=(text, "look"), objects=(text,)
        )
        turns.append(
            one_turn(
                {1: text, 2: "look " * 40, 4: "inventory"},
                {1: answer, 2: answer},
                thought=text,
                problems=(ReplyProblem.STRAY_TEXT,),
                raw=text * 3,
            )
        )
    broke = Observation(text="", ended=True, failure=f"RuntimeError: {HOSTILE[1]}")
    turns.append(one_turn({1: "open door"}, {1: broke}, thought=""))
    turns.append(
        one_turn({}, {}, thought="", problems=(ReplyProblem.NO_ACTION, ReplyProblem.MISSING_PARALLEL), raw="I give up.")
    )
    task = Task(id=f"toy/{HOSTILE[1]}/0", world="toy", name=HOSTILE[0], split=HOSTILE[2])
    return Episode(
        task=task,
        goal=" ".join(HOSTILE),
        guide=GUIDE,
        num_envs=4,
        max_turns=25,
        seed=7,
        initial=Observation(text=HOSTILE[3]),
        turns=tuple(turns),
        stop=StopReason.MAX_TURNS,
    )


def wide_episode() -> Episode:
    """Sixteen environments of which five are used, over twelve turns."""
    turns = []
    for number in range(12):
        envs = [env for env in (1, 2, 5, 9, 16) if (env + number) % 3]
        answers = {
            env: Observation(
                text=f"You move to room {number}. The door closes behind you. " * (1 + env % 3), score=float(number)
            )
            for env in envs
        }
        turns.append(
            one_turn(
                {env: f"go to room {number % 4}" for env in envs}, answers, thought=f"Room {number} next, from different sides."
            )
        )
    task = Task(id="toy/rooms/3", world="toy", name="rooms", split="dev")
    return Episode(
        task=task,
        goal="Find the room with the red key.",
        guide=GUIDE,
        num_envs=16,
        max_turns=12,
        seed=1,
        initial=Observation(text="You are in a hall."),
        turns=tuple(turns),
        stop=StopReason.MAX_TURNS,
    )


def lost_episode() -> Episode:
    """An episode lost to a policy that could not answer, before its first turn."""
    whole = lifespan_episode(5, skill=0.5, num_envs=4, seed=3)
    return whole.model_copy(
        update={"turns": (), "stop": StopReason.POLICY_FAILED, "error": "TimeoutError: no answer within 60 s"}
    )


def scored(episode: Episode) -> ScoredEpisode:
    """The episode with its rewards, reference scale."""
    return score_episode(episode, StepRewardConfig())


def sample_group(task: int, *, skill: float, seed: int, num_siblings: int) -> EpisodeGroup:
    """Siblings of one task, scored."""
    siblings = [
        scored(lifespan_episode(task, skill=skill, num_envs=4, seed=seed, sibling=sibling)) for sibling in range(num_siblings)
    ]
    return EpisodeGroup(task=siblings[0].episode.task, siblings=tuple(siblings))


def credited(group: EpisodeGroup) -> TurnAdvantages:
    """The group with the advantages of `dpepo`."""
    return load_algorithm(AlgorithmConfig()).advantages(group)


def write_sample_run(run: Path, *, groups: int = 12, extras: bool = True) -> None:
    """Fill a run folder with episodes of every stage of a demo, and a summary."""
    folder = run / "episodes"
    for variation in range(6):
        write_episodes(folder, "synth", 0, [lifespan_episode(variation, skill=0.3, num_envs=k, seed=0) for k in (1, 2, 4)])
    for step in range(groups):
        skill = 0.05 + 0.6 * step / max(groups, 1)
        groups_of_step = [sample_group(task, skill=skill, seed=step, num_siblings=8) for task in range(step % 4, step % 4 + 2)]
        write_episodes(folder, "rl", step, [sibling for group in groups_of_step for sibling in group.siblings])
        write_advantages(run, "rl", step, episode_advantages([credited(group) for group in groups_of_step], algorithm="dpepo"))
    if extras:
        write_episodes(folder, "rl", groups, [scored(hostile_episode()), scored(wide_episode()), lost_episode()])
    write_summary(run, _play_evaluations(folder))


def _play_evaluations(folder: Path) -> Summary:
    table = []
    for label, stage, skill in (("after cold start", "eval-sft", -1.0), ("after RL", "eval-rl", 0.35)):
        for split in ("test", "train"):
            for num_envs in (4, 1):
                name = f"{stage}-{split}-k{num_envs}"
                played = [
                    lifespan_episode(v, skill=skill, num_envs=num_envs, seed=0, sibling=n, split=split)
                    for v in range(40, 60)
                    for n in range(4)
                ]
                write_episodes(folder, name, 0, played)
                counted = [episode for episode in played if episode.stop not in LOST]
                wins = sum(episode.success for episode in counted)
                table.append(
                    ResultRow(
                        label=label,
                        stage=name,
                        split=split,
                        num_envs=num_envs,
                        temperature=1.0,
                        max_turns=3,
                        successes=wins,
                        n=len(counted),
                    )
                )
                if num_envs == 1:
                    best = sum(any(episode.success for episode in played[at : at + 4]) for at in range(0, len(played), 4))
                    table.append(
                        ResultRow(
                            label=label,
                            split=split,
                            num_envs=1,
                            tries=4,
                            temperature=1.0,
                            max_turns=3,
                            successes=best,
                            n=len(played) // 4,
                        )
                    )
    rng = random.Random(0)
    curve = [
        CurvePoint(
            step=step,
            series="training episodes, K = 4",
            value=min(1, max(0, 0.4 + 0.4 * (1 - 2 ** (-step / 14)) + rng.uniform(-0.08, 0.08))),
            n=64,
        )
        for step in range(0, 60, 2)
    ] + [
        CurvePoint(step=step, series="held-out, K = 4", value=value, n=192)
        for step, value in ((0, 0.365), (20, 0.62), (40, 0.76), (59, 0.823))
    ]
    return Summary(
        title="A tiny agent learns to explore in parallel",
        subtitle="Cold start, then reinforcement learning with K = 4 copies of each task, on ScienceWorld and two CPU cores.",
        notes=(
            "The agent is a language model of 0.76 million parameters. At each turn it reads what happened in four copies "
            "of the same task, thinks once, and acts in as many copies as it likes. An episode counts "
            "as solved "
            "when any copy reaches the goal.",
            "Its base model has only seen a made-up search world: rooms, random names, things to find. Its teacher for the "
            "cold start is weak on purpose: it picks among the listed objects at random. Whatever lies above "
            "that was learned by trying.",
            "Held-out variations were played once, with the final checkpoint; nothing was picked afterwards.",
        ),
        curve=tuple(curve),
        table=tuple(table),
        references=(
            Reference(label="four blind picks among the animals", value=0.80, note="K = 4, independent"),
            Reference(label="one blind pick", value=0.333, note="K = 1"),
        ),
        facts=(
            Fact(name="Seed", value="0"),
            Fact(name="Time", value="11 min 20 s on 2 CPU cores"),
            Fact(name="Base model", value="builtin:search-base, 0.76 M parameters"),
            Fact(name="Tasks", value="lifespan-longest-lived, lifespan-shortest-lived; simplification easy"),
        ),
        commands=("dpepo view runs/demo", "dpepo eval recipes/scienceworld/eval.yaml model.path=runs/demo/checkpoints/latest"),
    )


if __name__ == "__main__":
    write_sample_run(Path(sys.argv[1]), groups=int(sys.argv[2]) if len(sys.argv) > 2 else 12)
