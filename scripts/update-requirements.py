#!/usr/bin/env python3
"""Make recipes/requirements/*.txt from the short lists (*.in) beside them.

For developers of xpubuild; it needs uv (``pip install uv``). Pins that are in the output already are kept,
unless ``--upgrade`` is given. Pip's index and wheel folders are handed on to uv, which does not read pip's
configuration; none of it is written into the output.

A file ``NAME.sha256`` beside ``NAME.in`` lists wheels by hash whose index shows only some of them on any one
machine. Its hashes replace those that uv saw, and its comments, which name the sources, go into the output.

A line ``# leave out: NAME...`` in ``NAME.in`` names what is resolved but not written: dependencies that are
not installed. The recipes name them too (toolchain.leave_out).
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import ToolchainError, XpuBuildError

FOLDER = Path(__file__).resolve().parent.parent / "recipes" / "requirements"
OLDEST_PYTHON = "3.10"
# Not extra-index-url: uv takes the files of a version from one index, and an extra one may hold but a few.
_OPTION_OF = {"index-url": "--index-url", "find-links": "--find-links"}
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LEFT_OUT = re.compile(r"^# leave out: (.+)$", re.MULTILINE)
_LISTED = re.compile(r"^([0-9a-f]{64})  (\S+\.whl)$")


@dataclass
class Listed:
    """Wheels known by hash, from a ``.sha256`` file."""

    comments: list[str] = field(default_factory=list)
    hashes: dict[tuple[str, str], set[str]] = field(default_factory=dict)


def pip_locations() -> list[str]:
    """Return uv options for the index and the wheel folders that pip is configured with."""
    listing = query([sys.executable, "-m", "pip", "config", "list"], env=base_environment())
    options: list[str] = []
    for line in listing.stdout.splitlines():
        name, _, quoted = line.partition("=")
        option = _OPTION_OF.get(name.rpartition(".")[2])
        if option:
            options += [item for place in str(ast.literal_eval(quoted)).split() for item in (option, place)]
    return options


def read_listed(path: Path) -> Listed:
    """Read a ``.sha256`` file: comments, then ``HASH  WHEEL`` lines as sha256sum prints them."""
    listed = Listed()
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        if line.startswith("#"):
            listed.comments.append(line)
        elif match := _LISTED.match(line):
            name, version, _, _ = parse_wheel_filename(match[2])
            listed.hashes.setdefault((name, str(version)), set()).add(match[1])
        elif line.strip():
            raise ToolchainError(f"{path.name} has a line that is neither a comment nor a hash: {line}")
    return listed


def compile_with_uv(uv: str, source: Path, places: list[str], upgrade: bool) -> str:
    """Return what uv makes of one list: every pin with the hashes of all its files."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.txt"
        previous = source.with_suffix(".txt")
        if previous.exists() and not upgrade:
            shutil.copyfile(previous, output)
        argv = [
            uv, "pip", "compile", "--universal", "--python-version", OLDEST_PYTHON, "--generate-hashes",
            "--only-binary", ":all:", "--no-header", "--quiet", *places,
            source.name, "--output-file", str(output),
        ]  # fmt: skip
        result = query(argv, env=base_environment(), cwd=source.parent, deadline_s=300)
        if not result.ok:
            raise ToolchainError(f"uv could not resolve {source.name}", why=result.stderr.strip())
        return output.read_text("utf-8")


def blocks_of(text: str) -> list[list[str]]:
    """Cut a requirements file into its entries: a pin with its hash and comment lines."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _PIN.match(line):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    return blocks


def with_listed_hashes(block: list[str], listed: Listed) -> tuple[bool, list[str]]:
    """Return whether the entry is listed, and the entry with the hashes of the list."""
    match = _PIN.match(block[0])
    hashes = listed.hashes.get((canonicalize_name(match[1]), match[2])) if match else None
    if not hashes:
        return False, block
    unknown = set(_HASH.findall("\n".join(block))) - hashes
    if unknown:
        raise ToolchainError(f"uv found a wheel of {block[0]} that the .sha256 file does not list: {unknown}")
    lines = [f"    --hash=sha256:{item}" for item in sorted(hashes)]
    comments = [line for line in block if line.lstrip().startswith("#")]
    return True, [block[0], *(line + " \\" for line in lines[:-1]), lines[-1], *comments]


def left_out(text: str) -> list[str]:
    """Return the names that the text of an ``.in`` file leaves out."""
    return sorted({canonicalize_name(name) for line in _LEFT_OUT.findall(text) for name in line.split()})


def without(blocks: list[list[str]], names: list[str]) -> list[list[str]]:
    """Return the entries less some; a name that is not among them is an error: the list is out of date."""
    kept, gone = [], set()
    for block in blocks:
        match = _PIN.match(block[0])
        name = canonicalize_name(match[1]) if match else ""
        if name in names:
            gone.add(name)
        else:
            kept.append(block)
    if gone != set(names):
        raise ToolchainError(f"nothing declares {', '.join(sorted(set(names) - gone))}, which is left out")
    return kept


def render(source: Path, compiled: str, listed: Listed, names: Sequence[str] = ()) -> str:
    """Return the finished file; listed entries come first: pip misses them before it downloads others."""
    blocks = without(blocks_of(compiled), list(names))
    entries = [with_listed_hashes(block, listed) for block in blocks]
    ordered = [lines for first in (True, False) for is_listed, lines in entries if is_listed is first]
    header = [
        f"# Made by scripts/update-requirements.py from {source.name}; change that file, not this one.",
        *([f"# Not in it, although something in it declares them: {', '.join(names)}."] if names else []),
        *listed.comments,
    ]
    return "\n".join([*header, *(line for lines in ordered for line in lines)]) + "\n"


def update(uv: str, extra: list[str], upgrade: bool) -> None:
    """Rewrite every ``.txt``; a list may constrain itself to one that sorts before it."""
    places = [*pip_locations(), *extra]
    for source in sorted(FOLDER.glob("*.in")):
        compiled = compile_with_uv(uv, source, places, upgrade)
        listed = read_listed(source.with_suffix(".sha256"))
        text = render(source, compiled, listed, left_out(source.read_text("utf-8")))
        source.with_suffix(".txt").write_text(text, "utf-8")
        sys.stderr.write(f"{source.with_suffix('.txt').name}: {len(blocks_of(text))} pins\n")


def main() -> int:
    """Run the tool; errors are one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--uv", default="uv", help="the uv program (default: from PATH)")
    parser.add_argument("--upgrade", action="store_true", help="move pins to the newest allowed versions")
    parser.add_argument("--extra-index-url", action="append", default=[], help="one more index for uv")
    arguments = parser.parse_args()
    try:
        extra = [item for url in arguments.extra_index_url for item in ("--extra-index-url", url)]
        update(arguments.uv, extra, arguments.upgrade)
    except XpuBuildError as error:
        sys.stderr.write(f"{error.what}\n{error.why}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
