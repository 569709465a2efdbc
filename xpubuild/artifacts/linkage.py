"""Finds the libraries that an object needs in the same way as the dynamic loader.

Looked in, in the loader's order: RPATH (with that of the objects that led here), RUNPATH, then the folders
the caller names (they stand for what is loaded before, such as ``torch/lib``), then the loader's cache and
default folders. ``LD_LIBRARY_PATH`` is left out on purpose: what works only with it does not work.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from xpubuild.artifacts.elf import ElfObject, Elves, is_elf, read_shared_object
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


@frozen
class _Node:
    """An object on the way: the folder it lies in, what led to it, and the RPATHs that it inherits."""

    folder: str
    in_wheel: bool
    elf: ElfObject
    chain: tuple[str, ...]
    inherited: tuple[str, ...] = ()

    def folders(self, entries: Sequence[str]) -> tuple[str, ...]:
        here = self.folder or "."
        return tuple(posixpath.normpath(ORIGIN.sub(lambda _: here, item)) for item in entries if item)

    def rpaths(self) -> tuple[str, ...]:
        return (*self.folders(self.elf.rpath), *self.inherited)


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
        self, objects: Elves, *, search: Sequence[Path] = (), allowed: Sequence[str] = (),
        installed_in: Path | None = None,
    ) -> None:  # fmt: skip
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
        missing: dict[str, Missing] = {}
        allowed: list[str] = []
        queue = deque([_Node(self._folder(name), True, self._objects[name], (name,))])
        while queue:
            node = queue.popleft()
            for library in node.elf.needed:
                if library in found or library in allowed:
                    continue
                provider = self._provider(library, node)
                if provider is not None:
                    found[library] = provider
                    inside = provider.how in ("wheel", "elsewhere")
                    folder = self._folder(provider.path) if inside else posixpath.dirname(provider.path)
                    chain = (*node.chain, provider.path)
                    queue.append(_Node(folder, inside, provider.elf, chain, node.rpaths()))
                elif any(fnmatchcase(library, pattern) for pattern in self._allowed):
                    allowed.append(library)
                else:
                    missing.setdefault(library, Missing(library, node.chain))
        return Closure(found, tuple(missing.values()), tuple(allowed))

    def unresolved(self, name: str, closures: Mapping[str, Closure]) -> tuple[str, ...]:
        """Return the symbols an object needs that nothing beside it defines, but for the interpreter's.

        ``closures`` are those of all objects of the wheel. The loader looks in what the object needs, and in
        all that was loaded with it: torch's libraries of SYCL kernels need libtorch_cpu.so, which they do not
        name, since libtorch_xpu.so does, which needs them. Only complete closures give an answer, otherwise
        the result is empty.
        """
        loaders = [
            other for other, it in closures.items() if any(item.path == name for item in it.found.values())
        ]
        around = [closures[name], *(closures[other] for other in loaders)]
        if any(it.missing or it.allowed for it in around):
            return ()
        symbols = self._objects[name].symbols
        wanted = {symbol for symbol in symbols.undefined if not _INTERPRETER.match(symbol)}
        there = {other: self._objects[other] for other in (name, *loaders)}
        there |= {item.path: item.elf for it in around for item in it.found.values()}
        for path, elf in there.items():
            if path not in self._names:
                self._names[path] = frozenset(elf.symbols.defined)
            wanted -= self._names[path]
        return tuple(sorted(wanted))

    def _folder(self, member: str) -> str:
        return posixpath.dirname(posixpath.join(self._place, member))

    def _provider(self, library: str, node: _Node) -> Provider | None:
        """Return the first candidate for the same machine; others are passed over, as by the loader."""
        for where, place in self._candidates(library, node):
            member = place.removeprefix(self._place)
            inside = node.in_wheel and member in self._objects
            elf = self._objects[member] if inside else self._outside(place)
            if elf is not None and elf.platform == node.elf.platform:
                how = "wheel" if inside and where != "elsewhere" else where
                return Provider(member if inside else place, how, elf)
        return None

    def _outside(self, path: str) -> ElfObject | None:
        if path not in self._read:
            there = path.startswith("/") and is_elf(Path(path))
            self._read[path] = read_shared_object(Path(path)) if there else None
        return self._read[path]

    def _candidates(self, library: str, node: _Node) -> Iterator[tuple[str, str]]:
        """Yield where a library may be, in the loader's order: how it is found, and its path."""
        if "/" in library:
            yield "rpath", library
            return
        # RUNPATH hides every RPATH; without one, the RPATHs of the loading objects count too.
        for folder in node.folders(node.elf.runpath) if node.elf.runpath else node.rpaths():
            yield "rpath", posixpath.normpath(posixpath.join(folder, library))
        if node.in_wheel:
            yield "wheel", posixpath.join(node.folder, library)
            # Anywhere else in the wheel only helps where Python code loads it before.
            yield from (("elsewhere", name) for name in self._by_file.get(library, ()))
        yield from (("search", f"{folder}/{library}") for folder in self._search)
        yield from (("system", path) for path in system_libraries().get(library, ()))
        multiarch = _MULTIARCH.get(node.elf.machine, "")
        folders = (*(f"{base}/{multiarch}" for base in ("/lib", "/usr/lib") if multiarch), *_DEFAULT_FOLDERS)
        yield from (("system", f"{folder}/{library}") for folder in folders)


def rpath_problem(entry: str) -> str | None:
    """Say what is wrong with one entry of RPATH or RUNPATH: ``relative``, ``absolute``, or None."""
    if entry.startswith(("$ORIGIN", "${ORIGIN}")):
        return None
    if not entry.startswith("/"):
        # The loader reads an empty or relative entry from the folder the user happens to be in.
        return "relative"
    return None if posixpath.normpath(entry) in _DEFAULT_FOLDERS else "absolute"


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
