"""The host report: all facts about this machine, gathered in parallel, without raising."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from xpubuild.documents import plain
from xpubuild.engine.answers import FRESH, Answers
from xpubuild.engine.environment import base_environment
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.capacity import CpuFacts, MemoryFacts, cgroup_limits, cpu_facts, memory_facts
from xpubuild.machine.compilers import (
    COMPILERS,
    TOOLS,
    CompilerFacts,
    ToolFacts,
    locate,
    probe_compiler,
    probe_tool,
)
from xpubuild.machine.disk import DiskFacts, disk_facts
from xpubuild.machine.drivers import DriverFacts, find_drivers
from xpubuild.machine.gpus import GpuFacts, find_gpus
from xpubuild.machine.oneapi_installed import find_installations
from xpubuild.machine.pythons import PythonFacts, find_pythons, probe_python
from xpubuild.machine.readers import LIVE_ROOT
from xpubuild.machine.system import OsFacts, os_facts

T = TypeVar("T")

_IMAGE_PATH = "/usr/local/bin:/usr/bin:/bin"
# A program that ignores its deadline and two signals is killed after 18 s; one that not even then ends hangs
# in the kernel. Its output stays unknown.
_DEADLINE_S = 20.0


@frozen
class PythonReport:
    """``selected`` is the interpreter that was asked for (or python3 on PATH); ``found`` all on PATH."""

    selected: PythonFacts | None
    found: tuple[PythonFacts, ...]


@frozen
class OneapiFacts:
    """One component of a oneAPI installation; ``version`` is the name of its folder."""

    root: str
    component: str
    version: str


@frozen
class HostReport:
    """What this machine is. Text that could not be read is `unknown`, a number or yes/no is null."""

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
    answers: Answers = FRESH,
) -> HostReport:
    """Gather the facts; never raises.

    With a ``root`` other than / (an unpacked image, a fake tree) only files below it are read and nothing is
    run. ``workspace`` is where disk space matters (default: the current folder, or ``root``), ``python`` the
    interpreter to look at, ``environment`` the one whose PATH counts, ``oneapi_root`` the only oneAPI that is
    looked at, ``answers`` remembers earlier output of programs.
    """
    live = root == LIVE_ROOT
    env = dict(base_environment() if environment is None else environment)
    search_path = env.get("PATH", "") if live else _IMAGE_PATH
    limits = cgroup_limits(root)
    place = workspace or (Path() if live else root)
    compilers = locate(COMPILERS, search_path) if live else {}
    tools = locate(TOOLS, search_path) if live else {}
    selected = python or (Path(path) if (path := locate(("python3",), search_path).get("python3")) else None)
    # An interpreter takes longer to start than a compiler, so it is the first.
    chosen = _begun(partial(probe_python, selected, env, answers=answers)) if live and selected else None
    asked_compilers = [
        (_begun(partial(probe_compiler, path, env, answers)), CompilerFacts(name, path))
        for name, path in compilers.items()
    ]
    asked_tools = [
        (_begun(partial(probe_tool, path, env, answers)), ToolFacts(name, path))
        for name, path in tools.items()
    ]
    end = time.monotonic() + _DEADLINE_S
    silent = PythonFacts(str(selected), error="timed out")
    return HostReport(
        gpus=find_gpus(root),
        os=os_facts(root),
        cpu=cpu_facts(root, limits),
        memory=memory_facts(root, limits),
        disk=disk_facts(place, root),
        drivers=find_drivers(root),
        oneapi=_oneapi(root, oneapi_root),
        python=PythonReport(_said(chosen, end, silent) if chosen else None, find_pythons(search_path, root)),
        compilers=tuple(_said(asked, end, unknown) for asked, unknown in asked_compilers),
        tools=tuple(_said(asked, end, unknown) for asked, unknown in asked_tools),
    )


def _begun(ask: Callable[[], T]) -> Future[T]:
    """Start to ask a program. The thread is a daemon: one that never ends does not keep this process."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(ask())
        except Exception as error:  # noqa: BLE001 - it is raised again where the answer is wanted
            future.set_exception(error)

    threading.Thread(target=work, name="host", daemon=True).start()
    return future


def _said(asked: Future[T], end: float, silent: T) -> T:
    """Return the answer, or what is known without one when the time is over."""
    wait((asked,), max(0.0, end - time.monotonic()))
    return asked.result() if asked.done() else silent


def _oneapi(root: Path, explicit: Path | None) -> tuple[OneapiFacts, ...]:
    # The caller's own variables count, ONEAPI_ROOT for one; base_environment() has none of them.
    caller = dict(os.environ) if root == LIVE_ROOT else {}
    try:
        places = find_installations(explicit, caller, root=root)
    except UsageError:  # the build says that there is none
        return ()
    found = []
    for place in places:
        shown = place.real if root == LIVE_ROOT else "/" / place.real.relative_to(root)
        own = {item.name for item in place.components if item.layout == "component"}
        # A toolkit's folder is usually a view of components that are listed with their own versions already.
        listed = [item for item in place.components if item.layout == "component" or item.name not in own]
        found += [OneapiFacts(str(shown), item.name, item.version) for item in listed]
    return tuple(found)
