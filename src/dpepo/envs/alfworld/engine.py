"""ALFWorld's rules, played without a planner: a game is loaded once, and all its copies are positions in one graph of states.

The rules are those of ``alfred.pddl`` and the sentences those of ``alfred.twl2`` (releases 2.1.1 and 2.1.2; the two differ in
wording only). Tests and ``benchmarks/environments.py`` compare every observation with the package's own player, byte by byte;
docs/decisions/0007 says why there is an engine of our own.

A state is immutable and knows the states its commands lead to, so that copies and siblings share all work. Facts that no rule
or sentence looks at (``checked``, ``isOn``) are left out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dpepo.envs.alfworld.games import Game, Wording
from dpepo.envs.alfworld.goal import Goal
from dpepo.envs.alfworld.names import readable_names
from dpepo.envs.alfworld.pddl import Fact, parse_problem
from dpepo.envs.alfworld.states import Action, State, changed, check_playable, code_after, fingerprint, initial_state

NOTHING_HAPPENS = "Nothing happens."
INTRO = "-= Welcome to TextWorld, ALFRED! =-"
_BLADES = ("knifetype", "butterknifetype")
_QUALITIES = (
    "openable",
    "pickupable",
    "toggleable",
    "sliceable",
    "cleanable",
    "heatable",
    "coolable",
    "isreceptacleobject",
)
_FORMS = {
    "look": "look",
    "inventory": "inventory",
    "help": "help",
    "go": "go to {}",
    "open": "open {}",
    "close": "close {}",
    "take": "take {} from {}",
    "put": "put {} in/on {}",
    "clean": "clean {} with {}",
    "heat": "heat {} with {}",
    "cool": "cool {} with {}",
    "use": "use {}",
    "slice": "slice {} with {}",
    "examine": "examine {}",
    "examine receptacle": "examine {}",
}
HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


@dataclass
class Node:
    """A state that was reached, with what is known about it."""

    state: State
    code: int  # 64-bit fingerprint, the same in every process
    won: bool
    admissible: tuple[str, ...] = ()  # filled on first use
    edges: dict[str, tuple[Node, str]] = field(default_factory=dict)  # command to next node and sentence


class LoadedGame:
    """A game ready to be played by any number of copies at once, in one thread."""

    def __init__(self, game: Game, *, wording: Wording | None = None, max_states: int = 50_000) -> None:
        """Load a game.

        Args:
            game: The game.
            wording: Play it in another release's wording; None: that of its file.
            max_states: States remembered; beyond it memory starts afresh, which costs time and changes nothing else.

        Raises:
            PddlError: Its problem cannot be read, or holds what the rules here would play otherwise than the package.
        """
        self.wording = wording or game.wording
        self.goal = game.sentence
        problem = parse_problem(game.problem)
        check_playable(problem)
        facts = problem.facts
        self.problem = problem
        self.names = readable_names(name for held in facts.values() for fact in held for name in fact)
        self.types: dict[str, str] = {name: kind for name, kind in facts.get("objecttype", ())}
        self.receptacle_types: dict[str, str] = {name: kind for name, kind in facts.get("receptacletype", ())}
        located = sorted(facts.get("receptacleatlocation", set()))
        self.places: dict[str, str] = {receptacle: place for receptacle, place in located}  # in the order of sentences
        self._here: dict[str, list[str]] = {}
        for receptacle, place in self.places.items():
            self._here.setdefault(place, []).append(receptacle)
        self._has: dict[str, set[str]] = {name: {fact[0] for fact in facts.get(name, ())} for name in _QUALITIES}
        self._fits: set[Fact] = facts.get("cancontain", set())
        self._goal = Goal(problem)
        self._max_states = max_states
        self._commands: dict[Action, str] = {}
        self._actions: dict[str, Action] = {}
        self._nodes: dict[State, Node] = {}
        state = initial_state(problem)
        self.start = self._nodes[state] = Node(state=state, code=fingerprint(state), won=self._goal.holds(state))

    @property
    def intro(self) -> str:
        """The first observation."""
        start = self.start.state
        seen = (
            self._facing(start) or f"You are in the middle of a room. Looking quickly around you, you see {self._all_places()}."
        )
        return f"{INTRO}\n\n{seen}\n\nYour task is to: {self.goal}"

    def step(self, node: Node, command: str) -> tuple[Node, str, bool]:
        """Do a command.

        Returns:
            The next state, the sentence, and whether the command was understood.
        """
        command = command.strip()
        known = node.edges.get(command)
        if known is not None:
            return *known, True
        if command not in self.admissible(node):
            return node, NOTHING_HAPPENS, False
        after, text = self._do(node.state, self._actions[command])
        node.edges[command] = (self._node(after, before=node), text)
        return *node.edges[command], True

    def admissible(self, node: Node) -> tuple[str, ...]:
        """All commands that are understood in a state, sorted."""
        if not node.admissible:
            node.admissible = tuple(sorted({self.command(action) for action in self._possible(node.state)}))
        return node.admissible

    def command(self, action: Action) -> str:
        """An action, such as ("take", thing, receptacle), in the words of the game's wording; it need not be possible now."""
        command = self._commands.get(action)
        if command is None:
            verb, *things = action
            form = "move {} to {}" if verb == "put" and self.wording is Wording.V2_1_2 else _FORMS[verb]
            command = self._commands[action] = form.format(*(self.names[thing] for thing in things))
            self._actions[command] = action
        return command

    @property
    def num_states(self) -> int:
        """States remembered."""
        return len(self._nodes)

    def forget(self) -> None:
        """Forget all states but the first; copies in play keep the one they stand on."""
        for node in self._nodes.values():
            node.edges.clear()  # whoever holds a node would else hold all that it leads to
        self._nodes = {self.start.state: self.start}

    def is_closed(self, state: State, receptacle: str) -> bool:
        """Whether a receptacle has to be opened before one can reach into it."""
        return receptacle in self._has["openable"] and ("opened", receptacle) not in state.marks

    def _node(self, state: State, *, before: Node) -> Node:
        node = self._nodes.get(state)
        if node is None:
            if len(self._nodes) >= self._max_states:
                self.forget()
            code = code_after(before.code, before.state, state)
            node = self._nodes[state] = Node(state=state, code=code, won=self._goal.holds(state))
        return node

    def _possible(self, state: State) -> Iterator[Action]:
        """What can be done in a state."""
        yield ("look",)
        yield ("inventory",)
        if self.wording is Wording.V2_1_2:
            yield ("help",)
        for receptacle, place in self.places.items():
            if place != state.place:
                yield "go", receptacle
        if state.held:
            # The domain lets one examine visible things too, but for a stray comma in its precondition: "?l - location, ?r".
            yield "examine", state.held
            if self.types.get(state.held) in _BLADES:
                for thing, place in state.at:
                    if place == state.place and thing in self._has["sliceable"]:
                        yield "slice", thing, state.held
        for receptacle in self._here.get(state.place, ()):
            yield from self._possible_at(state, receptacle)

    def _possible_at(self, state: State, receptacle: str) -> Iterator[Action]:
        yield "examine receptacle", receptacle
        openable = receptacle in self._has["openable"]
        opened = ("opened", receptacle) in state.marks
        if openable:
            yield "close" if opened else "open", receptacle
        things = [thing for thing, where in state.inside if where == receptacle]
        for thing in things:
            if thing in self._has["toggleable"]:
                yield "use", thing
        if opened or not openable:
            for thing in things:
                if not state.held and thing in self._has["pickupable"]:
                    yield "take", thing, receptacle
        if state.held:
            yield from self._possible_in_hand(state.held, receptacle, reachable=opened or not openable)

    def _possible_in_hand(self, thing: str, receptacle: str, *, reachable: bool) -> Iterator[Action]:
        kind = self.receptacle_types.get(receptacle, "")
        if reachable and (kind, self.types.get(thing, "")) in self._fits:
            yield "put", thing, receptacle
        if kind == "sinkbasintype" and thing in self._has["cleanable"]:
            yield "clean", thing, receptacle
        if kind == "microwavetype" and thing in self._has["heatable"]:
            yield "heat", thing, receptacle
        if kind == "fridgetype" and thing in self._has["coolable"]:
            yield "cool", thing, receptacle

    def _do(self, state: State, action: Action) -> tuple[State, str]:
        verb, *things = action
        rule: Callable[..., tuple[State, str]] = getattr(self, f"_do_{verb.replace(' ', '_')}")
        return rule(state, *things)

    def _do_look(self, state: State) -> tuple[State, str]:
        return state, self._facing(state) or "You are in the middle of a room. Looking quickly around you, you see nothing."

    def _do_help(self, state: State) -> tuple[State, str]:
        return state, HELP

    def _do_inventory(self, state: State) -> tuple[State, str]:
        carrying = f"You are carrying: a {self.names[state.held]}." if state.held else "You are not carrying anything."
        return state, carrying

    def _do_go(self, state: State, receptacle: str) -> tuple[State, str]:
        after = changed(state, place=self.places[receptacle])
        goal = receptacle if self.wording is Wording.V2_1_2 else after.place
        return after, f"You arrive at {self.names[goal]}. {self._contents(after, receptacle)}"

    def _do_open(self, state: State, receptacle: str) -> tuple[State, str]:
        after = changed(state, marks=state.marks | {("opened", receptacle)})
        return after, f"You open the {self.names[receptacle]}. {self._contents(after, receptacle)}"

    def _do_close(self, state: State, receptacle: str) -> tuple[State, str]:
        after = changed(state, marks=state.marks - {("opened", receptacle)})
        return after, f"You close the {self.names[receptacle]}."

    def _do_take(self, state: State, thing: str, receptacle: str) -> tuple[State, str]:
        after = changed(
            state,
            held=thing,
            inside=state.inside - {(thing, receptacle)},
            at=state.at - {(thing, state.place)},
            left=state.left | {(thing, receptacle)},
        )
        return after, f"You pick up the {self.names[thing]} from the {self.names[receptacle]}."

    def _do_put(self, state: State, thing: str, receptacle: str) -> tuple[State, str]:
        after = changed(
            state,
            held="",
            inside=state.inside | {(thing, receptacle)},
            at=state.at | {(thing, state.place)},
            left=state.left - {(thing, receptacle)},
        )
        sentence = "You move the {} to the {}." if self.wording is Wording.V2_1_2 else "You put the {} in/on the {}."
        return after, sentence.format(self.names[thing], self.names[receptacle])

    def _do_clean(self, state: State, thing: str, receptacle: str) -> tuple[State, str]:
        after = changed(state, marks=state.marks | {("isclean", thing)})
        return after, f"You clean the {self.names[thing]} using the {self.names[receptacle]}."

    def _do_heat(self, state: State, thing: str, receptacle: str) -> tuple[State, str]:
        after = changed(state, marks=(state.marks | {("ishot", thing)}) - {("iscool", thing)})
        return after, f"You heat the {self.names[thing]} using the {self.names[receptacle]}."

    def _do_cool(self, state: State, thing: str, receptacle: str) -> tuple[State, str]:
        after = changed(state, marks=(state.marks | {("iscool", thing)}) - {("ishot", thing)})
        return after, f"You cool the {self.names[thing]} using the {self.names[receptacle]}."

    def _do_use(self, state: State, thing: str) -> tuple[State, str]:
        after = changed(state, marks=state.marks | {("istoggled", thing)})
        return after, f"You turn on the {self.names[thing]}."

    def _do_slice(self, state: State, thing: str, blade: str) -> tuple[State, str]:
        after = changed(state, marks=state.marks | {("issliced", thing)})
        return after, f"You sliced the {self.names[thing]} with the {self.names[blade]}."

    def _do_examine_receptacle(self, state: State, receptacle: str) -> tuple[State, str]:
        return state, self._contents(state, receptacle)

    def _do_examine(self, state: State, thing: str) -> tuple[State, str]:
        return state, self._described(state, thing)

    def _described(self, state: State, thing: str) -> str:
        name, marks = self.names[thing], state.marks
        if thing in self._has["isreceptacleobject"]:
            held = sorted(inner for inner, outer in self.problem.facts.get("inreceptacleobject", ()) if outer == thing)
            return f"This is a normal {name}. In it, you see {self._listed(held)}."
        clean, hot, cool = (("is" + word, thing) in marks for word in ("clean", "hot", "cool"))
        warmth = "hot" if hot else "cool" if cool else ""
        if ("issliced", thing) in marks and (clean or warmth):
            return f"This is a {' and '.join(word for word in (warmth, 'clean' if clean else '') if word)} sliced {name}."
        if clean and warmth:
            return f"This is a {warmth} and clean {name}."
        if hot or clean or cool:
            return f"This is a {'hot' if hot else 'clean' if clean else 'cold'} {name}."
        if thing in self._has["toggleable"] and ("istoggled", thing) in marks:
            return f"This {name} is on."
        if thing in self._has["sliceable"] and ("issliced", thing) in marks:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _contents(self, state: State, receptacle: str) -> str:
        name = self.names[receptacle]
        openable = receptacle in self._has["openable"]
        if self.is_closed(state, receptacle):
            return f"The {name} is closed."
        things = self._listed(sorted(thing for thing, where in state.inside if where == receptacle))
        return f"The {name} is open. In it, you see {things}." if openable else f"On the {name}, you see {things}."

    def _facing(self, state: State) -> str:
        """Where the agent stands; empty in the middle of the room."""
        here = self._here.get(state.place)
        if not here:
            return ""
        beside = [
            thing
            for thing, place in sorted(state.at)
            if place == state.place
            for receptacle in here
            if (thing, receptacle) in state.left
        ]
        facing = _enumerated([self.names[receptacle] for receptacle in here])
        return f"You are facing the {facing}. Next to it, you see {self._listed(beside)}."

    def _all_places(self) -> str:
        return self._listed(list(self.places))

    def _listed(self, things: list[str]) -> str:
        return _enumerated([f"a {self.names[thing]}" for thing in things])


def _enumerated(texts: list[str]) -> str:
    if not texts:
        return "nothing"
    return ", ".join([*texts[:-1], f"and {texts[-1]}"]) if len(texts) > 1 else texts[0]
