"""Finds the libraries that an object needs in the same way as the dynamic loader.

Looked in, in the loader's order: RPATH (with that of the objects that led here), RUNPATH, then the folders
the caller names (they stand for what is loaded before, such as ``torch/lib``), then the loader's cache and
default folders. ``LD_LIBRARY_PATH`` is left out on purpose: what works only with it does not work.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from xpubuild.artifacts.elf import ElfObject, is_elf, read_shared_object
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.frozen import frozen

#: Libraries that come with a driver or its loader, never with a wheel.
DRIVER_LIBRARIES = ("libcuda.so.*", "libnvidia-ml.so.*", "libze_loader.so.*", "libOpenCL.so.*")
_MULTIARCH = {"EM_X86_64": "x86_64-linux-gnu", "EM_AARCH64": "aarch64-linux-gnu"}
_DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_LDCONFIG = ("/sbin/ldconfig", "/usr/sbin/ldconfig", "/usr/bin/ldconfig", "/bin/ldconfig")
_CACHE_LINE = re.compile(r"^\s+(\S+) \(.*\) => (/.*)$")
#: What stands for the folder of an object in an entry of RPATH.
ORIGIN = re.compile(r"\$ORIGIN|\$\{ORIGIN\}")
_SYCL = re.compile(r"libsycl(?:-preview)?\.so\.\d+")
# What the interpreter itself offers to extension modules.
_INTERPRETER = re.compile(r"_?Py[A-Z_]")


@frozen
class Provider:
    """Where a library was found: ``how`` is wheel, elsewhere, rpath, search or system."""

    library: str
    path: str
    how: str
    elf: ElfObject = field(repr=False)


@frozen
class Missing:
    """A library that nothing provides; ``chain`` leads from the object to the one that needs it."""

    library: str
    chain: tuple[str, ...]


@frozen
class Closure:
    """Everything one object pulls in. ``allowed`` are libraries that the policy expects on the target."""

    found: Mapping[str, Provider]
    missing: tuple[Missing, ...]
    allowed: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every library of the closure was there to be read."""
        return not self.missing and not self.allowed


@frozen
class _Node:
    label: str
    folder: str
    in_wheel: bool
    elf: ElfObject
    chain: tuple[str, ...]
    inherited: tuple[str, ...]

    def origin(self, entry: str) -> str:
        return posixpath.normpath(ORIGIN.sub(lambda _: self.folder or ".", entry))

    def own_rpath(self) -> tuple[str, ...]:
        return tuple(self.origin(entry) for entry in self.elf.rpath if entry)

    def folders(self) -> tuple[str, ...]:
        """RUNPATH hides every RPATH; without one, the RPATHs of the loading objects count too."""
        if self.elf.runpath:
            return tuple(self.origin(entry) for entry in self.elf.runpath if entry)
        return (*self.own_rpath(), *self.inherited)


@cache
def system_libraries() -> Mapping[str, tuple[str, ...]]:
    """Return the loader's cache (``ldconfig -p``): file name -> paths. Empty where there is no ldconfig.

    Raises:
        ToolchainError: ldconfig is there and cannot be started.
    """
    program = next((str(path) for path in map(Path, _LDCONFIG) if path.exists()), None)
    if program is None:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for line in query([program, "-p"], env=base_environment()).stdout.splitlines():
        match = _CACHE_LINE.match(line)
        if match:
            found[match[1]] = (*found.get(match[1], ()), match[2])
    return found


