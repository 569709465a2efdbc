"""The build options of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Literal

import platformdirs

from xpubuild.engine.events import NullSink, Sink
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_select import Mode
from xpubuild.recipe.values import Target
from xpubuild.supply.caching import Wanted
from xpubuild.supply.depot.location import Location

#: What the environment of a workspace consists of.
EnvKind = Literal["venv", "conda"]
#: What is asked to install hashed requirement files.
InstallerKind = Literal["auto", "pip"]
#: How the machine of a lock is compared with this one.
Policy = Literal["exact", "compatible", "ignore"]
#: A lock is known by a line near its beginning, so that no other command imports what reads one.
_SCHEMA_LINE = ("schema: xpubuild.lock/", 'schema: "xpubuild.lock/')
_HEAD_LINES = 20
#: More than any machine has cores; a larger number is a slip of the hand.
MOST_JOBS = 4096


@frozen
class Resolved:
    """A commit that the recipe leaves open and that upstream was asked for."""

    ref: str
    """Tag or branch of the recipe."""
    commit: str
    url: str
    when: str
    """When it was asked; the workspace keeps it until --update."""


@frozen
class Options:
    """The build options as the command line gives them."""

    recipe: str | None
    workspace: Path | None = None
    with_: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    cxx11_abi: str | None = None
    target: Target | None = None
    variant: str | None = None
    arch: tuple[str, ...] = ()
    python: str | None = None
    jobs: str = "auto"
    oneapi_root: Path | None = None
    oneapi_mode: Mode = "components"
    extra_path: tuple[Path, ...] = ()
    extra_library_path: tuple[Path, ...] = ()
    editable: bool = False
    allow_dirty: bool = False
    source_dir: Mapping[str, Path] = field(default_factory=dict)
    quick: bool = False
    update: bool = False
    mirror: Path | Location | None = None
    store: tuple[Path | Location, ...] = ()
    store_read_only: bool | None = None
    offline: bool = False
    installer: InstallerKind = "auto"
    packages: EnvKind = "venv"
    conda_lock: Path | None = None
    conda_channel: tuple[str, ...] = ()
    locked: bool = False
    lock_file: Path | None = None
    lock_policy: Policy = "compatible"
    compile_cache: Wanted = "auto"
    report: Callable[[str], None] = lambda _: None
    telling: Callable[[], Sink] = NullSink
    resolved: Mapping[str, Resolved] = field(default_factory=dict)
    patches: Mapping[str, str] = field(default_factory=dict)
    """What a lock has of them, by the commit that they are for."""

    @property
    def mirror_folder(self) -> Path | None:
        """The folder of the mirror; ``prepare`` has put it in the place of a URL."""
        return self.mirror if isinstance(self.mirror, Path) else None

    @property
    def named_arch(self) -> tuple[str, ...]:
        """The AOT targets that were named; () for `auto`."""
        return () if self.arch == ("auto",) else self.arch

    @property
    def abi(self) -> int | None:
        """The C++11 ABI that was asked for."""
        return None if self.cxx11_abi is None else int(self.cxx11_abi)

    @property
    def job_count(self) -> int | Literal["auto"]:
        """The requested number of compile jobs.

        Raises:
            UsageError: it is no number, or more than ``MOST_JOBS``.
        """
        # Of few digits: Python refuses to read numbers of thousands.
        number = re.fullmatch(r"0*([1-9][0-9]{0,3})", self.jobs)
        if self.jobs != "auto" and (number is None or int(number[1]) > MOST_JOBS):
            why = f"it must be a number from 1 to {MOST_JOBS}, or auto"
            fix = "use a number such as --jobs 8, or --jobs auto"
            raise UsageError(f"--jobs (or XPUBUILD_JOBS) cannot be '{self.jobs:.40}'", why=why, fix=fix)
        return "auto" if number is None else int(number[1])


def words_of(options: Options, joined: Mapping[str, str]) -> Iterator[str]:
    """Yield the words that ask for some options again, those that are the default left out.

    ``joined`` has what joins the words of each option; "" where it is repeated.
    """
    default = Options(None)
    for name, glue in joined.items():
        value, option = getattr(options, name), name.strip("_").replace("_", "-")
        if value == getattr(default, name):
            continue
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
            continue
        words = [str(word) for word in value] if isinstance(value, tuple) else [str(value)]
        for word in [glue.join(words)] if glue else words:
            yield from (f"--{option}", word)


def default_workspace(recipe: str) -> Path:
    """Return ``$XDG_DATA_HOME/xpubuild/<recipe>``."""
    return platformdirs.user_data_path("xpubuild") / recipe


def is_lock(argument: str) -> bool:
    """Whether an argument is the file of a lock, valid or not."""
    try:
        with Path(argument).open("r", encoding="utf-8") as stream:
            return any(line.startswith(_SCHEMA_LINE) for line in islice(stream, _HEAD_LINES))
    except (OSError, UnicodeDecodeError):
        return False
