"""The façade: everything known about this machine, gathered side by side, without raising."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpubuild.engine.environment import base_environment
from xpubuild.host.capacity import CpuFacts, MemoryFacts, cpu_facts, memory_facts
from xpubuild.host.cgroup import cgroup_limits
from xpubuild.host.disk import DiskFacts, disk_facts
from xpubuild.host.drivers import DriverFacts, find_drivers
from xpubuild.host.gpus import GpuFacts, find_gpus
from xpubuild.host.pythons import PythonFacts, find_pythons, probe_python
from xpubuild.host.readers import LIVE_ROOT, plain
from xpubuild.host.system import OsFacts, os_facts
from xpubuild.host.tools import (
    COMPILERS,
    TOOLS,
    CompilerFacts,
    ToolFacts,
    locate,
    probe_compiler,
    probe_tool,
)
from xpubuild.oneapi.report import installed

_IMAGE_PATH = "/usr/local/bin:/usr/bin:/bin"
_THREADS = 8


@dataclass(frozen=True)
class PythonReport:
    """``selected`` is the interpreter that was asked for (or python3 on PATH); ``found`` all on PATH."""

    selected: PythonFacts | None
    found: tuple[PythonFacts, ...]


@dataclass(frozen=True)
class OneapiFacts:
    """One component of a oneAPI installation; ``version`` is the name of its folder."""

    root: str
    component: str
    version: str


@dataclass(frozen=True)
class HostReport:
    """What this machine is. Text that could not be read is 'unknown', a number or yes/no is None."""

    gpus: tuple[GpuFacts, ...]
    os: OsFacts
    cpu: CpuFacts
    memory: MemoryFacts
    disk: DiskFacts
    python: PythonReport
    compilers: tuple[CompilerFacts, ...]
    tools: tuple[ToolFacts, ...]
    drivers: tuple[DriverFacts, ...] = ()
    oneapi: tuple[OneapiFacts, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as the ``host`` object of JSON documents."""
        document: dict[str, Any] = plain(self)
        return document


def host_report(
    root: Path = LIVE_ROOT,
    *,
    workspace: Path | None = None,
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
    oneapi_root: Path | None = None,
) -> HostReport:
    """Gather the facts; never raises.

    With a ``root`` other than / (an unpacked image, a fake tree) only files below it are read and nothing is
    run. ``workspace`` is where disk space matters (default: the current folder, or ``root``), ``python`` the
    interpreter to look at, ``environment`` the one whose PATH counts, ``oneapi_root`` the only oneAPI that is
    looked at.
    """
    live = root == LIVE_ROOT
    env = dict(base_environment() if environment is None else environment)
    search_path = env.get("PATH", "") if live else _IMAGE_PATH
    limits = cgroup_limits(root)
    place = workspace or (Path() if live else root)
    compilers = locate(COMPILERS, search_path) if live else {}
    tools = locate(TOOLS, search_path) if live else {}
    selected = python or (Path(path) if (path := locate(("python3",), search_path).get("python3")) else None)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="host") as pool:
        # The slowest first: an interpreter takes longer to start than a compiler.
        chosen = pool.submit(probe_python, selected, env) if live and selected else None
        compiler_facts = [pool.submit(probe_compiler, path, env) for path in compilers.values()]
        tool_facts = [pool.submit(probe_tool, path, env) for path in tools.values()]
        return HostReport(
            gpus=find_gpus(root),
            os=os_facts(root),
            cpu=cpu_facts(root, limits),
            memory=memory_facts(root, limits),
            disk=disk_facts(place, root),
            python=PythonReport(chosen.result() if chosen else None, find_pythons(search_path, root)),
            compilers=tuple(future.result() for future in compiler_facts),
            tools=tuple(future.result() for future in tool_facts),
            drivers=find_drivers(root),
            oneapi=_oneapi(root, oneapi_root),
        )


def _oneapi(root: Path, explicit: Path | None) -> tuple[OneapiFacts, ...]:
    # The caller's own variables count, ONEAPI_ROOT for one; base_environment() has none of them.
    caller = dict(os.environ) if root == LIVE_ROOT else {}
    return tuple(
        OneapiFacts(found["root"], component["name"], component["version"])
        for found in installed(explicit_root=explicit, caller_env=caller, root_dir=root)
        for component in found["components"]
    )