class Linker:
    """Resolves the objects of one wheel, given by their paths in it.

    ``installed_in`` is the folder that the wheel lies in; without one, no RPATH leads out of the wheel.
    """

    def __init__(
        self,
        objects: Mapping[str, ElfObject],
        *,
        search: Sequence[Path] = (),
        allowed: Sequence[str] = (),
        installed_in: Path | None = None,
    ) -> None:
        self._objects = objects
        self._place = f"{installed_in.absolute()}/" if installed_in is not None else ""
        self._search = tuple(str(folder.absolute()) for folder in search)
        self._allowed = tuple(allowed)
        self._read: dict[str, ElfObject | None] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._by_file: dict[str, list[str]] = {}
        for name in objects:
            self._by_file.setdefault(posixpath.basename(name), []).append(name)

    def closure(self, name: str) -> Closure:
        """Follow NEEDED from one object of the wheel, each library once, as the loader does.

        Raises:
            AuditError: a library on the way is damaged.
        """
        found: dict[str, Provider] = {}
        missing: list[Missing] = []
        allowed: list[str] = []
        elf = self._objects[name]
        queue = deque([_Node(name, self._folder(name), True, elf, (name,), ())])
        while queue:
            node = queue.popleft()
            for library in node.elf.needed:
                if library in found or library in allowed:
                    continue
                provider = self._provider(library, node)
                if provider is not None:
                    found[library] = provider
                    queue.append(self._follow(provider, node))
                elif any(fnmatchcase(library, pattern) for pattern in self._allowed):
                    allowed.append(library)
                elif all(other.library != library for other in missing):
                    missing.append(Missing(library, node.chain))
        return Closure(found, tuple(missing), tuple(allowed))

    def unresolved(self, name: str, closure: Closure) -> tuple[str, ...]:
        """Return the symbols an object needs that nothing in its closure defines, but for the interpreter's.

        Only a complete closure gives an answer, otherwise the result is empty.
        """
        if not closure.complete:
            return ()
        elf = self._objects[name]
        open_names = {symbol for symbol in elf.symbols.undefined if not _INTERPRETER.match(symbol)}
        open_names -= set(elf.symbols.defined)
        for provider in closure.found.values():
            if provider.path not in self._names:
                self._names[provider.path] = frozenset(provider.elf.symbols.defined)
            open_names -= self._names[provider.path]
        return tuple(sorted(open_names))

    def _provider(self, library: str, node: _Node) -> Provider | None:
        if "/" in library:
            return self._file(library, library, "rpath", node)
        for folder in node.folders():
            found = self._in_folder(library, folder, node, "rpath")
            if found is not None:
                return found
        if node.in_wheel:
            found = self._in_wheel(library, node)
            if found is not None:
                return found
        for folder in self._search:
            found = self._file(library, f"{folder}/{library}", "search", node)
            if found is not None:
                return found
        return self._system(library, node)

    def _in_folder(self, library: str, folder: str, node: _Node, how: str) -> Provider | None:
        path = posixpath.normpath(posixpath.join(folder, library))
        inside = bool(self._place) and path.startswith(self._place)
        if path.startswith("/") and not inside:
            return self._file(library, path, how, node)
        member = path.removeprefix(self._place)
        elf = self._objects.get(member)
        if elf is None and inside:
            return self._file(library, path, how, node)
        if not node.in_wheel or elf is None or elf.platform != node.elf.platform:
            return None
        return Provider(library, member, "wheel", elf)

    def _folder(self, member: str) -> str:
        return (
            posixpath.join(self._place, posixpath.dirname(member))
            if self._place
            else posixpath.dirname(member)
        )

    def _in_wheel(self, library: str, node: _Node) -> Provider | None:
        """The same folder first; anywhere else in the wheel only helps where Python code loads it before."""
        beside = self._in_folder(library, node.folder, node, "wheel")
        if beside is not None:
            return beside
        for name in self._by_file.get(library, ()):
            if self._objects[name].platform == node.elf.platform:
                return Provider(library, name, "elsewhere", self._objects[name])
        return None

    def _follow(self, provider: Provider, node: _Node) -> _Node:
        in_wheel = provider.how in ("wheel", "elsewhere")
        return _Node(
            label=provider.path,
            folder=self._folder(provider.path) if in_wheel else posixpath.dirname(provider.path),
            in_wheel=in_wheel,
            elf=provider.elf,
            chain=(*node.chain, provider.path),
            inherited=(*node.own_rpath(), *node.inherited),
        )

    def _system(self, library: str, node: _Node) -> Provider | None:
        multiarch = _MULTIARCH.get(node.elf.machine)
        folders = [f"{base}/{multiarch}" for base in ("/lib", "/usr/lib") if multiarch]
        defaults = (f"{folder}/{library}" for folder in (*folders, *_DEFAULT_FOLDERS))
        for path in (*system_libraries().get(library, ()), *defaults):
            found = self._file(library, path, "system", node)
            if found is not None:
                return found
        return None

    def _file(self, library: str, path: str, how: str, node: _Node) -> Provider | None:
        """A file of another machine or word size is passed over, as the loader does."""
        if path not in self._read:
            file = Path(path)
            self._read[path] = read_shared_object(file) if is_elf(file) else None
        elf = self._read[path]
        if elf is None or elf.platform != node.elf.platform:
            return None
        return Provider(library, path, how, elf)


def missing_versions(elf: ElfObject, closure: Closure) -> list[tuple[str, Provider]]:
    """Return (symbol version, library found) where the library is too old to have that version.

    A library without any versions is not held against it: the loader accepts that with a warning at most.
    """
    lacking = []
    for library, versions in elf.versions_needed.items():
        provider = closure.found.get(library)
        if provider is not None and provider.elf.versions_defined:
            lacking += [(v, provider) for v in versions if v not in provider.elf.versions_defined]
    return lacking


def entry_folder(entry: str, folder: str, installed_in: Path) -> Path | None:
    """Return where an entry with ``$ORIGIN`` leads for an object in a folder of a wheel; None for others."""
    if not ORIGIN.match(entry):
        return None
    return Path(posixpath.normpath(ORIGIN.sub(lambda _: f"{installed_in.absolute()}/{folder}", entry)))


def rpath_problem(entry: str, allowed: Sequence[str] = ()) -> str | None:
    """Say what is wrong with one entry of RPATH or RUNPATH: ``relative``, ``absolute``, or None."""
    if entry.startswith(("$ORIGIN", "${ORIGIN}")):
        return None
    if not entry.startswith("/"):
        # The loader reads an empty or relative entry from the folder the user happens to be in.
        return "relative"
    folder = posixpath.normpath(entry)
    inside = (folder == prefix or folder.startswith(f"{prefix.rstrip('/')}/") for prefix in allowed)
    return None if folder in _DEFAULT_FOLDERS or any(inside) else "absolute"


def sycl_runtimes(objects: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Return the SYCL runtimes (``libsycl.so.8``) among (object, names of libraries), each with its objects.

    More than one in a process means runtimes that do not know each other's queues and events. The preview
    library, ``libsycl-preview.so.7``, is another one than the ``libsycl.so.7`` beside it.
    """
    runtimes: dict[str, list[str]] = {}
    for name, libraries in objects:
        for runtime in dict.fromkeys(match[0] for match in map(_SYCL.match, libraries) if match):
            runtimes.setdefault(runtime, []).append(name)
    return runtimes
