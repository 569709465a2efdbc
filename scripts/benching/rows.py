"""What is measured, and beside what. A row more is an entry more here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benching.inputs import components, long_log
from benching.measure import Row, Side, environment
from xpubuild.engine.journal import Journal
from xpubuild.resources import recipes_dir
from xpubuild.supply.index.pipconf import pip_settings, translated
from xpubuild.workspace.layout import Layout

XPUBUILD = (sys.executable, "-m", "xpubuild")
_REQUIREMENTS = ("quickstart-toolchain.txt", "torch-2.13.0-cpu.txt")


def rows(workspace: Path, folder: Path) -> tuple[Row, ...]:
    """Return the rows; ``workspace`` is a quickstart that is installed, ``folder`` is for what they need."""
    pip = Side("pip --version", [[sys.executable, "-m", "pip", "--version"]])
    return (
        Row("--help", [ours("--help"), pip], "under 0.1 s"),
        Row("recipes list", [ours("recipes", "list"), pip], "under 0.3 s"),
        Row(
            "plan of a release",
            [ours("plan", "2.13", "--target", "cpu", "--workspace", "{new}/w")],
            "under 0.7 s",
        ),
        Row("doctor", [ours("doctor", statuses=(0, 10))], "under 1 s"),
        Row(
            "install that has nothing to do",
            [ours("install", "quickstart", "--workspace", str(workspace)), *_pip_again(workspace)],
            "under 0.5 s",
        ),
        Row("checkout of ops and its submodules", [_checkout(workspace), *_git_clone(workspace)]),
        Row(
            "second workspace of a lock, without verify",
            [_install("--until", "ops.install"), _with_pip(), *_with_uv(), _script()],
            "under 15 s with a warm store; at most 3 % above the script",
            slow=True,
        ),
        Row("second workspace of a lock, with verify", [_install()], slow=True),
        Row(
            "environment of a second workspace",
            [
                _install("--until", "toolchain"),
                replace(_install("--until", "toolchain", "--installer", "pip"), name="with pip"),
            ],
            "under 3 s",
            slow=True,
        ),
        Row(
            "cold build of torchvision, without verify",
            [*_cold_torchvision(folder / "vision")],
            "at most 3 % above the script",
            slow=True,
            named=True,
            prepare=partial(components, folder / "vision", "vision"),
        ),
        Row(
            "torchvision and torchaudio from a warm store",
            [Side("xpubuild", [*_both(folder, "{new}/w")], facts=_steps, env=_own_store(folder))],
            "under 30 s without verify",
            slow=True,
            named=True,
            prepare=partial(_fill_store, folder),
        ),
        Row(
            "explain of a log of 200 MB",
            [ours("explain", str(folder / "long.log")), _grep(folder / "long.log")],
            "under 6 s of one core",
            slow=True,
            prepare=partial(long_log, folder / "long.log", 200_000_000),
        ),
    )


def ours(*words: str, statuses: Sequence[int] = (0,)) -> Side:
    """Return the side of an xpubuild command."""
    return Side("xpubuild", [[*XPUBUILD, *words]], statuses=statuses)


def _install(*words: str) -> Side:
    return Side(
        "xpubuild", [[*XPUBUILD, "install", "quickstart", "--workspace", "{new}/w", *words]], facts=_steps
    )


def _steps(folder: Path) -> Mapping[str, float]:
    """Return the seconds of each step of an install in a folder."""
    found: dict[str, float] = {}
    with Journal(Layout(folder / "w").journal, read_only=True) as journal:
        for command in journal.commands():
            name = f"{command['step']} (s)"
            found[name] = found.get(name, 0.0) + command["duration_s"]
    return found


def _pip_again(workspace: Path) -> Iterator[Side]:
    """Yield pip with nothing to do: the same hashed files, into the environment that has all of them."""
    yield Side("pip install, nothing to do", [[str(Layout(workspace).python), *_pip_words()]])


def _pip_words() -> list[str]:
    files = [word for name in _REQUIREMENTS for word in ("-r", str(recipes_dir() / "requirements" / name))]
    return [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--disable-pip-version-check",
        *files,
    ]


def _with_pip() -> Side:
    env = [sys.executable, "-m", "venv", "{new}/env"]
    return Side("venv and pip, prebuilt packages alone", [env, ["{new}/env/bin/python", *_pip_words()]])


def _with_uv() -> Iterator[Side]:
    uv = shutil.which("uv")
    if uv is None:
        return
    # uv reads none of pip's settings.
    told = translated(pip_settings(os.environ), {})
    words = [word for word in _pip_words()[2:] if word != "--disable-pip-version-check"]
    yield Side(
        "uv, prebuilt packages alone",
        [
            [uv, "venv", "--quiet", "--python", sys.executable, "{new}/env"],
            [uv, "pip", words[0], "--python", "{new}/env/bin/python", *words[1:], *told.options],
        ],
        env=told.environment,
    )


def _script() -> Side:
    """The same plan as a script, which builds without xpubuild; it has no verify."""
    write = f"{' '.join(XPUBUILD)} plan quickstart --workspace '{{new}}/w' --format sh > '{{new}}/build.sh'"
    return Side("plan --format sh, run by bash", [["sh", "-c", write], ["bash", "{new}/build.sh"]])


def _cold_torchvision(recipe: Path) -> Iterator[Side]:
    """Neither compile cache nor store; both start with a new workspace and the packages downloaded."""
    words = [str(recipe / "components.yaml"), "--workspace", "{new}/w", "--without", "ops,audio"]
    words += ["--compile-cache", "none"]
    install = [*XPUBUILD, "install", *words, "--until", "vision.install", "--store-read-only"]
    yield Side("xpubuild", [install], facts=_steps)
    plan = f"{' '.join([*XPUBUILD, 'plan', *words])} --format sh > '{{new}}/build.sh'"
    yield Side("plan --format sh, run by bash", [["sh", "-c", plan], ["bash", "{new}/build.sh"]])


def _both(folder: Path, workspace: str) -> Iterator[list[str]]:
    """Yield the installs of both; they keep the wheels that they build, and take those that are kept."""
    recipe = str(folder / "both" / "components.yaml")
    for step in ("vision.install", "audio.install"):
        words = ["install", recipe, "--workspace", workspace, "--without", "ops", "--until", step]
        yield [*XPUBUILD, *words]


def _fill_store(folder: Path) -> None:
    components(folder / "both", "vision", "audio")
    for words in _both(folder, str(folder / "first")):
        subprocess.run(words, env=environment() | _own_store(folder), check=True, stdout=sys.stderr)


def _own_store(folder: Path) -> dict[str, str]:
    """Return what keeps the wheels of a row out of the user's own store."""
    return {"XDG_CACHE_HOME": str(folder / "cache")}


def _grep(log: Path) -> Side:
    # grep ends with 1 where nothing is found.
    return Side("grep -i error", [["grep", "-ci", "error", str(log)]], statuses=(0, 1))


def _checkout(workspace: Path) -> Side:
    """Both take the repositories that are in the workspace; the cache of xpubuild is new each time."""
    origin, commit = _ops(workspace)
    words = ["plumbing", "checkout", origin.as_uri(), commit, "{new}/ops", "--cache", "{new}/cache"]
    return Side("xpubuild", [[*XPUBUILD, *words]])


def _git_clone(workspace: Path) -> Iterator[Side]:
    origin, _ = _ops(workspace)
    allow = ["git", "-c", "protocol.file.allow=always", "clone", "--quiet", "--recursive"]
    yield Side("git clone --recursive", [[*allow, origin.as_uri(), "{new}/ops"]])


def _ops(workspace: Path) -> tuple[Path, str]:
    origin = Layout(workspace).build / "embedded" / "ops" / "ops.git"
    words = [shutil.which("git") or "git", "-C", str(origin), "rev-parse", "main"]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    return origin, told.stdout.strip()
