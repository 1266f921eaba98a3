"""Many ScienceWorld simulators in one Java machine, each as exact as if it were alone.

The simulator keeps three things in globals: a random generator, a counter of object ids, and the simplifications in force.
`Machine` puts a simulator's own in place before every action. Questions that must not change the episode (look, objects) get a
scratch generator and leave the counter as it was. With hashing fixed by `gateway.HASHING`, what an action does is then a
function of task, variation, simplifications and the actions before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dpepo.envs.scienceworld.gateway import Gateway, JavaDied
from dpepo.errors import JobError

# In the order in which the simulator's own task maker builds them; the ids of objects depend on it.
TASK_GROUPS = (
    "ChangeOfState",
    "ElectricCircuit",
    "ElectricalConductivity",
    "ElectricalConductivity2",
    "FindLivingNonLiving",
    "GrowPlant",
    "ChemistryMix",
    "ChemistryMixPaint",
    "LifeSpan",
    "IdentifyLifeStages1",
    "IdentifyLifeStages2",
    "InclinedPlane1",
    "InclinedPlane2",
    "InclinedPlane3",
    "MendelianGenetics1",
    "MendelianGenetics2",
    "UseInstrumentThermometer",
    "UseInstrumentThermometer2",
    "UseInstrumentThermometer3",
)
PROBE_SEED = 4_711
NOT_UNDERSTOOD = "No known action matches that input."  # the whole answer to an input of no known form
AMBIGUOUS = "Ambiguous request:"  # how a question begins; the next input answers it or is lost

T = TypeVar("T")


class SimulatorError(JobError):
    """The simulator itself failed on an action; that one simulator cannot go on."""


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What the simulator answered to one action."""

    text: str
    score: int  # -100..100
    completed: bool  # the simulator's own word for "over": reached or spoilt


@dataclass(eq=False)
class Simulator:
    """One simulator and its share of the globals. Handled by `Machine` only."""

    interface: Any  # the Java object
    random: Any  # its own java.util.Random
    next_id: int = 0  # the id counter, valid while another simulator is in place
    simplifications: str = ""  # labels in force, comma-separated, in alphabetical order


@dataclass(frozen=True)
class _TaskGroup:
    """How to build the tasks of one group alone, exactly as the full task maker would."""

    builder: Any  # the Scala object with `registerTasks`
    first_id: int  # id counter when the full task maker reaches this group
    exact: bool  # it draws nothing at random, so that nothing before it matters


@dataclass
class _Surroundings:
    """The globals of a Java machine and what is in place there now."""

    random_object: Any  # scala.util.Random
    random_field: Any  # its generator, reachable by reflection
    ids: Any  # util.UniqueIdentifier
    simplifier: Any
    scratch: Any  # generator for everything that is no episode's
    random: Any = None
    simulator: Simulator | None = None
    simplifications: str | None = None
    groups: dict[str, _TaskGroup] = field(default_factory=dict)
    total_ids: int = 0  # id counter after the full task maker


