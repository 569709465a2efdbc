"""The libfabric that Intel MPI and oneCCL would load, and whether it matches its providers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, fail, finding, ok, real, skip, todo
from xpubuild.doctor.look import libraries

_LIBRARY = "libfabric.so.1"
_PATH = "FI_PROVIDER_PATH"
_CCL = "CCL_OFI_LIBRARY_PATH"
#: What oneCCL takes before Intel MPI's own, and that before it asks the loader (uxlfoundation/oneCCL,
#: get_ofi_lib_path in src/atl/ofi).
_OF_CCL = (_CCL, "I_MPI_OFI_LIBRARY")
_ROOTS = ("I_MPI_ROOT", "CCL_ROOT")
#: Where Intel MPI has its own libfabric, from 2021.11 and before.
_OWN = ("opt/mpi/libfabric/lib", "libfabric/lib")


@check("shadow.libfabric", severity="warn", profiles=RUN, needs="gpu.present", live=True)
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
    environ = look.environ
    if not any(environ.get(name) for name in (*_ROOTS, _PATH, *_OF_CCL)):
        return skip("neither oneAPI's MPI nor its oneCCL is in the environment")
    first = libraries.find(_LIBRARY, (*look.listed("LD_LIBRARY_PATH"), *libraries.system_folders(look)))
    if first is None:
        return skip(f"no {_LIBRARY} is on LD_LIBRARY_PATH or in the system's folders")
    roots = (environ.get(name, "") for name in _ROOTS)
    places = (look.path(root) / folder for root in roots if root.startswith("/") for folder in _OWN)
    own = libraries.find(_LIBRARY, places)
    named = (Path(environ.get(name, "")) for name in _OF_CCL)
    of_ccl = next((path for path in named if path.is_absolute() and path.is_file()), own or first)
    providers = [item for folder in look.listed(_PATH) for item in _providers(folder)]
    evidence = {"mpi": str(first), "ccl": str(of_ccl), "providers": [str(item) for item in providers]}
    fix, loaded = _fix(own or first), dict.fromkeys((real(first), real(of_ccl)))
    elfs = (libraries.elf_of(provider) for provider in providers)
    wanted = {name for elf in elfs if elf for name in elf.versions_needed.get(_LIBRARY, ())}
    short = {str(path): lacks for path in loaded if (lacks := sorted(wanted - _has(path)))}
    if short:
        told = "; ".join(f"{path} lacks {commas(lacks)}" for path, lacks in short.items())
        return fail(f"{told}, which the providers in {_PATH} need", fix, **evidence, short=short)
    problems = []
    if len(loaded) > 1:
        lacks = sorted(_has(of_ccl) - _has(first))
        age = f"; MPI's is older and lacks {commas(lacks)}" if lacks else ""
        problems.append(f"MPI loads {first}, oneCCL {of_ccl}: two copies in one process{age}")
    for path in loaded if not providers else ():
        if [*_providers(path.parent / "prov")]:
            why = "contains no provider" if environ.get(_PATH) else "is not set"
            problems.append(f"{_PATH} {why}, and {path} has its own in {path.parent / 'prov'}")
    if problems:
        return finding("; ".join(problems), fix, **evidence)
    count = f"{len(providers)} providers" if providers else "with built-in providers"
    return ok(f"{first}, {count}", **evidence)


def _providers(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("lib*-fi.so")))


def _has(path: Path) -> frozenset[str]:
    elf = libraries.elf_of(path)
    return frozenset(elf.versions_defined) if elf else frozenset()


def _fix(chosen: Path) -> Fix:
    folder = chosen.parent
    return todo(
        "make one libfabric the first for both, with its own providers: Intel's or the site's",
        f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH",
        f"export {_CCL}={chosen}",
        f"export {_PATH}={folder}/prov" if (folder / "prov").is_dir() else f"unset {_PATH}",
    )
