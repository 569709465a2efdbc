"""Plans as readable data files: tests/data/plans has what each step of a few plans hands on.

They have no digest, so what a recipe says beside what was chosen changes none of them. ``make regen``
rewrites the files; a test compares.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support.data_files import DATA, dumped, placed
from support.releases import recipe_of
from xpubuild.engine.model import Command, Plan, Step
from xpubuild.install.choose import check_host, choose, for_python
from xpubuild.install.options import Options
from xpubuild.install.planner import make_plan
from xpubuild.install.rehearse import planned
from xpubuild.install.resolve import requirement_texts
from xpubuild.install.script import script
from xpubuild.install.target import (
    Admission,
    Choice,
    Compilers,
    Downloads,
    Installer,
    OneapiFacts,
    Prepared,
    Target,
)
from xpubuild.recipe.situation import Situation
from xpubuild.supply.caching import CompileCache
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage, write_lock

FOLDER = DATA / "plans"
_WORKSPACE, _CACHE, _ONEAPI = "/somewhere/my space", "/somewhere/cache", "/somewhere/oneapi"
_PLACES = {
    f"{_WORKSPACE}/env/lib/python3.12/site-packages": "{site}",
    _WORKSPACE: "{workspace}",
    quote(_WORKSPACE): "{workspace, in a URL}",
    _CACHE: "{cache}",
    _ONEAPI: "{oneapi}",
}
#: Texts with more characters are not shown.
_LONG = 600

_SENTENCES = ("chosen", "loses", "notes", "not_known", "warnings")

_CONDA = "https://conda.example.invalid/forge/linux-64"
_LOCK = CondaLock(
    tuple(
        CondaPackage(name, version, "h0", f"{name}-{version}-h0.conda", f"{_CONDA}/{name}-{version}-h0.conda",
                     "0" * 64, "0" * 32)
        for name, version in (("cmake", "3.31.2"), ("python", "3.12.4"))
    ), ("conda-forge",), "0" * 64,
)  # fmt: skip


def _oneapi(version: str) -> OneapiFacts:
    return OneapiFacts(
        env={"CMPLR_ROOT": f"{_ONEAPI}/compiler/{version}", "CMAKE_PREFIX_PATH": f"{_ONEAPI}/tbb/lib/cmake"},
        path_prefix=(f"{_ONEAPI}/compiler/{version}/bin",),
        digest="0" * 64,
        compiler_version=f"{version}.0",
    )


def target_for(
    name: str,
    *,
    oneapi: str | None = None,
    facts: Mapping[str, Any] | None = None,
    workspace: str = _WORKSPACE,
    **asked: Any,
) -> Target:
    """Return the target of a recipe on a made-up host: with a oneAPI for XPU."""
    device: Any = "cpu" if oneapi is None else "xpu"
    options = Options(name, Path(workspace), target=device, **asked)
    return known_target(
        choose(options, recipe_of(name)),
        **{
            "oneapi": _oneapi(oneapi) if oneapi else None,
            "situation": Situation(
                target=device, gpu="max", driver="rolling", oneapi=(oneapi,) if oneapi else (),
                python=("3.12.4",), gcc="13.2.0", host_compiler="GNU",
            ),
            **(facts or {}),
        },
    )  # fmt: skip


def known_target(choice: Choice, **facts: Any) -> Target:
    """Return the target of a choice on a made-up host, compared with the recipe."""
    version = facts.get("python_version", "3.12.4")
    choice = for_python(choice, version)
    known: dict[str, Any] = {
        "python": "/usr/bin/python3.12",
        "python_version": version,
        "compilers": Compilers("/usr/bin/gcc", "/usr/bin/g++", "13.2.0", {"cc": "gcc 13.2.0"}, "gcc"),
        "jobs": 6,
        "jobs_reason": "asked for",
        "cache": Path(_CACHE),
        "requirements": requirement_texts(choice),
    }
    target = Target(**{**vars(choice), **known, **facts})
    return replace(target, verdict=check_host(target))


def plan_for(name: str, **asked: Any) -> Plan:
    return make_plan(target_for(name, **asked))


_MIRROR = Downloads(
    Path("/somewhere/mirror"), offline=True, pip={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/somewhere/mirror"}
)
_CCACHE = CompileCache(
    "/opt/bin/ccache", {"CCACHE_COMPILERCHECK": "content"}, hashed=("/gcc/cc1", "/gcc/cc1plus"),
    sycl_hashed=("/oneapi/clang++",), sloppiness="locale", place="/objects, at most 25G",
)  # fmt: skip
_ADMISSION = Admission(8 << 30, own_group=True, other_jobs=3, program="the program of the launcher\n")
_CHOSEN = Compilers(
    "/opt/gcc/bin/gcc", "/opt/gcc/bin/g++", "13.3.0", {"cc": "gcc 13.3.0", "icx": "/opt/gcc/lib"}, "gcc",
    names={"gcc": "/opt/gcc/bin/gcc", "g++": "/opt/gcc/bin/g++"},
    config={"icx": "--gcc-install-dir=a folder\n", "icpx": "--gcc-install-dir=another\n"},
)  # fmt: skip
_LINKED = Installer("/opt/my tools/uv", "1.2.3", Path("/somewhere/cache/uv"))
_SERVED = Downloads(Path("/somewhere/mirror"), pip={"PIP_FIND_LINKS": "file:///somewhere/mirror/index.html"})


def prepared_for(name: str, **asked: Any) -> Prepared:
    target = target_for(name, **asked)
    return Prepared(target, make_plan(target), target.recipe.needs.disk_gib)


#: Name of the file -> the plan in it. Each route through the planner is in one of them.
PLANS: dict[str, Callable[[], Plan]] = {
    "quickstart-conda-offline": lambda: plan_for(
        "quickstart", facts={"conda_lock": write_lock(_LOCK), "downloads": _MIRROR}
    ),
    "quickstart-editable-with-edits": lambda: plan_for(
        "quickstart", editable=True, allow_dirty=True, facts={"dirty": {"ops": "5" * 64}}
    ),
    "2.14-xpu-triton": lambda: plan_for("2.14", oneapi="2026.1", with_=("triton",)),
    "2.13-cpu-waiting-ccache": lambda: plan_for(
        "2.13", workspace="/somewhere/builds", with_=("vision",),
        facts={"compile_cache": _CCACHE, "admission": _ADMISSION},
    ),
    "2.13-xpu-compilers-uv": lambda: plan_for(
        "2.13", oneapi="2025.3",
        facts={
            "compile_cache": _CCACHE, "compilers": _CHOSEN, "installer": _LINKED, "downloads": _SERVED,
        },
    ),
    "2.13-xpu-rehearsed": lambda: planned(
        prepared_for("2.13", oneapi="2025.3", with_=("vision",))
    ).plan,
}  # fmt: skip
#: The files that have the script of their plan too.
_SCRIPTS = frozenset({"2.13-cpu-waiting-ccache", "2.13-xpu-compilers-uv"})


def text_of(name: str) -> str:
    plan = PLANS[name]()
    document = {
        "summary": {name: _said(name, value) for name, value in plan.summary.items()},
        "files": {path: _lines(text.splitlines()) for path, text in plan.files.items()},
        "steps": [_step(step) for step in plan.steps],
    }
    if name in _SCRIPTS:
        blocks = re.split(r"\n\n(?=printf)", script(plan))
        document["script"] = [_lines(block.splitlines()) for block in blocks]
    return re.sub(r"\b[0-9a-f]{64}\b", "{sha256}", dumped(placed(document, _PLACES)))


def _said(name: str, value: Any) -> Any:
    """Return a value of the summary; of sentences, how many there are, of the recipe its name."""
    if name == "recipe":
        return str(value).partition(":")[0]
    return len(value) if name in _SENTENCES else _plain(value)


def _step(step: Step) -> dict[str, Any]:
    shown = _fields(step)
    shown["commands"] = [_command(command) for command in step.commands]
    shown["proofs"] = [proof.key() for proof in step.proofs]
    return {
        "id": step.id,
        **{key: value for key, value in shown.items() if value},
    }


def _command(command: Command) -> dict[str, Any]:
    shown = _fields(command)
    return shown if command.portable is None else {**shown, "portable": _lines(command.portable)}


def _lines(lines: Sequence[str]) -> Sequence[str] | str:
    return list(lines) if sum(map(len, lines)) < _LONG else f"more than {_LONG} characters"


def _fields(item: Any) -> dict[str, Any]:
    found = {field.name: getattr(item, field.name) for field in fields(item)}
    return {name: _plain(value) for name, value in found.items() if value}


def _plain(value: Any) -> Any:
    """Return a value as YAML has it: a function by its name and what it is given."""
    if isinstance(value, functools.partial):
        return {value.func.__name__: [_plain(item) for item in value.args], **_plain(value.keywords)}
    if is_dataclass(value):
        return {type(value).__name__: _fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return (
        value if isinstance(value, (str, int, float, type(None))) else getattr(value, "__name__", str(value))
    )
