"""The driver family: whether it is known, all packages belong to it, and a recipe supports it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xpubuild.doctor.checks.level_zero import install_driver
from xpubuild.doctor.fixes import as_root, distribution, install_command, lts_note, need_note
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip, warn
from xpubuild.doctor.probes.level_zero import unmasked
from xpubuild.doctor.probes.machine import wants_driver
from xpubuild.machine.drivers import DRIVER_PACKAGES, DriverFacts
from xpubuild.machine.drivers import driver_family as common_family
from xpubuild.machine.readers import UNKNOWN
from xpubuild.machine.rpms import unread_database

_LIBRARY = "libze_intel_gpu.so"
_LOADERS = ("level-zero", "libze1", "oneapi-level-zero")
_FAMILIES = ("E-level-zero-driver-or-loader-version",)
_NAMES = {"lts-2350": "LTS 2350", "lts2-2523": "LTS2 2523", "rolling": "rolling"}
# Packages of Intel's repositories end in the number of a release and the system: -1146~24.04, -803~22.04.
_INTELS = re.compile(r"-\d{3,}~\d\d\.\d\d")
_PPA = re.compile(r"~ppa\d*|~\d\d\.\d\d~ppa")


def _drivers(look: Look) -> list[DriverFacts]:
    return [item for item in look.host.drivers if item.package in (*DRIVER_PACKAGES, _LIBRARY)]


def _runtime(look: Look) -> list[DriverFacts]:
    """Return the packages whose version shows the family: Level Zero and OpenCL driver, offline compiler."""
    return [item for item in look.host.drivers if item.family not in (UNKNOWN, "kernel")]


def _told(item: DriverFacts) -> str:
    return f"{item.package} {item.version} ({_NAMES.get(item.family, item.family)})"


@check("driver.family", profiles=RUN, families=_FAMILIES, deadline_s=20)
def driver_family(look: Look) -> Outcome:
    """The GPU's Level Zero driver is installed.

    Searches for the driver in the databases of dpkg and rpm, then by the name of its library, and
    finally asks the loader whether it can use one. The family is determined from the build number of
    the compute runtime, because Intel has renamed the packages: LTS 2350, LTS2 2523, or rolling, which
    most distributions package.

    For Data Center GPU Max, Intel tests the LTS families. Without a driver, zeInit returns
    ZE_RESULT_ERROR_UNINITIALIZED and no program finds a GPU.
    """
    if not wants_driver(look):
        return skip("no Intel GPU that needs a driver")
    found = _drivers(look)
    evidence = {item.package: item.version for item in found}
    if found:
        family = common_family(tuple(found))
        if family is None:
            families = sorted({_NAMES.get(item.family, item.family) for item in found})
            return ok(f"{', '.join(map(_told, found))}: {' and '.join(families)}", packages=evidence)
        sources = {item.package: _source(item) for item in found}
        told = ", ".join(f"{_told(item)}, from {sources[item.package]}" for item in found)
        return ok(told, packages=evidence, family=family, sources=sources)
    path = unmasked(look).library("libze_intel_gpu") if look.live else ""
    if path:
        return ok(f"{path}, which is in no package database; its driver family is unknown", path=path)
    unread = None if look.live else unread_database(look.root)
    if unread is not None:
        return skip(f"the rpm database {unread} was not read, because rpm would have to run in the image")
    return finding(
        "no Level Zero driver for Intel GPUs was found by dpkg or rpm or in the library folders",
        Fix(f"install it{lts_note(look)}{need_note(look, 'driver')}", install_driver(look)),
    )


@check("driver.mixed", families=_FAMILIES)
def driver_mixed(look: Look) -> Outcome:
    """All GPU driver packages are from one driver family.

    Compares the families of the Level Zero driver, the OpenCL driver and ocloc. They share the graphics
    compiler and are released together. Packages of two families install two copies of it, and programs
    crash or kernels do not compile. Two Level Zero drivers (old and new package name) always conflict.
    """
    parts = _runtime(look)
    families = sorted({item.family for item in parts})
    if not parts:
        return skip("no driver package with a known family")
    packages = {item.package: item.version for item in parts}
    if len(families) > 1:
        wrong = sorted(item.package for item in parts)
        return finding(
            ", ".join(map(_told, parts)),
            Fix(
                "use one family: enable only one of Intel's repositories and install all packages from it",
                install_command(look, debian=wrong, rhel=wrong, suse=wrong),
            ),
            packages=packages,
            families=families,
        )
    return ok(f"{_NAMES.get(families[0], families[0])}: {', '.join(packages)}", packages=packages)


@check("driver.loader_source", severity="warn", families=_FAMILIES)
def driver_loader_source(look: Look) -> Outcome:
    """The Level Zero loader and driver come from one repository.

    Determines from package versions whether the loader (libze1, level-zero) and the driver come from
    Intel's repository, a PPA or the distribution. A loader of one release may call functions that a
    driver of another does not have: `torch.xpu.get_device_properties` has crashed that way. Upgrade
    both together. Having the loader installed under both its old and its new package name (level-zero,
    libze1) is also reported.
    """
    drivers = [item for item in _drivers(look) if item.package != _LIBRARY]
    loaders = [item for item in look.host.drivers if item.package in _LOADERS]
    if len(loaders) > 1:
        return _twice(look, loaders)
    if not drivers or not loaders:
        return skip("the loader or the driver is not in a package database")
    sources = {item.package: _source(item) for item in (*loaders, *drivers)}
    if len(set(sources.values())) > 1:
        names = sorted(sources)
        return finding(
            ", ".join(
                f"{item.package} {item.version} is from {sources[item.package]}"
                for item in (*loaders, *drivers)
            ),
            Fix(
                "install both from the repository of the driver",
                install_command(look, debian=names, rhel=names, suse=names),
            ),
            sources=sources,
        )
    return ok(f"{', '.join(sources)}: from {next(iter(sources.values()))}", sources=sources)


def _twice(look: Look, loaders: list[DriverFacts]) -> Outcome:
    first = any(item.package == "intel-level-zero-gpu" for item in look.host.drivers)
    newer = any(item.package == "libze-intel-gpu1" for item in look.host.drivers)
    stays = "level-zero" if first and not newer else "libze1"
    away = sorted(item.package for item in loaders if item.package != stays) or [loaders[0].package]
    return finding(
        f"the loader is installed under {len(loaders)} names: "
        + ", ".join(f"{item.package} {item.version}" for item in loaders)
        + "; the order of folders decides which one programs load",
        Fix(f"keep the one from the driver's repository, {stays}", remove_command(look, away)),
        sources={item.package: _source(item) for item in loaders},
    )


def remove_command(look: Look, packages: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that remove packages on this distribution; none where it is an unknown one."""
    tools = {"debian": "apt-get remove -y", "rhel": "dnf remove -y", "suse": "zypper remove -y"}
    tool = tools.get(distribution(look))
    return as_root(look, f"{tool} {' '.join(packages)}") if tool else ()


