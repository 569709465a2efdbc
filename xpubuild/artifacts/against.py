"""Built against the torch of the workspace: what a tree requires of it is answered by what is installed.

Upstreams pin the torch that they were released with. In a copy of the tree, a requirement that the installed
torch, triton, torchvision or torchaudio does not meet is given the installed version. Nothing is built in
isolation, so that this is the torch which is compiled and linked with, and the METADATA that is made of these
files says so. What only a program writes into METADATA is not changed: the wheel is refused.
"""

from __future__ import annotations

import email
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.freeze import TRITON
from xpubuild.artifacts.site_packages import installed_dists, requirements_in
from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.model import SimpleProof
from xpubuild.errors import AuditError, RecipeError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Below the folder that a component is built in: the copy of its tree, and what was rewritten there.
TREE, NOTE = "tree", "rewritten.json"
_PYPROJECT = "pyproject.toml"
_COMPANIONS = ("torch", "torchvision", "torchaudio", *TRITON)


def held(site_packages: Path) -> dict[str, str]:
    """Return normalised name -> NAME==VERSION of what is installed; triton goes by each of its names."""
    dists = (dist for dist in installed_dists(site_packages) if dist.name in _COMPANIONS)
    found = {dist.name: f"{dist.name}=={dist.version}" for dist in dists}
    triton = [found[name] for name in TRITON if name in found]
    return {**(dict.fromkeys(TRITON, triton[0]) if triton else {}), **found}


def answer(text: str, known: Mapping[str, str]) -> str | None:
    """Return a requirement with the version that is installed; None where it is met, or is about no torch."""
    try:
        asked = Requirement(text)
    except InvalidRequirement:
        return None
    name, _, version = known.get(canonicalize_name(asked.name), "").partition("==")
    met = name == canonicalize_name(asked.name) and asked.specifier.contains(version, prereleases=True)
    if not name or (met and asked.url is None):
        return None
    extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
    return f"{name}{extras}=={version}{''.join(text.partition(';')[1:])}"


def rewrite(tree: Path, into: Path, folder: str, files: Sequence[str], site_packages: Path) -> Iterator[str]:
    """Copy a tree below ``into`` and answer the requirements of the copy; yield what was rewritten.

    ``files`` are requirement files beside the pyproject.toml in ``folder`` of the tree.

    Raises:
        RecipeError: the tree has no such file.
    """
    copy, known, done = into / TREE, held(site_packages), list[dict[str, str]]()
    with explained(copy, f"copying {tree}"):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tree, copy, symlinks=True, copy_function=_copied)
    pyproject = [_PYPROJECT] if (copy / folder / _PYPROJECT).is_file() else []
    for name in (*pyproject, *files):
        file = copy / folder / name
        text = before = read_text(file, copy)
        if text is None or not file.resolve().is_relative_to(copy.resolve()):
            raise RecipeError(
                f"{tree / folder} has no requirement file {name}",
                why="it is listed in build.against of the component",
                fix="correct the list, or pin the commit that it was written for",
            )
        toml = name == _PYPROJECT
        form = r"""(["']){}\1""" if toml else r"(?m)^()[ \t]*{}(?=[ \t]*(?:#|$))"
        lines = (re.split(r"(?:^|\s)#", line)[0].strip() for line in text.splitlines())
        for asked in dict.fromkeys(_of_toml(text) if toml else lines):
            if (now := answer(asked, known)) is None:
                continue
            new = "\\g<1>{}\\g<1>".format(now.replace("\\", "\\\\"))
            text, count = re.subn(form.format(re.escape(asked)), new, text)
            if count:
                done.append({"file": name, "asked": asked, "answered": now})
                yield f"{name}: {asked} is answered by {now}"
        if text != before:
            write_atomic(file, f"{text}\n".encode())
    write_atomic(into / NOTE, json.dumps(done).encode())


def _copied(source: str, target: str) -> None:
    # Not after the whole tree: copytree collects what the system says, and loses what it was.
    with explained(Path(target), f"copying {source}"):
        shutil.copy2(source, target)


def _of_toml(text: str) -> Iterator[str]:
    """Yield the requirements that a pyproject.toml states, those of extras among them."""
    document = tomllib.loads(text)
    tables = [table for name in ("build-system", "project") if isinstance(table := document.get(name), dict)]
    keys = ("requires", "dependencies", "optional-dependencies")
    yield from _texts([table.get(key) for table in tables for key in keys])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


@frozen
class AgainstProof(SimpleProof):
    """A wheel in ``stage`` requires the torch that it was built against; ``note`` has what was rewritten."""

    words = "METADATA requires no other torch, triton, torchvision or torchaudio than is installed"
    places = frozenset(["stage", "note"])

    stage: str
    site_packages: str
    note: str

    def check(self) -> dict[str, Any]:
        """Return what was rewritten, what METADATA requires of torch, and what is installed.

        Raises:
            AuditError: it requires another one.
        """
        known, note = held(Path(self.site_packages)), Path(self.note)
        wheel = next(Path(self.stage).rglob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            headers = email.message_from_bytes(archive.read(names[0]))
        asked = [str(item) for item in requirements_in(headers.get_all("Requires-Dist", []))
                 if canonicalize_name(item.name) in known]  # fmt: skip
        others = {text: now for text in asked if (now := answer(text, known)) is not None}
        if others:
            raise AuditError(
                f"{wheel.name} requires another torch than it was built against",
                why="; ".join(f"METADATA requires {text}, built with {now}" for text, now in others.items()),
                fix="list the requirement file that its build reads in build.against of the component",
                evidence={"requires": asked, "installed": sorted({*known.values()})},
            )
        done = json.loads(note.read_text("utf-8")) if note.is_file() else []
        return {"against": {"rewritten": done, "requires": asked, "installed": sorted({*known.values()})}}
