"""The libfabric that Intel MPI and oneCCL would load, and whether it matches its providers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, real, skip, todo
from xpubuild.doctor.look import libraries
from xpubuild.frozen import frozen
from xpubuild.machine.readers import entries

_LIBRARY = "libfabric.so.1"
_PATH = "FI_PROVIDER_PATH"
_CCL = "CCL_OFI_LIBRARY_PATH"
#: What oneCCL takes before Intel MPI's own, and that before it asks the loader (uxlfoundation/oneCCL,
#: get_ofi_lib_path in src/atl/ofi).
_OF_CCL = (_CCL, "I_MPI_OFI_LIBRARY")
_ROOTS = ("I_MPI_ROOT", "CCL_ROOT")
#: Where Intel MPI has its own libfabric, from 2021.11 and before.
_OWN = ("opt/mpi/libfabric/lib", "libfabric/lib")


@check(
    "shadow.libfabric",
    severity="warn",
    profiles=RUN,
    needs="gpu.present",
    live=True,
    families="Z-single AB-distributed-start",
)
def shadow_libfabric(look: Look) -> Outcome:
    """MPI and oneCCL load one libfabric with its own providers.

    Intel MPI loads the first `libfabric.so.1` on `LD_LIBRARY_PATH`, or the system's. oneCCL loads the
    one in `CCL_OFI_LIBRARY_PATH`, or Intel MPI's own, or the same as Intel MPI. Both load the providers
    (`lib*-fi.so`) in the folders of `FI_PROVIDER_PATH`. oneAPI's scripts set this to Intel's providers;
    a module, or an older libfabric of the distribution, may take precedence.

    The check reads the ELF files and loads nothing. If the providers need an interface version that a
    libfabric does not have, that is a failure, because none of them can be loaded (``version
    `FABRIC_1.7' not found``, `fi_getinfo error: ret -61, providers 0`). Two different files for MPI and
    oneCCL, and an Intel libfabric without a path to its providers, are warnings.

    A site's own libfabric with its own providers, as on clusters with Slingshot, is accepted if
    `CCL_OFI_LIBRARY_PATH` refers to it too. Only programs with more than one process need any of this.
    """
    if not any(look.environ.get(name) for name in (*_ROOTS, _PATH, *_OF_CCL)):
        return skip("neither oneAPI's MPI nor its oneCCL is in the environment")
    found = _look(look)
    if found.first is None:
        return skip(f"no {_LIBRARY} is on LD_LIBRARY_PATH or in the system's folders")
    evidence: dict[str, object] = {
        "mpi": str(found.first),
        "ccl": str(found.of_ccl),
        "providers": [str(item) for item in found.providers],
    }
    short = {str(path): lacks for path in found.loaded if (lacks := sorted(_wanted(found) - _has(path)))}
    if short:
        told = "; ".join(f"{path} lacks {', '.join(lacks)}" for path, lacks in short.items())
        detail = f"{told}, which the providers in {_PATH} need"
        return Outcome("fail", detail, {**evidence, "short": short}, _fix(found))
    problems = [*_problems(look, found)]
    if problems:
        return finding("; ".join(problems), _fix(found), **evidence)
    count = len(found.providers)
    return ok(f"{found.first}, {f'{count} providers' if count else 'with built-in providers'}", **evidence)


@frozen
class _Fabric:
    """``first`` is the libfabric that MPI loads, ``of_ccl`` oneCCL's, ``own`` is Intel MPI's."""

    first: Path | None
    of_ccl: Path | None
    own: Path | None
    providers: tuple[Path, ...]

    @property
    def loaded(self) -> tuple[Path, ...]:
        """Each file that is loaded, once."""
        return tuple(dict.fromkeys(real(path) for path in (self.first, self.of_ccl) if path is not None))


def _look(look: Look) -> _Fabric:
    environ = look.environ
    first = libraries.find(_LIBRARY, (*look.listed("LD_LIBRARY_PATH"), *libraries.system_folders(look)))
    roots = (environ.get(name, "") for name in _ROOTS)
    own = libraries.find(
        _LIBRARY, [look.path(root) / folder for root in roots if root.startswith("/") for folder in _OWN]
    )
    named = (Path(environ.get(name, "")) for name in _OF_CCL)
    of_ccl = next((path for path in named if path.is_absolute() and path.is_file()), own or first)
    providers = tuple(item for folder in look.listed(_PATH) for item in _providers(folder))
    return _Fabric(first, of_ccl, own, providers)


def _providers(folder: Path) -> Iterator[Path]:
    for entry in entries(folder):
        if entry.name.startswith("lib") and entry.name.endswith("-fi.so"):
            yield entry


def _wanted(found: _Fabric) -> set[str]:
    """Return the interface versions that the providers want of a libfabric."""
    wanted: set[str] = set()
    for provider in found.providers:
        elf = libraries.elf_of(provider)
        wanted.update(elf.versions_needed.get(_LIBRARY, ()) if elf else ())
    return wanted


def _has(path: Path) -> frozenset[str]:
    elf = libraries.elf_of(path)
    return frozenset(elf.versions_defined) if elf else frozenset()


def _problems(look: Look, found: _Fabric) -> Iterator[str]:
    if len(found.loaded) > 1 and found.first is not None and found.of_ccl is not None:
        lacks = sorted(_has(found.of_ccl) - _has(found.first))
        age = f"; MPI's is older and lacks {', '.join(lacks)}" if lacks else ""
        yield f"MPI loads {found.first}, oneCCL {found.of_ccl}: two copies in one process{age}"
    for path in found.loaded:
        beside = path.parent / "prov"
        if not found.providers and [*_providers(beside)]:
            why = "contains no provider" if look.environ.get(_PATH) else "is not set"
            yield f"{_PATH} {why}, and {path} has its own in {beside}"


def _fix(found: _Fabric) -> Fix:
    chosen = found.own or found.first
    folder = chosen.parent if chosen else Path()
    named = (f"export {_PATH}={folder}/prov",) if (folder / "prov").is_dir() else (f"unset {_PATH}",)
    return todo(
        "make one libfabric the first for both, with its own providers: Intel's or the site's",
        f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH",
        f"export {_CCL}={chosen}",
        *named,
    )
