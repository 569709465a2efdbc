"""One installation of a hashed requirement file with uv, and of which wheel an installed distribution is.

uv may fail where pip would not, then pip is run: what uv left is removed. It cannot install anything else
than pip would: each package has a version and hashes in the file, and constraints are compared with these
before.

uv verifies the hash of a wheel when it unpacks it, and does not report which of the allowed ones that was.
Its cache has, for each unpacked wheel, a small file with hash, file name and URL beside a link to the
unpacked files (crates/uv-distribution: ``HttpArchivePointer``, ``LocalArchivePointer``). The form of that
file is uv's own; here it is searched for the hashes that are allowed, and what it leads to is compared with
what is installed.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name

from xpubuild.artifacts.installed import content_problems
from xpubuild.artifacts.installed_repair import Note, read_note, remove_dist, write_note
from xpubuild.artifacts.site_packages import (
    InstalledDist,
    RecordEntry,
    declared,
    installed_dists,
    quick_problem,
    record_entries,
    site_packages_of,
)
from xpubuild.engine.files import explained, write_json
from xpubuild.engine.places import WRITABLE_BY_OTHERS
from xpubuild.engine.process import Cancel, ProcessResult, run
from xpubuild.engine.redact import Redactor, recordable
from xpubuild.errors import InterruptedByUserError, ToolchainError
from xpubuild.machine.python_environment import env_python
from xpubuild.supply.index.pipconf import local_path, pip_settings, translated
from xpubuild.supply.requirements import HashedPin, hashed_pins, marker_environment

# An index that the user did not configure may be out of reach behind a firewall: that must show soon.
_EXTRA = {"timeout": "15", "retries": "1"}
_PIP_INSTALLS = "nothing has to be done: pip installs what uv could not"


@dataclass
class Installation:
    """What is installed where. ``indexes`` are the recipe's, each tried after the configured ones have
    failed.

    ``python_version`` is that of the environment; ``whole`` lets uv refuse a file that lacks a dependency.
    ``environment`` has pip's settings; ``say`` gets lines to show.
    """

    env: Path
    requirements: Path
    uv: str
    cache: Path
    report: Path
    python_version: str
    environment: Mapping[str, str]
    cancel: Cancel
    say: Callable[[str], None]
    constraints: tuple[Path, ...] = ()
    indexes: tuple[str, ...] = ()
    whole: bool = True

    def __post_init__(self) -> None:
        self._settings, self._site = pip_settings(self.environment), site_packages_of(self.env)
        self._markers = marker_environment(self.python_version, platform.machine())
        every = hashed_pins(self.requirements.read_text("utf-8"))
        pins = (pin for pin in every if pin.marker is None or pin.marker.evaluate(self._markers))
        self._pins = {canonicalize_name(pin.name): pin for pin in pins}

    def perform(self) -> None:
        """Install what is missing, and write a report of it in the form of pip's ``--report``.

        Raises:
            ToolchainError: uv failed, or what it installed cannot be proved; nothing of it is left.
            InterruptedByUserError: ``cancel`` was set.
        """
        _require_fit(self._pins.values(), self.constraints)
        if not self.cache.is_dir():
            with explained(self.cache, "making the cache of uv"):
                self.cache.mkdir(mode=0o700, parents=True)
        if why := not_ours(self.cache):
            raise ToolchainError("the cache of uv cannot be trusted", why=why, fix=_PIP_INSTALLS)
        here, note = self._installed(), read_note(self._site)
        same = {name for name, pin in self._pins.items() if name in here and pin.allows(here[name].version)}
        new = self._pins.keys() - same
        write_note(self._site, replace(note, unfinished=note.unfinished | new))
        try:
            self._install()
            self._settle(note.doubtful & new)
            if self.whole:
                self._require_whole()
            items = [self._item(name) for name in sorted(new)]
        except ToolchainError:
            self._remove(new)
            write_note(self._site, note)
            raise
        finally:
            # uv's own, which everybody may write to; the workspace is locked.
            (self.env / ".lock").unlink(missing_ok=True)
        write_json(self.report, {"version": "1", "installer": "uv", "install": items})
        write_note(self._site, Note(doubtful=note.doubtful - new))

    def _installed(self) -> dict[str, InstalledDist]:
        return {dist.name: dist for dist in installed_dists(self._site)}

    def _install(self) -> None:
        """Run uv: with what its cache has, else with the network; each time the recipe's own indexes last."""
        # Without dependencies uv needs no metadata from an index; see ``_require_whole``. Reflinks, where
        # there are none hard links, and copies from another file system.
        install = (
            "pip", "install", "--python", env_python(self.env), "--requirements", str(self.requirements),
            "--require-hashes", "--no-deps", "--only-binary", ":all:", "--link-mode", "clone",
            "--no-python-downloads", "--no-progress", "--color", "never",
        )  # fmt: skip
        places: list[tuple[Mapping[str, str], tuple[str, ...]]] = [(self._settings, ())]
        places += [({**self._settings, **_EXTRA}, (url,)) for url in self.indexes]
        lines, redact = list[str](), Redactor()

        def hear(line: str) -> None:
            # What is only tried with the cache says nothing where it fails.
            if line.strip():
                lines.append(redact(line).rstrip())
                if not words:
                    self.say(lines[-1])

        for words, (settings, extra) in itertools.product((("--offline",), ()), places):
            lines.clear()
            said = translated(settings, self.environment, extra=extra)
            if self._uv((*install, *words, *said.options), said.environment, hear).ok:
                if words:
                    self.say("\n".join(lines))
                return
        why = next((line for line in lines if line.startswith("error:")), (lines or ["no message"])[-1])
        raise ToolchainError("uv could not install the packages", why=why, fix=_PIP_INSTALLS)

    def _uv(
        self, words: Sequence[str], environment: Mapping[str, str], hear: Callable[[str], None]
    ) -> ProcessResult:
        argv = (self.uv, *words, "--cache-dir", str(self.cache), "--no-config")
        result = run(argv, env=environment, cwd=self.env, cancel=self.cancel, on_line=hear)
        if result.cancelled:
            raise InterruptedByUserError("interrupted")
        return result

    def _require_whole(self) -> None:
        """Refuse a file that lacks a dependency of what is in it, as pip does."""
        here = self._installed()
        for name in self._pins:
            for wanted in declared(here[name], self._markers) if name in here else ():
                there = here.get(canonicalize_name(wanted.name))
                if there is None or not wanted.specifier.contains(there.version, prereleases=True):
                    what, why = f"{self.requirements.name} lacks {wanted}", f"{name} asks for it"
                    raise ToolchainError(what, why=why, fix=_PIP_INSTALLS)

    def _settle(self, names: Collection[str]) -> None:
        """Remove distributions that are damaged again from the cache, and reinstall them."""
        here = self._installed()
        damaged = sorted(name for name in names if name not in here or _is_damaged(here[name]))
        if not damaged:
            return
        self.say(f"damaged in the cache of uv too, and fetched again: {', '.join(damaged)}")
        cleaned = self._uv(("cache", "clean", *damaged), self.environment, self.say)
        if not cleaned.ok:
            why = cleaned.tail[-1]
            raise ToolchainError("the cache of uv could not be cleaned", why=why, fix=_PIP_INSTALLS)
        self._remove(damaged)
        self._install()

    def _item(self, name: NormalizedName) -> dict[str, object]:
        """Return an item of the report: what was installed, from where, with the hash that uv verified."""
        dist, pin = self._installed().get(name), self._pins[name]
        wheel = _wheel_of(self.cache, dist, pin.hashes) if dist is not None else None
        if dist is None or wheel is None:
            raise ToolchainError(
                f"which wheel of {name} uv installed is not known",
                why="the cache of this uv has another form than those that were tried",
                fix=f"{_PIP_INSTALLS}; --installer pip takes it from the start",
            )
        sha256, file, url = wheel
        url = url or next(_local(name, file, self._settings), "")
        hashes = {"hash": f"sha256={sha256}", "hashes": {"sha256": sha256}}
        return {
            "download_info": {"url": url, "archive_info": hashes},
            "is_direct": False, "requested": True, "metadata": {"name": dist.name, "version": dist.version},
        }  # fmt: skip

    def _remove(self, names: Collection[str]) -> None:
        """Remove what uv has installed; pip may install it then."""
        for name, dist in self._installed().items():
            if name in names and dist.installer in ("uv", ""):
                remove_dist(self._site, name)