class Machine:
    """One Java machine and its simulators. Callers hold a lock: it is not safe for several threads."""

    def __init__(self, *, max_heap: str) -> None:
        """Start Java (about 2 seconds).

        Args:
            max_heap: most memory for Java objects, e.g. "512m"; a simulator keeps about 1 MB.

        Raises:
            MissingJava, MissingPackage, ConfigError, JavaDied: as `Gateway`.
        """
        self.gateway = Gateway(max_heap=max_heap)
        try:
            self._around = self._find_globals()
            self._use_random(self._around.scratch)
            self._task_maker = self.gateway.jvm.scienceworld.tasks.TaskMaker1()  # one for all: 10 MB
            self._survey_groups()
        except BaseException:
            self.gateway.close()
            raise

    def open(self) -> Simulator:
        """A new simulator without a task."""
        return self._call(self._open)

    def load(self, simulator: Simulator, task: str, variation: int, simplifications: str) -> StepResult:
        """Put a simulator at the start of a task, whatever it did before, and look around.

        Raises:
            SimulatorError: the simulator refuses the combination.
            JavaDied: the machine is gone.
        """
        self._call(lambda: self._load(simulator, task, variation, simplifications))
        return self.step(simulator, "look around")

    def step(self, simulator: Simulator, action: str) -> StepResult:
        """Do one action.

        Raises:
            SimulatorError: the simulator failed in a way that leaves its state unknown.
            JavaDied: the machine is gone.
        """
        return self._call(lambda: self._step(simulator, action))

    def goal(self, simulator: Simulator) -> str:
        """The task in words."""
        return self._call(lambda: str(simulator.interface.getTaskDescription()))

    def look(self, simulator: Simulator) -> str:
        """What the agent sees now; costs no time and changes nothing."""
        return self._ask(simulator, lambda: str(simulator.interface.freeActionLook()))

    def objects(self, simulator: Simulator) -> list[str]:
        """Unambiguous names of the things at hand, sorted; changes nothing."""
        return self._ask(simulator, lambda: sorted(self.gateway.join(simulator.interface.getPossibleObjects())))

    def templates(self, simulator: Simulator) -> list[str]:
        """Forms of action, such as "open OBJ"; constant for a task and its simplifications."""
        return self._ask(simulator, lambda: self.gateway.join(simulator.interface.getPossibleActions()))

    def valid_actions(self, simulator: Simulator) -> list[str]:
        """Every complete action that would be understood now, sorted; slow (16-56 ms); changes nothing."""
        return self._ask(
            simulator, lambda: sorted(set(self.gateway.join(simulator.interface.getValidActionObjectCombinations())))
        )

    def gold_actions(self, simulator: Simulator, task: str, variation: int, simplifications: str) -> list[str]:
        """The package's own solution; afterwards the simulator has to be loaded anew."""

        def generate() -> list[str]:
            self._enter(simulator)
            self._around.simplifications = None
            simulator.interface.load(task, variation, simplifications, True)
            actions = self.gateway.join(simulator.interface.getGoldActionSequence())
            self._share_task_maker(simulator)
            return actions

        return self._call(generate)

    def close(self) -> None:
        """End the Java machine; calling it again does nothing."""
        self.gateway.close()

    def _call(self, action: Callable[[], T]) -> T:
        """Run something on the Java side and sort out whose failure an exception is."""
        from py4j.protocol import Py4JError

        try:
            return action()
        except (Py4JError, OSError) as error:
            self._around.simulator = None  # whatever was in place is not known any more
            self._around.simplifications = None
            if not self.gateway.alive or not hasattr(error, "java_exception"):
                raise JavaDied(f"the Java machine of ScienceWorld is gone ({type(error).__name__}: {error})") from error
            raise SimulatorError(f"the ScienceWorld simulator failed: {str(error.java_exception)[:300]}") from error

    def _ask(self, simulator: Simulator, question: Callable[[], T]) -> T:
        """Ask something without touching the episode."""

        def asked() -> T:
            self._enter(simulator)
            ids = self._around.ids
            before = ids.count()
            self._use_random(self._around.scratch)
            self._around.scratch.setSeed(0)  # the same question in the same state has the same answer
            answer = question()
            getattr(ids, "count_$eq")(before)
            return answer

        return self._call(asked)

    def _find_globals(self) -> _Surroundings:
        jvm = self.gateway.jvm
        random_field = jvm.java.lang.Class.forName("scala.util.Random").getDeclaredField("self")
        random_field.setAccessible(True)
        return _Surroundings(
            random_object=self.gateway.static("scala.util.Random$"),
            random_field=random_field,
            ids=self.gateway.static("util.UniqueIdentifier$"),
            simplifier=self.gateway.static("main.scala.scienceworld.runtime.SimplifierProcessor$"),
            scratch=jvm.java.util.Random(0),
        )

    def _survey_groups(self) -> None:
        """Learn what building each group of tasks alone takes; groups that draw at random are never built alone."""
        around, maker = self._around, self._task_maker
        around.ids.reset()
        expected = self.gateway.jvm.java.util.Random(PROBE_SEED).nextLong()
        for name in TASK_GROUPS:
            builder = self.gateway.static(f"scienceworld.tasks.specifictasks.Task{name}$")
            first_id = around.ids.count()
            around.scratch.setSeed(PROBE_SEED)
            maker.tasks().clear()
            builder.registerTasks(maker)
            group = _TaskGroup(builder=builder, first_id=first_id, exact=around.scratch.nextLong() == expected)
            around.groups.update(dict.fromkeys(maker.getTaskList(), group))
        around.total_ids = around.ids.count()
        around.ids.reset()
        self._task_maker = self.gateway.jvm.scienceworld.tasks.TaskMaker1()
        if around.ids.count() != around.total_ids or set(self._task_maker.getTaskList()) != set(around.groups):
            around.groups.clear()  # another version of the simulator: build everything, as it does itself

    def _open(self) -> Simulator:
        self._leave()  # the constructor takes ids from the counter
        self._use_random(self._around.scratch)
        interface = self.gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        simulator = Simulator(interface=interface, random=self.gateway.jvm.java.util.Random(0))
        self._share_task_maker(simulator)
        return simulator

    def _share_task_maker(self, simulator: Simulator) -> None:
        getattr(simulator.interface, "taskMaker_$eq")(self._task_maker)

    def _use_random(self, generator: Any) -> None:
        if self._around.random is not generator:
            self._around.random_field.set(self._around.random_object, generator)
            self._around.random = generator

    def _leave(self) -> None:
        """Write down the counter of the simulator in place, before another one or nobody is."""
        if self._around.simulator is not None:
            self._around.simulator.next_id = self._around.ids.count()
            self._around.simulator = None

    def _enter(self, simulator: Simulator) -> None:
        """Put a simulator's share of the globals in place."""
        around = self._around
        if around.simulator is not simulator:
            self._leave()
            getattr(around.ids, "count_$eq")(simulator.next_id)
            around.simulator = simulator
        if around.simplifications != simulator.simplifications:
            around.simplifier.parseSimplificationStr(simulator.simplifications)
            around.simplifications = simulator.simplifications
        self._use_random(simulator.random)

    def _load(self, simulator: Simulator, task: str, variation: int, simplifications: str) -> None:
        self._enter(simulator)
        interface, around = simulator.interface, self._around
        around.simplifications = None
        group = around.groups.get(task)
        if group is not None and group.exact:
            self._load_alone(interface, group, task, variation, simplifications)
        else:
            interface.load(task, variation, simplifications, False)
            self._share_task_maker(simulator)
        if problem := interface.errorStr():
            raise SimulatorError(str(problem))
        simulator.simplifications = str(around.simplifier.getSimplificationsUsed()).replace(", ", ",")
        around.simplifications = simulator.simplifications

    def _load_alone(self, interface: Any, group: _TaskGroup, task: str, variation: int, simplifications: str) -> None:
        """What the interface's own `load` does, with only the one group of tasks built instead of all (most of the time)."""
        java_class, ids = self.gateway.java_class, self._around.ids
        getattr(ids, "count_$eq")(group.first_id)
        group.builder.registerTasks(self._task_maker)
        getattr(ids, "count_$eq")(self._around.total_ids)
        self._around.random_object.setSeed(variation)
        world = java_class("scienceworld.environments.EnvironmentMaker").mkKitchenEnvironment(variation)
        universe, agent = world._1(), world._2()
        setup = self._task_maker.doTaskSetup(task, variation, universe, agent)
        if setup._1().isEmpty():
            raise SimulatorError(f"ScienceWorld cannot set up {task} {variation}: {setup._2()}")
        interface_class, some = java_class("scienceworld.runtime.AgentInterface"), java_class("scala.Some")
        agent_interface = interface_class(universe, agent, setup._1().get(), simplifications)
        history = java_class("scienceworld.goldagent.RunHistory")(task, -1, variation, "", simplifications, "")
        for name, value in (
            ("taskStr", task),
            ("taskVariationIdx", variation),
            ("simplificationStr", simplifications),
            ("errorStr", ""),
            ("errorUnknownEnvironment", False),
            ("agent", some(agent)),
            ("agentInterface", some(agent_interface)),
            ("currentHistory", history),
        ):
            getattr(interface, f"{name}_$eq")(value)

    def _step(self, simulator: Simulator, action: str) -> StepResult:
        self._enter(simulator)
        interface = simulator.interface
        text = str(interface.step(action))
        return StepResult(text=text, score=round(100 * interface.getScore()), completed=bool(interface.getCompleted()))
