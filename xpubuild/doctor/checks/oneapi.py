"""oneAPI: whether it is installed, complete and of one release, and what is sourced in the environment."""

from __future__ import annotations

from xpubuild.doctor.fixes import install_oneapi_packages
from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.look.compatible import judged
from xpubuild.doctor.look.toolkits import Sourced, for_cpu, needs_of, selection, sourced, toolkits
from xpubuild.errors import XpuBuildError
from xpubuild.machine.oneapi_bundles import COMPILER, compiler_version, package_for
from xpubuild.machine.oneapi_installed import LATEST, Installation
from xpubuild.machine.oneapi_select import mixed_stack
from xpubuild.machine.readers import entries
from xpubuild.machine.versions import fits

_CPU = "the recipe builds for the CPU and needs no oneAPI"
_CLEAN = todo(
    "use a shell without oneAPI: xpubuild finds and sources the release that a recipe needs",
    'env -i HOME="$HOME" USER="$USER" TERM="$TERM" PATH=/usr/local/bin:/usr/bin:/bin bash --norc',
)


def install_fix(look: Look) -> Fix:
    """Return how to install the bundle that the recipe, or any build, needs."""
    needs = needs_of(look)
    package = package_for(needs.versions if needs else ">=0")
    summary = f"install {package} from Intel's repository, or set ONEAPI_ROOT to an installation"
    return todo(summary, *install_oneapi_packages(look, package))


@check("oneapi.installed", profiles=BUILD)
def oneapi_installed(look: Look) -> Outcome:
    """A oneAPI compiler is installed.

    Searches for a oneAPI installation in `ONEAPI_ROOT`, `/opt/intel/oneapi` and `~/intel/oneapi`, in
    both layouts (`COMPONENT/VERSION/env/vars.sh`, and `VERSION/oneapi-vars.sh`), with a compiler in a
    version that the recipe allows.

    PyTorch for XPU is compiled with this compiler. Up to 2.13, a build that does not find it only
    prints a warning and produces a wheel without XPU, after hours. Without `--recipe` this is a
    warning, because existing builds, and wheels that include their own runtime, run without oneAPI.
    With `--profile build` it is a failure.
    """
    if for_cpu(look):
        return skip(_CPU)
    found, wanted = toolkits(look), needs_of(look)
    components = [item for place in found for item in place.components]
    compilers = list(dict.fromkeys(item.version for item in components if item.name == COMPILER))
    roots = [look.shown(place.real) for place in found]
    evidence = {"installed": [f"{item.name} {item.version}" for item in components], "roots": roots}
    if not compilers:
        named = look.environ.get("ONEAPI_ROOT")
        looked = [*([f"ONEAPI_ROOT ({named})"] if named else []), "/opt/intel/oneapi", "~/intel/oneapi"]
        detail = f"no oneAPI installation was found in {commas(looked)}"
        detail = f"oneAPI at {commas(roots)} has no compiler" if roots else detail
        if wanted is None and not look.to_build:
            return warn(f"{detail}; only building for XPU needs it", install_fix(look), **evidence)
        return finding(detail, install_fix(look), **evidence)
    # A folder whose name is no version may hold any: the compiler itself is asked by toolchain.icpx.
    if against := [item for item in judged(look, "oneapi") if item.answer == "no"]:
        detail = f"the installed oneAPI compiler is {' and '.join(compilers)}; the recipe {against[0].text}"
        return finding(detail, install_fix(look), **evidence)
    return ok(f"compiler {commas(compilers)} in {commas(roots)}", **evidence)


@check("oneapi.components", profiles=BUILD, needs="oneapi.installed", recipe=True)
def oneapi_components(look: Look) -> Outcome:
    """The recipe's oneAPI components are installed.

    Selects components as a build would: one version of each component that the recipe sources
    (compiler, pti, umf, and later ccl, mpi, tcm), from one installation, with the compiler in the
    recipe's range. A missing `pti` makes the configure step fail at `find_package(Pti)`; a missing
    `ccl` silently disables XCCL. `mkl` is not sourced, but must be of the compiler's version: builds get
    its folder in `MKLROOT`, wherever `latest` leads.
    """
    if for_cpu(look):
        return skip(_CPU)
    chosen = selection(look)
    if isinstance(chosen, XpuBuildError):
        commands = chosen.commands or install_fix(look).commands
        detail = f"{chosen.what}: {chosen.why}" if chosen.why else chosen.what
        return finding(detail, todo(chosen.fix or "install the components", *commands), **chosen.evidence)
    versions = {item.name: item.version for item in (*chosen.components, *chosen.beside)}
    listed = commas(f"{name} {version}" for name, version in versions.items())
    return ok(listed, root=look.shown(chosen.place.real), components=versions)


