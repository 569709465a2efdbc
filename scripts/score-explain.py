#!/usr/bin/env python3
"""Scores explain on real failures: right family first, misleading, empty, helpful; by family and confidence.

FILE is a YAML list of entries with ``id``, ``text`` (or ``error``), ``families`` (or ``family`` and
``accept_families``), ``fix`` and ``helpful``. A finding misleads if it is shown as likely (0.5 and more) and
its family is none of the accepted ones. A command is helpful if it, or the fix beside it, has one of the
strings in ``helpful``, which were written when it was gathered. Entries without are judged by their fix:
command and fix have to share a program, package, variable or option with it, and those whose fix names none
are not judged. ``--misses`` prints what a person has to read.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xpubuild.distribution import System
from xpubuild.explain.document import Circumstances, Explanation, explain_stream
from xpubuild.explain.rank import LikelyCause

LIKELY = 0.5
_SHOWN = 14
BANDS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.0)
_PROGRAMS = frozenset(
    re.split(
        r"\s+",
        """apt apt-get binutils ccache clang clinfo cmake conda dnf docker dpkg dracut driver firmware g++
        gcc git icpx kernel ldconfig libstdc++ linux-firmware make mamba mkl modprobe module mpirun
        newer nightly ninja numpy ocloc oneapi openmpi pip pip3 podman proxy reboot release render
        report revision sccache setuptools setvars.sh submodule submodules swap sycl-ls sysctl torch
        triton update-initramfs upstream usermod uv yum zypper""",
    )
)
#: In place of a family: none of the first list (A to R, Z-single) fits; then any that was added since does.
NO_FAMILY = "none-fits"
_ADDED = re.compile(r"[S-Y]-|[A-Z]{2}-")
_WORD = re.compile(r"[A-Za-z_][\w.+:-]*[\w+]|-{1,2}[A-Za-z][\w-]*")


@dataclass(frozen=True)
class Case:
    """One entry, and what explain says about it."""

    entry: Mapping[str, Any]
    answer: Explanation

    @property
    def first(self) -> LikelyCause | None:
        """The finding that is shown first."""
        return next(iter(self.answer.findings), None)

    @property
    def families(self) -> tuple[str, ...]:
        """The accepted families, the best first."""
        return tuple(
            self.entry.get("families") or (self.entry["family"], *self.entry.get("accept_families", ()))
        )

    @property
    def right(self) -> bool:
        """Whether the first finding is of an accepted family."""
        if self.first is None:
            return False
        return self.first.family in self.families or (
            NO_FAMILY in self.families and bool(_ADDED.match(self.first.family))
        )

    @property
    def misleading(self) -> bool:
        """Whether the first finding is wrong and told as likely."""
        return self.first is not None and not self.right and self.first.confidence >= LIKELY

    @property
    def helpful(self) -> bool | None:
        """Whether the command or the fix is of the kind that helped there; None if that cannot be judged."""
        told = f"{self.first.next_command} {self.first.fix}" if self.first else ""
        if self.entry.get("helpful"):
            return any(text.lower() in told.lower() for text in self.entry["helpful"])
        wanted = _names(self.entry.get("fix") or "")
        if not wanted:
            return None
        return bool(wanted & _names(told))


def _excerpt(entry: Mapping[str, Any]) -> str:
    return str(entry.get("text") or entry["error"])


def _names(text: str) -> set[str]:
    words = {word.lower().rstrip(".:,") for word in _WORD.findall(text)}
    return {word for word in words if word in _PROGRAMS or re.search(r"[_+.\d]|^-|\w-\w", word)}


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--misses", action="store_true", help="print what was missed, with its excerpt")
    parser.add_argument("--distribution", default="debian", help="whose package names are wanted")
    options = parser.parse_args()
    entries = [item for path in options.file for item in yaml.safe_load(path.read_text("utf-8"))]
    known = Circumstances(system=System((options.distribution,)))
    cases = [Case(item, explain_stream(io.BytesIO(_excerpt(item).encode()), known)) for item in entries]
    sys.stdout.write("\n".join([*_summary(cases), "", *_by_family(cases), "", *_by_confidence(cases)]) + "\n")
    if options.misses:
        sys.stdout.write("\n".join(_misses(cases)) + "\n")
    return 0


def _summary(cases: list[Case]) -> Iterable[str]:
    judged = [case for case in cases if case.helpful is not None]
    rows = (
        ("right family first", sum(case.right for case in cases), len(cases)),
        ("wrong family first", sum(case.first is not None and not case.right for case in cases), len(cases)),
        ("misleading", sum(case.misleading for case in cases), len(cases)),
        ("no finding", sum(case.first is None for case in cases), len(cases)),
        ("neither finding nor first error", sum(_silent(case) for case in cases), len(cases)),
        ("helpful command", sum(bool(case.helpful) for case in judged), len(judged)),
    )
    for name, count, total in rows:
        yield f"{name:32} {count:4} of {total:4}  {count / max(total, 1):5.0%}"


def _silent(case: Case) -> bool:
    return case.first is None and case.answer.first_error is None


def _by_family(cases: list[Case]) -> Iterable[str]:
    yield f"{'family':42} right  of"
    for name in sorted({case.families[0] for case in cases}):
        of = [case for case in cases if case.families[0] == name]
        yield f"{name:42} {sum(case.right for case in of):5} {len(of):3}"


def _by_confidence(cases: list[Case]) -> Iterable[str]:
    yield "confidence     right  of"
    top = 1.01
    for least in BANDS:
        of = [case for case in cases if case.first is not None and least <= case.first.confidence < top]
        yield f"{least:.1f} to {min(top, 1.0):.1f}   {sum(case.right for case in of):7} {len(of):3}"
        top = least


def _misses(cases: list[Case]) -> Iterable[str]:
    for case in cases:
        if case.right and case.helpful is not False:
            continue
        found = case.first
        yield f"\n## {case.entry['id']}: {case.families} ({'right' if case.right else 'WRONG'})"
        yield "\n".join("    " + line[:200] for line in _excerpt(case.entry).rstrip().split("\n")[:_SHOWN])
        yield f"    fix wanted: {case.entry.get('fix')} {case.entry.get('helpful', '')}"
        if found:
            yield f"  -> {found.confidence} {found.family} {found.id}: {found.next_command} # {found.fix}"
        else:
            error = case.answer.first_error
            yield f"  -> nothing; first error: {error and error.text[:150]}"


if __name__ == "__main__":
    sys.exit(main())
