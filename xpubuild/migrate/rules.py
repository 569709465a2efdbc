"""The table of ``rules.yaml`` for one target and one torch: what is written for a name, or why nothing is."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from xpubuild.errors import UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.migrate import names
from xpubuild.safe_yaml import read_yaml

Target = Literal["accelerator", "xpu"]
#: The releases since which torch.accelerator exists, answers for a torch without a GPU, and torch has xccl.
_ACCELERATOR, _ANSWERS, _XCCL = Version("2.6"), Version("2.7"), Version("2.8")
_CUDA, _XPU = "torch.cuda.", "torch.xpu."
#: Modules of torch.xpu, which the table of names does not list.
_XPU_MODULES = ("graphs", "memory", "random", "streams")


@frozen
class Reason:
    """Why something is left as it is, and what a person can do."""

    id: str
    why: str
    instead: str
    source: str
    #: "finding", or "note" for what needs no change.
    level: str = "finding"


@frozen
class Found:
    """Something that was left as it is."""

    line: int
    text: str
    reason: Reason


@frozen
class Rewritten:
    """A file after the rewrite: its text, how many places changed, and what was left."""

    text: str
    edits: int
    found: tuple[Found, ...]


@frozen
class Written:
    """What is written for a name: an expression with {torch} and {device} to fill in."""

    text: str
    #: Its row in ``add_device``.
    device: str = ""


@functools.cache
def table() -> Mapping[str, Any]:
    """Return the table as it is."""
    found: Mapping[str, Any] = read_yaml(Path(__file__).with_name("rules.yaml").read_text("utf-8"))
    return found


def reason(kind: str, key: str, **words: str) -> Reason:
    """Return a row of the table as a reason; ``words`` are filled in."""
    row = table()[kind] if kind == "legacy_type" else table()[kind][key]
    texts = [row[name].format(**words) if words else row[name] for name in ("why", "instead", "source")]
    why, instead, source = texts
    return Reason(key, why, instead, source, "note" if kind == "notes" else "finding")


@frozen
class Rules:
    """The rules for one target and the names that the chosen torch has."""

    to: Target
    release: str
    has: frozenset[str]

    @property
    def version(self) -> Version:
        """The release without what stands behind it, such as +cpu."""
        return Version(Version(self.release).public)

    @property
    def definition(self) -> str:
        """The expression that names the device of this torch; "cuda" where it has none, as it was before."""
        current = "{torch}.accelerator.current_accelerator()"
        if self.version >= _ANSWERS:
            return f'str({current} or "cuda")'
        return f'{current}.type if {{torch}}.accelerator.is_available() else "cuda"'

    @property
    def backend(self) -> str | None:
        """The backend of torch.distributed for the device; None where this torch has none for XPU."""
        if self.version < _XCCL:
            return None
        if self.to == "xpu":
            return '"xccl"'
        return "{torch}.distributed.get_default_backend_for_device({device})"

    def look_up(self, name: str) -> Written | Reason | None:
        """Return what is written for a full name, or why nothing is; None for a name of no concern."""
        return self._finding(name) or self._elsewhere(name) or self._of_cuda(name) or self._of_xpu(name)

    def _finding(self, name: str) -> Reason | None:
        for kind in ("findings", "notes"):
            for key in table()[kind]:
                if name == key or name.startswith(f"{key}."):
                    return reason(kind, key)
        last = name.rpartition(".")[2]
        if name.startswith(_CUDA) and last.endswith("Tensor"):
            return reason("legacy_type", "torch.cuda.tensor-type")
        return None

    def _elsewhere(self, name: str) -> Written | Reason | None:
        if name == "torch.profiler.ProfilerActivity.CUDA":
            activity = "{torch}.profiler.ProfilerActivity"
            if self.to == "xpu":
                return Written(f"{activity}.XPU")
            return Written(f"getattr({activity}, {{device}}.upper())")
        target = table()["elsewhere"].get(name)
        if target is None:
            return None
        if target not in self.has:
            return self._without(name)
        return Written(_of_torch(target), table()["add_device"].get(name, ""))

    def _of_cuda(self, name: str) -> Written | Reason | None:
        if name in ("torch.cuda", "torch.cuda.amp"):
            return reason("own", "as-a-value", name=name)
        if not name.startswith(_CUDA):
            return None
        last = name.removeprefix(_CUDA)
        last = table()["renamed"].get(last, last)
        general = table()["accelerator"].get(last)
        if self.to == "accelerator" and general in self.has:
            return Written(_of_torch(general))
        if f"torch.xpu.{last}" not in self.has:
            return self._without(name)
        if self.to == "xpu":
            return Written(f"{{torch}}.xpu.{last}")
        return Written(f"{{torch}}.get_device_module({{device}}).{last}")

    def _of_xpu(self, name: str) -> Reason | None:
        """Report what only a later torch or Intel's extension has."""
        last = name.removeprefix(_XPU).partition(".")[0]
        known = last in _XPU_MODULES or last.startswith("_") or f"{_XPU}{last}" in self.has
        return None if not name.startswith(_XPU) or known else self._without(name)

    def _without(self, name: str) -> Reason:
        first = names.first_release(f"{_XPU}{name.removeprefix(_CUDA).removeprefix(_XPU)}")
        later = first is not None and Version(first) > self.version
        since = f"; torch.xpu has it since torch {first}" if later else ""
        return reason("own", "no-counterpart", name=name, release=self.release, since=since)


def _of_torch(name: str) -> str:
    return "{torch}" + name.removeprefix("torch")


def rules_for(to: Target, release: str | None, python: str | None) -> Rules:
    """Return the rules for a release, the torch of an interpreter, or the newest release.

    Raises:
        UnsatisfiableError: this torch has no such target, or its release is not in the table.
        ToolchainError: the interpreter has no torch.
    """
    if python is not None:
        release, has = names.of_interpreter(python)
    else:
        release = release or names.releases()[-1]
        has = names.of_release(release)
    rules = Rules(to, release, has)
    if to == "accelerator" and rules.version < _ACCELERATOR:
        raise UnsatisfiableError(
            f"torch {release} has no torch.accelerator",
            why=f"it came with torch {_ACCELERATOR}",
            fix="rewrite for torch.xpu, or choose a later torch",
            commands=("xpubuild migrate PATH --to xpu",),
        )
    return rules