def _source(item: DriverFacts) -> str:
    if _PPA.search(item.version):
        return "a PPA"
    if item.source.startswith("dpkg"):
        return "Intel" if _INTELS.search(item.version) else "the distribution"
    return "an RPM repository" if item.source == "rpm" else item.source


@check("driver.recipe", profiles=RUN, needs=("driver.family",), recipe=True, families=_FAMILIES)
def driver_recipe(look: Look) -> Outcome:
    """The recipe is compatible with this GPU and driver.

    Uses the constraint solver of `xpubuild plan` to check whether the recipe supports the detected GPU
    family and driver family (`needs.gpus`, `needs.drivers` and `refuses` of the recipe, each with its
    source). If this is unknown, it is a warning and not a failure.
    """
    from xpubuild.recipe.compatible_host import of_host  # noqa: PLC0415 - pydantic, and only with a recipe
    from xpubuild.recipe.constraints import solve  # noqa: PLC0415

    if look.recipe is None:
        return skip("needs a recipe (--recipe)")
    recipe = look.recipe.recipe
    if recipe.target != "xpu":
        return skip(f"the recipe {recipe.name} is for the {recipe.target}")
    reasons = [
        item
        for item in solve(recipe, of_host(look.host)).reasons
        if item.concern == "runs" and item.constraint in ("gpu", "driver", "refused")
    ]
    wrong = [item for item in reasons if item.answer == "no"]
    fix = Fix(
        "; ".join(filter(None, (item.todo for item in wrong or reasons))) or "use another release",
        ("xpubuild recipes matrix",),
    )
    evidence = {"reasons": [f"{item.text} ({item.source})" for item in reasons]}
    if wrong:
        return finding(f"{recipe.name} {'; '.join(item.text for item in wrong)}", fix, **evidence)
    if reasons:
        return warn(f"{recipe.name} {'; '.join(item.text for item in reasons)}", fix, **evidence)
    return ok(f"{recipe.name} is compatible with this GPU and driver")