@check("oneapi.mixed")
def oneapi_mixed(look: Look) -> Outcome:
    """Only one oneAPI release is in use.

    oneAPI releases can be mixed in two ways:

    * in the environment: `CMPLR_ROOT`, `MKLROOT` and similar variables and the entries of
      `LD_LIBRARY_PATH`, `LIBRARY_PATH`, `CPATH`, `CMAKE_PREFIX_PATH` and `PATH` refer to two
      installations, or to two versions of one component. That is a failure: it causes undefined
      `sycl::_V1` symbols, or a crash.
    * in the links: each component has its own `latest`, so after upgrading one package, for example
      compiler 2025.3 may be combined with oneCCL 2021.15. That is only a warning: `setvars.sh` and
      manual builds follow these links, but xpubuild selects versions that belong together if they are
      installed.

    Several installed releases are fine as long as they are not mixed.
    """
    now = sourced(look)
    if problem := _mixture(now):
        evidence = sorted({f"{item.variable}: {item.folder}" for item in now})
        return finding(problem, _CLEAN, environment=evidence)
    if drift := [item for place in toolkits(look) for item in _drift(place)]:
        lines = (f"ls -l {look.shown(place.real)}/*/latest" for place in toolkits(look))
        fix = todo("install all components from one release, or correct the links", *lines)
        return warn("; ".join(drift), fix, findings=drift)
    if not toolkits(look) and not now:
        return ok("no oneAPI is installed or sourced")
    return ok("only one oneAPI release is in use")


def _mixture(now: tuple[Sourced, ...]) -> str:
    roots = sorted({str(item.root) for item in now})
    if len(roots) > 1:
        return f"the environment refers to two oneAPI installations: {' and '.join(roots)}"
    by_name: dict[str, dict[str, str]] = {}
    for item in now:
        by_name.setdefault(item.component, {}).setdefault(item.version, item.variable)
    for name, versions in by_name.items():
        if len(versions) > 1:
            listed = " and ".join(f"{version} ({variable})" for version, variable in sorted(versions.items()))
            return f"the environment refers to two versions of oneAPI's {name or 'toolkit'}: {listed}"
    return ""


def _drift(place: Installation) -> list[str]:
    """Return which links are broken or lead to another release; all to an older one is nobody's mistake."""
    latest = [item for item in place.components if item.is_latest]
    linked = {item.name for item in latest}
    others = {item.name for item in place.components if item.layout == "component"} - linked
    broken = [place.real / name / LATEST for name in sorted(others)]
    return [
        *(f"the link {link} has no usable target" for link in broken if link in entries(link.parent)),
        *mixed_stack(latest),
    ]


@check("oneapi.sourced", needs="oneapi.mixed", live=True)
def oneapi_sourced(look: Look) -> Outcome:
    """The oneAPI environment of this shell is usable.

    Reads what `setvars.sh`, a module file or a component script has set in the environment:
    `SETVARS_COMPLETED`, `ONEAPI_ROOT`, `CMPLR_ROOT`, and a compiler on `PATH`. xpubuild sources the
    components that a recipe needs in a clean shell, so you do not have to source anything. What is
    already sourced affects manual builds, extensions that users compile, and run time.

    * Another release than the recipe's is a failure.
    * `SETVARS_COMPLETED=1` with nothing else set is a warning: the next `setvars.sh` returns 3 and does
      nothing. (Exit code 0 of `setvars.sh` does not mean that it worked.)
    * A folder that no longer exists is a failure.
    """
    root, now, wanted = look.environ.get("CMPLR_ROOT", ""), sourced(look), needs_of(look)
    compilers = list(dict.fromkeys(item.version for item in now if item.component in (COMPILER, "")))
    if root and not look.path(root).is_dir():
        return finding(f"CMPLR_ROOT is {root}, which does not exist", _CLEAN, CMPLR_ROOT=root)
    if not now:
        if look.environ.get("SETVARS_COMPLETED"):
            fix = todo("unset the marker of setvars.sh", "unset SETVARS_COMPLETED")
            return warn("SETVARS_COMPLETED is set, but no oneAPI component is sourced", fix)
        return ok("no oneAPI is sourced; xpubuild sources what it needs")
    wrong = [
        item
        for item in compilers
        if wanted is not None and fits(compiler_version(item), wanted.versions) == "no"
    ]
    if wanted is not None and wrong:
        detail = f"oneAPI {' and '.join(wrong)} is sourced, the recipe needs {wanted.versions}"
        return finding(detail, _CLEAN, sourced=compilers, wanted=wanted.versions)
    listed = f"compiler {' and '.join(compilers)}" if compilers else "components without the compiler"
    return ok(f"sourced: {listed}", sourced=compilers)
