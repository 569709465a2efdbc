"""The platform, and the Python of the build or of torch: version, headers, setuptools, pip's settings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.kit import BUILD, Look, Outcome, check, finding, ok, skip, todo, warn
from xpubuild.doctor.look.compatible import judged
from xpubuild.doctor.look.sites import interpreter
from xpubuild.errors import ToolchainError
from xpubuild.machine.readers import UNKNOWN, entries
from xpubuild.machine.versions import fits
from xpubuild.supply.index.pipconf import files_with, pip_settings, switched_on

_ARCHITECTURE = "x86_64"
_BITS = 64
# Where the psABI, and glibc for other machines, puts the dynamic loader; a merged /usr has both folders.
_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_GLIBC = {
    "ld-linux-x86-64.so.2": _ARCHITECTURE,
    "ld-linux-aarch64.so.1": "aarch64",
    "ld64.so.2": "ppc64le",
    "ld-linux-riscv64-lp64d.so.1": "riscv64",
    "ld-linux.so.2": "i686",
}
_MUSL = ("ld-musl-", ".so.1")
_ELSEWHERE = todo(
    "use an x86_64 host or container image with glibc (Debian, Ubuntu, RHEL, SUSE) and a 64-bit"
    " Python: oneAPI and PyTorch for XPU support no other platform",
    "uname -m",
    "ldd --version",
)


@check("machine.platform")
def machine_platform(look: Look) -> Outcome:
    """PyTorch for XPU supports this platform.

    PyTorch for XPU is published as `manylinux` wheels for x86_64, and Intel's compiler, which builds
    it, runs only on x86_64 with glibc. On aarch64, with musl (Alpine), with a 32-bit kernel personality
    (`linux32`, an i386 container) or with a 32-bit Python there is neither a wheel nor a compiler: pip
    then installs a torch for the CPU from its own index, or reports that no version matches.

    Checks the machine type that the kernel reports, the C library of the running program, and whether
    the selected interpreter is 64-bit; in an image, the dynamic loaders in it. This cannot be fixed on
    the machine: use another machine or another image.
    """
    # Names are enough: in an image a link may have an absolute target, which is another file on this machine.
    names = {path.name for folder in _FOLDERS for path in entries(look.path(folder), look.root)}
    loaders = {_GLIBC[name] for name in names & _GLIBC.keys()}
    start, end = _MUSL
    musl = sorted(name for name in names if name.startswith(start) and name.endswith(end))
    machine, libc = look.host.os.machine, look.host.os.libc
    if machine == UNKNOWN and not look.live:
        # An image may hold loaders of several kinds, for emulation; one that fits is enough.
        of_musl = musl[0].removeprefix(start).removesuffix(end) if musl else UNKNOWN
        machine = next((name for name in _GLIBC.values() if name in loaders), of_musl)
    if libc == UNKNOWN and musl and (look.live or not loaders):
        libc = "musl"
    evidence = {"machine": machine, "libc": libc, "loaders": sorted(loaders)}
    python = interpreter(look)
    if machine not in (_ARCHITECTURE, UNKNOWN):
        detail = f"the machine is {machine}, but PyTorch for XPU requires x86_64"
    elif libc == "musl":
        detail = "the C library is musl, but PyTorch for XPU and oneAPI require glibc"
    elif python is not None and python.bits not in (_BITS, None):
        detail = f"{python.executable} is a {python.bits}-bit Python, but PyTorch for XPU requires 64 bits"
    elif machine == UNKNOWN:
        return skip("the platform is unknown: there is no dynamic loader")
    else:
        return ok(f"{machine} with {libc if libc != UNKNOWN else 'an unknown C library'}", **evidence)
    return finding(detail, _ELSEWHERE, **evidence)


@check("python.runs", live=True)
def python_runs(look: Look) -> Outcome:
    """The selected Python interpreter runs.

    Starts the selected interpreter: `--python`, or that of the workspace, of `VIRTUAL_ENV` or of
    `CONDA_PREFIX`, or `python3` on `PATH`. It fails if the interpreter cannot run or is not a Python:
    for example a virtual environment whose base installation was removed or upgraded, or a version
    manager's shim without a version. Nothing that is installed for such an interpreter can be imported.

    If no interpreter was selected or is active, a `python3` on `PATH` that does not run is a warning.
    """
    facts = interpreter(look)
    if facts is None:
        return skip("no Python was found")
    if not facts.error:
        return ok(f"{facts.executable} runs", executable=facts.executable)
    fix = todo(
        "select a working interpreter with --python, or recreate the environment",
        f"{shlex.quote(facts.executable)} -I -c 'import sys; print(sys.version)'",
        *_other(look),
    )
    shown = f"{facts.executable} is not a working Python: {facts.error}"
    # The first python3 on PATH is a guess: it was not selected.
    return finding(shown, fix) if look.python is not None else warn(shown, fix)


@check("python.version", profiles=BUILD, recipe=True)
def python_version(look: Look) -> Outcome:
    """The recipe supports the Python version.

    Each PyTorch release supports a range of Python versions, and wheels exist only for those. Only
    CPython is supported. Use `--python` to select another interpreter.
    """
    facts = interpreter(look)
    if facts is None:
        return skip("no Python was found")
    name_another = todo("select another interpreter with --python", *_other(look))
    if facts.error:
        # One cause, one failure: python.runs reports it, machine.platform a 32-bit Python.
        return skip(f"{facts.executable} is not a working Python: {facts.error}")
    if facts.implementation not in ("CPython", UNKNOWN):
        return finding(f"{facts.executable} is {facts.implementation}, not CPython", name_another)
    if wrong := [item for item in judged(look, "python") if item.answer == "no"]:
        detail = f"{facts.executable} is Python {facts.version}; the recipe {wrong[0].text}"
        return finding(detail, name_another, found=facts.version, wanted=wrong[0].wanted)
    return ok(f"Python {facts.version} ({facts.executable})", version=facts.version)


def _other(look: Look) -> tuple[str, ...]:
    wanted = look.wanted.needs.python if look.wanted else ""
    found = [item.executable for item in look.host.python.found if fits(item.version, wanted) == "yes"]
    recipe = f" --recipe {shlex.quote(look.wanted.name)}" if look.wanted else ""
    return (f"xpubuild doctor{recipe} --python {found[0]}",) if found else ()


@check("python.headers")
def python_headers(look: Look) -> Outcome:
    """Python.h is installed.

    Every extension is compiled with `Python.h`: those of PyTorch, and at run time the launchers that
    Triton compiles for `torch.compile`. Distributions package it separately (`python3-dev`,
    `python3-devel`). The check uses the include folder that the interpreter reports.
    """
    facts = interpreter(look)
    if facts is None or facts.headers is None:
        return skip("no Python was found, or it could not be run")
    if facts.headers:
        return ok(f"{facts.include}/Python.h", include=facts.include)
    short = ".".join(facts.version.split(".")[:2])
    rhel = "python3-devel" if facts.executable.startswith("/usr/bin/python3") else f"python{short}-devel"
    commands = install_command(
        look, debian=[f"python{short}-dev"], rhel=[rhel], suse=[f"python{short.replace('.', '')}-devel"]
    )
    fix = todo(f"install the headers of Python {short}", *commands)
    return finding(f"{facts.include}/Python.h does not exist", fix, include=facts.include)


#: Settings that make pip install into another place, nothing, or without dependencies.
_CHANGES = {
    "target": "installs into another folder",
    "prefix": "installs below another prefix",
    "root": "installs below another root",
    "python": "installs for another interpreter",
    "user": "installs into the user's folder, which an environment does not see",
    "no-deps": "skips the dependencies of packages",
    "dry-run": "installs nothing",
}
_LIMITS = {"constraint": "limits versions", "requirement": "adds requirements", "no-binary": "forbids wheels"}
_SWITCHES = ("user", "no-deps", "dry-run")
_COMMANDS = ("install", "wheel", "download")  # the commands of pip that xpubuild runs


def _meanings(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: meaning
        for name, value in settings.items()
        if (meaning := _CHANGES.get(name) or _LIMITS.get(name))
        and (name not in _SWITCHES or switched_on(value))
    }


@check("python.pip_constraints", profiles=BUILD, live=True)
def python_pip_constraints(look: Look) -> Outcome:
    """No setting changes what pip installs.

    Reads pip's settings without running pip: those of its configuration files, in the sections `[global]`,
    `[install]`, `[wheel]` and `[download]`, and of `PIP_` variables.
    `target`, `prefix`, `root`, `user`, `no-deps` and `dry-run` in a file affect
    every pip, including the one that xpubuild runs in the workspace: a failure. The same settings as
    variables are warnings, because xpubuild does not pass them on. Constraints are warnings, because
    they may be intended; a constraint on torch or triton decides which build a later `pip install` puts
    in place of the XPU build. `pip config debug` shows which file has a setting.
    """
    # Each by itself: xpubuild drops the variables and still reads the files.
    files = {
        name: value
        for name, value in look.environ.items()
        if name == "PIP_CONFIG_FILE" or not name.startswith("PIP_")
    }
    in_files: dict[str, str] = {}
    try:
        for command in _COMMANDS:
            in_files.update(_meanings(pip_settings(files, ("global", command))))
    except ToolchainError as error:
        return finding(f"{error.what}: {error.why}", todo(error.fix, *error.commands))
    in_variables = _meanings(pip_settings({**look.environ, "PIP_CONFIG_FILE": os.devnull}))
    found = in_files | in_variables
    if not found:
        return ok("no setting changes what pip installs")
    origins = {
        name: [
            *(files_with(files, name, ("global", *_COMMANDS)) if name in in_files else ()),
            *([f"PIP_{name.upper().replace('-', '_')}"] if name in in_variables else ()),
        ]
        for name in found
    }
    shown = "; ".join(
        f"pip's setting {name} {meaning} ({', '.join(origins[name])})" for name, meaning in found.items()
    )
    lines = [f"unset {origins[name][-1]}" for name in in_variables]
    fix = todo("remove the settings", *lines, *(["pip config debug"] if in_files else []))
    answer = finding if any(name in _CHANGES for name in in_files) else warn
    return answer(shown, fix, settings=found)