def _is_damaged(dist: InstalledDist) -> bool:
    return quick_problem(dist) is not None or bool(content_problems(record_entries(dist)))


def _require_fit(pins: Iterable[HashedPin], constraints: Iterable[Path]) -> None:
    """Hold the pins against constraints: with hashes uv takes only ``==`` there.

    Raises:
        ToolchainError: a pin is another than a constraint allows; pip says what wants it.
    """
    known = {canonicalize_name(pin.name): pin for pin in pins}
    for file in constraints:
        lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
        for text in filter(None, lines):
            try:
                wanted = Requirement(text)
            except InvalidRequirement as error:
                what = f"'{text}' in {file} is not a requirement"
                raise ToolchainError(what, why=str(error), fix=_PIP_INSTALLS) from error
            pin = known.get(canonicalize_name(wanted.name))
            if pin is not None and not wanted.specifier.contains(pin.version, prereleases=True):
                what = f"{pin.name}=={pin.version} is not what {file} allows"
                raise ToolchainError(what, why=text, fix=_PIP_INSTALLS)


def _local(project: str, name: str, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the URL of a file in the wheel folders, or in the folder of an index on this machine."""
    indexes = f"{settings.get('index-url', '')} {settings.get('extra-index-url', '')}".split()
    folders = [local_path(place) for place in settings.get("find-links", "").split()]
    folders += [path / project for place in indexes if (path := local_path(place)) is not None]
    for folder in folders:
        if folder is not None and name and (folder / name).is_file():
            yield (folder / name).absolute().as_uri()


_POINTERS = (".http", ".rev")
_MOST_BYTES = 1 << 20
_URL = re.compile(rb"https?://[\x21-\x7e]{1,2000}?\.whl")
_FILE = re.compile(rb"[A-Za-z0-9._+!-]{1,300}\.whl")


def not_ours(cache: Path) -> str:
    """Return why a cache must not be used: somebody else could change what is unpacked in it; "" if it may.

    uv looks at the hash of a wheel when it unpacks it, and not again.
    """
    try:
        status = cache.stat()
    except OSError:
        return ""  # not made yet
    if status.st_uid != os.geteuid():
        return f"{cache} is of another user"
    return f"others can write to {cache}" if status.st_mode & WRITABLE_BY_OTHERS else ""


def _wheel_of(cache: Path, dist: InstalledDist, allowed: Collection[str]) -> tuple[str, str, str] | None:
    """Return the wheel in the cache with one of the ``allowed`` hashes that has the files of a distribution.

    It is sha256 (hex), file name, and where it came from, "" for a local file.
    """
    pattern = f"wheels-v*/**/{glob.escape(dist.name)}/{glob.escape(dist.version)}-*"
    for pointer in sorted(cache.glob(pattern)):
        unpacked = pointer.with_name(pointer.name.removesuffix(pointer.suffix))
        small = pointer.suffix in _POINTERS and pointer.is_file() and pointer.stat().st_size < _MOST_BYTES
        data = pointer.read_bytes() if small and unpacked.is_dir() else b""
        sha256 = next((item for item in sorted(allowed) if item.encode() in data), None)
        if sha256 is not None and _is_of(dist, unpacked):
            url, name = _URL.search(data), _FILE.search(data)
            place = recordable(url[0].decode()) if url else ""
            return sha256, name[0].decode() if name else place.rpartition("/")[2], place
    return None


def _is_of(dist: InstalledDist, unpacked: Path) -> bool:
    """Whether all files of an unpacked wheel are installed, by their hashes; scripts are changed."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        found = next(item for item in installed_dists(unpacked) if item.name == canonicalize_name(dist.name))
        return _hashes(record_entries(found)) <= _hashes(record_entries(dist))
    return False


def _hashes(entries: list[RecordEntry]) -> set[str]:
    return {entry.checksum for entry in entries if entry.checksum and ".data/scripts/" not in entry.name}
