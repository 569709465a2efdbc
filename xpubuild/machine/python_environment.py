"""The commands that create and fill the Python environment. Pure; nothing is read or run here.

Every package is installed by hash. Torch is asked for with its local label (``torch==2.13.0+cpu``): pip as it
is configured either has exactly that build or says so within seconds, and only then the recipe's own index is
asked too. A CUDA build is never accepted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from xpubuild.engine.model import XPUBUILD, Command

# An index that was not configured by the user may be out of reach behind a firewall: that must show soon.
# One retry, because pip prints the cause of a failed connection only when it tries again.
_EXTRA_INDEX_OPTIONS = ("--timeout", "15", "--retries", "1")


def env_python(env: str | Path) -> str:
    """Return the path of an environment's interpreter."""
    return str(Path(env) / "bin" / "python")


def make_env_command(env: str, python: str) -> Command:
    """Return the command that makes the virtual environment ``env`` of the interpreter ``python``."""
    return Command(
        argv=(XPUBUILD, "plumbing", "make-env", env, "--python", python),
        portable=(shlex.join([python, "-m", "venv", env]),),
    )


def repair_env_command(env: str, *, held: str | None = None) -> Command:
    """Return the command that removes what an interrupted pip left half installed.

    ``held`` is a file of ``build.held``: another build of what it names is removed too.
    """
    # A shell script starts from a new environment: nothing to repair.
    extra = ("--held", held) if held else ()
    return Command(argv=(XPUBUILD, "plumbing", "repair-env", env, *extra), portable=())


def install_command(
    env: str,
    requirements: str,
    *,
    indexes: Sequence[str] = (),
    constraints: str | Sequence[str] | None = None,
    whole: bool = True,
) -> Command:
    """Return the pip command that installs a hashed requirements file.

    ``indexes`` are the recipe's, each tried after pip as it is configured has failed. ``constraints`` are
    files as ``write_constraints`` makes them. ``whole`` lets pip refuse a file that lacks a dependency of
    what is in it; without, exactly what the file has is installed.
    """
    files = (constraints,) if isinstance(constraints, str) else tuple(constraints or ())
    argv = (
        env_python(env),
        "-I",  # no PYTHON* variables, no user packages, no module of the current folder
        "-u",
        "-m",
        "pip",
        "install",
        "--require-hashes",
        *(() if whole else ("--no-deps",)),
        "--only-binary",
        ":all:",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "raw",  # numbers that the progress meter reads
        "--no-warn-script-location",
        *(word for file in files for word in ("--constraint", file)),
        "--requirement",
        requirements,
    )
    alternatives = tuple((*argv, "--extra-index-url", url, *_EXTRA_INDEX_OPTIONS) for url in indexes)
    return Command(
        argv=argv,
        alternatives=alternatives,
        portable=(" || ".join(_for_any_pip(words) for words in (argv, *alternatives)),),
    )


def leave_out_command(env: str, names: Sequence[str]) -> Command:
    """Return the pip command that removes what an earlier step installed and a recipe leaves out."""
    argv = (
        env_python(env), "-I", "-u", "-m", "pip", "uninstall", "--yes", "--no-input",
        "--disable-pip-version-check", *names,
    )  # fmt: skip
    # A shell script starts from a new environment: nothing to remove.
    return Command(argv=argv, portable=())


def _for_any_pip(argv: Sequence[str]) -> str:
    """Return a line for the pip that ``python -m venv`` installs: before 24.1 it knows no raw progress."""
    return shlex.join(word for word in argv if word not in ("--progress-bar", "raw"))


def write_constraints(pins: Mapping[str, str], *, forbidden: Iterable[str] = ()) -> str:
    """Return the text of a pip constraints file that keeps built packages from being replaced.

    ``pins`` are distribution -> version with its local label, as installed. ``forbidden`` are distributions
    that must not come in at all, because they own the files of another: ``triton`` overwrites the package
    that ``pytorch-triton-xpu`` and ``triton-xpu`` contain.
    """
    lines = [f"{name}=={version}" for name, version in sorted(pins.items())]
    # No release is older than 0, so this specifier can never be met.
    lines += [f"{name}<0" for name in sorted(set(forbidden) - set(pins))]
    return "".join(f"{line}\n" for line in lines)
