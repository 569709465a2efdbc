"""The command line as text: every option with what decides how it is taken, and what wrong calls are told."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import click
import yaml

from support.data_files import placed
from support.entered import CHANGES, make_workspace
from support.imports import ROOT
from support.shown_checks import dist
from xpubuild import __version__, resources
from xpubuild.cli import names
from xpubuild.cli.app import COMMANDS, cli, run
from xpubuild.cli.configuration import lookup
from xpubuild.distribution import UNKNOWN_SYSTEM
from xpubuild.engine.journal import Journal

#: How an option completes: by the function's name, which a closure does not tell.
_COMPLETIONS: dict[Any, str] = {
    getattr(names, name): name for name in ("recipes", "workspaces", "doctor_checks", "verify_checks")
}
_PARTS = (
    "param_type_name", "name", "opts", "secondary_opts", "envvar", "required", "nargs", "multiple",
    "metavar", "expose_value", "is_flag", "show_default", "hidden", "help",
)  # fmt: skip
#: What is so of most.
_USUAL = {"nargs": 1, "expose_value": True, "param_type_name": "option"}
_OF_TYPES = ("choices", "min", "max", "min_open", "path_type", "allow_dash", "exists", "envvar_list_splitter")


def _said(value: Any) -> Any:
    """Return a value of click as one of YAML."""
    if isinstance(value, (tuple, list)):
        return [_said(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else getattr(value, "__name__", None)


def _type(of: Any) -> list[Any]:
    about = {name: _said(getattr(of, name, None)) for name in _OF_TYPES}
    return [type(of).__name__, {name: value for name, value in about.items() if value not in (None, False)}]


def _option(parameter: click.Parameter) -> dict[str, Any]:
    completes = parameter._custom_shell_complete
    found = {
        **{name: _said(getattr(parameter, name, None)) for name in _PARTS},
        "default": _said(parameter.default),
        "type": _type(parameter.type),
        "callback": _said(parameter.callback),
        "completes": _COMPLETIONS.get(completes, _said(completes)),
    }
    return {name: value for name, value in found.items() if value not in (None, False, [], _USUAL.get(name))}


def _line(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=108, default_flow_style=True)


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Yield each command and subcommand by its words."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", item) for sub, item in command.commands.items())


def _options() -> str:
    """Return each option with the commands that have it, and each command with what is about it alone."""
    users: dict[str, list[str]] = defaultdict(list)
    about = {}
    for name, command in every_command():
        # What the components of recipes add to the matrix is not written in the commands.
        for parameter in command.params:
            users[_line(_option(parameter))].append(name)
        order = [str(parameter.name) for parameter in command.params]
        about[name] = {"short": command.short_help, "hidden": command.hidden, "order": order}
    texts = [f"{text}    of: {', '.join(commands)}\n" for text, commands in users.items()]
    return "".join(["==== options\n", *texts, *(f"==== {name}\n{_line(of)}" for name, of in about.items())])


#: Of a file, which its file system decides.
_SIZE = re.compile(r"\b\d+(?:\.\d)? k?B$|\b\d+(?:\.\d)? k?B\b(?=  )", re.MULTILINE)
#: Command lines with a mistake: what they are told, whole. None of them looks at the machine.
_MISTAKES = """
isntall
uninstall
zzz
plan quikstart
plan --matrix recipes=2.8
plan --output folder
plan --format slurm --output folder --matrix zzz
plan quickstart --jobs 0
plan quickstart --with nope
plan quickstart --mirror=
plan quickstart --conda-lock=
install quickstart --lock-timeout abc
status
status nowhere
status --workspace nowhere
status --workspace here
status --workspace a-file
status --workspace=
status tow
env --workspace nowhere
run here
run a-file ls
run here ls
run ./with-a-journal
report nowhere
check ./nowhere
clean nowhere --yes
clean --caches --older 3d
clean --older 3d --workspace here
clean --older 3d --step a
clean here --caches
clean --older 0d
clean --older 10000
clean --older x
clean --workspace with-a-journal
clean --workspace with-a-journal --step zz
clean --workspace with-steps --step zz
clean --caches
clean --older 1d
verify nowhere
verify --no-gpu --suite full
verify --models a
verify --operators a --suite full
verify --minutes 3 --suite speed
verify --tests a --suite dynamo
verify --source folder --suite ops
verify --results folder --no-gpu --suite ops
verify --source folder --no-gpu
verify --update-baseline
verify --only=
doctor --only=
doctor --only nosuch
doctor --redact word
doctor --skip nosuch
doctor --junit nowhere/junit.xml --only python.version --root here
audit nosuch.whl
wheel repair nosuch.whl
wheel repair a-file --kind site --bundle
wheel repair here
fetch quickstart
fetch --mirror here --check --dry-run
fetch --mirror https://mirror.example.invalid/x
explain
explain nowhere.log
explain a-file --doctor a-file
explain a-file --doctor nowhere
lock quickstart -o - --json
verify-lock a-file
verify-lock nowhere
image
image quickstart --tag x
image quickstart --builder podman
image quickstart -- --secret x
image quickstart --base debian-13
image quickstart --xpubuild 1.x
image quickstart --xpubuild gone.whl
image quickstart --xpubuild a-file.whl
image quickstart --xpubuild xpubuild-1-py3-none-any.tar
image quickstart --build --format apptainer --builder podman
image quickstart --build --builder podman
image quickstart --build
XPUBUILD_JSON=on recipes show nope
XPUBUILD_JSON=no recipes show nope
XPUBUILD_LOCK_TIMEOUT=x install quickstart
XPUBUILD_ERROR_FILE=error.json recipes show nope
XPUBUILD_ERROR_FILE=nowhere/error.json recipes show nope
GITHUB_ACTIONS=true recipes show nope
GITHUB_ACTIONS=1 recipes show nope
GITHUB_STEP_SUMMARY=summary.md recipes show nope
GITHUB_STEP_SUMMARY=nowhere/summary.md recipes show nope
PATH=.::bin:/nowhere:. recipes show nope
PATH=.:/nowhere env --workspace nowhere
plan nope --format=json
plan nope --format json
env nowhere --shell=json
config init --output a-file
config init --output a-file/below
config check a-file
config check nowhere
recipes show nope
recipes matrix --gcc foo
recipes matrix --cmake foo
recipes matrix --oneapi foo
recipes matrix --oneapi 2025.3,none
recipes matrix --python foo
recipes matrix --vision foo
recipes check --tree nope=here
store gc --older x
store gc --workspace nowhere
store gc --lock a-file
store push nowhere
store push
store list --store nowhere
store check --store nowhere
store gc --store nowhere --yes
store gc
"""


#: Command lines that do something, one after the other in one folder, and what they write.
_RESULTS = """
status --workspace with-steps --json
status one --json
status --all --json
env --workspace entered
env --workspace entered --format fish
env --workspace entered --format csh
env --workspace entered --format lmod
env --workspace entered --format tcl --depends-on oneapi/1,gcc
env --workspace entered --shell json
env --workspace entered --json
check ./with-steps --json
check with-steps/
report ./with-steps --output page.html --trace trace.json
clean --workspace with-steps --dry-run
clean --workspace with-steps --step a --dry-run --json
clean --workspace with-steps
clean --workspace with-steps --json
clean --workspace with-steps --yes --step a
clean --workspace with-steps --yes --json
clean --older 1d --json
clean --older 2w --dry-run
clean --caches --dry-run --json
clean --caches --json
clean --caches --yes
clean --caches --yes --json
store list
store list --json
store size --json
store size --store store
store check --json
store check
store gc --dry-run --json
store gc --yes
store push one --store store --json
config
config --json
config --recipe recipes/ours.yaml
config check
config check --json
config init --output new/config.toml
config init --output new/xpubuild.toml --json
config check new/config.toml new/xpubuild.toml
recipes show quickstart
recipes check quickstart --json
recipes check
doctor --list --only gpu.present,python
doctor --list --only gpu.present --skip gpu -v
doctor --list --only gpu.present --json
doctor --list --profile run --only build
doctor --list --profile build --only toolchain.git
verify --list --json
explain a-log
explain a-log --json
explain a-log --doctor doctor.json
explain -
plumbing ci-script
plumbing leave-out installed one nothing
plumbing repair-env installed
plumbing repair-env installed --held held.txt
plumbing hold installed two new/held.txt
image quickstart --base debian-12 --output new/Containerfile
image quickstart --base debian-12 --output new/Containerfile -q
"""
#: What another machine or moment makes otherwise.
_MEASURED = (
    (_SIZE, "{size}"),
    (re.compile(r"\b1[6-9]\d{8}(?:\.\d+)?\b"), "{time}"),
    (re.compile(r"(?<=duration_s: )[\d.e-]+"), "{s}"),
    (re.compile(r"(?<=size_bytes: )[1-9]\d*"), "{size}"),
    (re.compile(r"\[\d:\d\d:\d\d\]"), "[{time}]"),
    (re.compile(r"\b\d+(?:\.\d)? s\b"), "{s}"),
)


def _files(folder: Path) -> None:
    for name in ("here", "with-a-journal", "with-steps", "data/xpubuild/one", "data/xpubuild/two", "home"):
        (folder / name).mkdir(parents=True)
    for name in ("a-file", "a-file.whl", "with-a-journal/journal.db"):
        (folder / name).write_text("")
    for name in ("with-steps", "data/xpubuild/one", "data/xpubuild/two"):
        with Journal(folder / name / "journal.db") as journal:
            journal.start_run("2.8", ["install", "2.8"], "0")
            journal.end_run("ok")
    cache = folder / "cache" / "xpubuild" / "git"
    cache.mkdir(parents=True)
    (cache / "objects").write_bytes(b"x" * 2000)


def _more_files(folder: Path) -> None:
    """Add what commands that do something need."""
    make_workspace(folder / "entered", "2.8", {**CHANGES, "set": {"A": "a b"}})
    with Journal(folder / "with-steps" / "journal.db") as journal:
        for step in ("a", "b"):
            journal.begin(step, f"of {step}")
            journal.done(step, evidence=[], witnesses={}, published=[])
            path = folder / "with-steps" / "build" / step
            path.parent.mkdir(exist_ok=True)
            path.write_text("12345")
            journal.add_made(step, [str(path)])
    for name, text in {
        "etc/xpubuild/config.toml": "[options]\njobs = 3\n[plan]\njobs = 4\n",
        "config/xpubuild/config.toml": '# mine\n[install]\nlock-timeout = 2\n[proxies]\nno = ["a"]\n',
        "recipes/xpubuild.toml": "[options]\njobs = 5\n",
        "recipes/ours.yaml": "schema: 1\nname: ours\ntitle: t\nextends: quickstart\n",
        "a-log": "before\nImportError: libze_loader.so.1: cannot open shared object file\n",
        "doctor.json": '{"checks": [{"id": "level_zero.loader", "status": "fail"}]}',
        "held.txt": "two==2.0\n",
        "installed/pyvenv.cfg": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)
    site = folder / "installed" / "lib" / "python3.12" / "site-packages"
    for name in ("one", "two"):
        dist(site, name, {f"{name}.py": name})
    (site / "~eft-1.0.dist-info").mkdir()
    (folder / "store").mkdir()
    (folder / "bin").mkdir()
    (folder / "bin" / "git").symlink_to(shutil.which("git") or "git")


def _results() -> str:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        _files(folder)
        _more_files(folder)
        texts = [
            f"==== {line}\n{called(line.split(), environment(folder), folder)}"
            for line in _RESULTS.strip().splitlines()
        ]
        places = {str(resources.ci_script()): "{ci script}", str(folder): "{folder}", str(ROOT): "{checkout}"}
        text = placed("".join(texts), {**places, __version__: "{version}"})
        for pattern, name in _MEASURED:
            text = pattern.sub(name, text)
        return re.sub(r" {3,}", "  ", text)


def environment(folder: Path) -> dict[str, str]:
    """Return what a command line in such a folder has for an environment."""
    return {
        "HOME": f"{folder}/home", "XDG_CONFIG_HOME": f"{folder}/config", "XDG_CONFIG_DIRS": f"{folder}/etc",
        "XDG_CACHE_HOME": f"{folder}/cache", "XDG_DATA_HOME": f"{folder}/data", "TMPDIR": f"{folder}/tmp",
        "XDG_STATE_HOME": f"{folder}/state", "PATH": f"{folder}/bin", "XPUBUILD_INSTALLER": "pip",
    }  # fmt: skip


#: On standard input.
_GIVEN = b"ninja: error: frob\n"


#: Of a longer text the beginning and the end are kept: the rest is other tests' subject.
_MOST, _FIRST, _LAST = 40, 15, 5


def called(words: list[str], env: dict[str, str], cwd: Path) -> str:
    """Run a command line in this process; return its status and what it wrote."""
    out, err, given = (
        io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape") for data in (b"", b"", _GIVEN)
    )
    before, applied = Path.cwd(), set(lookup._applied)
    with (
        mock.patch.dict(os.environ, env, clear=True),
        mock.patch.object(sys, "argv", ["xpubuild", *words]),
        mock.patch.object(sys, "stdin", given),
        # Commands that it suggests are those of the distribution.
        mock.patch("xpubuild.machine.packages.system_of", return_value=UNKNOWN_SYSTEM),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        os.chdir(cwd)
        try:
            status = run(words)
        finally:
            os.chdir(before)
            lookup._applied.intersection_update(applied)
    told = "".join(f"{name} {line}\n" for name, text in (("1", out), ("2", err)) for line in _lines(text))
    return f"{told}= {status}\n"


def _lines(stream: io.TextIOWrapper) -> list[str]:
    stream.flush()
    stream.seek(0)
    text = stream.read()
    if text.startswith("{"):
        # No line is broken: how long the names of folders are makes no difference.
        text = yaml.safe_dump(json.loads(text), sort_keys=False, default_flow_style=None, width=10**9)
    lines = text.splitlines()
    return lines if len(lines) <= _MOST else [*lines[:_FIRST], f"... {len(lines)} lines", *lines[-_LAST:]]


def _called(line: str, folder: Path) -> str:
    """Run a command line that may begin with variables."""
    words = line.split()
    given = [word for word in words if re.match(r"[A-Z_]+=", word)]
    env = environment(folder) | dict(word.split("=", 1) for word in given)
    return called(words[len(given) :], env, folder)


def _mistakes() -> str:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        _files(folder)
        texts = [f"==== {line}\n{_called(line, folder)}" for line in _MISTAKES.strip().splitlines()]
        texts += [f"==== {name}\n{(folder / name).read_text()}\n" for name in ("error.json", "summary.md")]
        return re.sub(r" {3,}", "  ", _SIZE.sub("{size}", "".join(texts).replace(str(folder), "{folder}")))


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "command-line": _options,
    "command-mistakes": _mistakes,
    "command-results": _results,
}
