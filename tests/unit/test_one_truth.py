"""One answer in every command: doctor, matrix, plan and install on simulated hosts, and after a remedy."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_files import known_target

from xpubuild.doctor.checks import driver as driver_checks
from xpubuild.doctor.checks import level_zero
from xpubuild.doctor.kit import Look
from xpubuild.doctor.look import compatible
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import Enumeration, unmasked
from xpubuild.errors import UnsatisfiableError, XpuBuildError
from xpubuild.install.choose import check_host, choose, for_gpus_here
from xpubuild.install.options import Options
from xpubuild.install.release import choose_release
from xpubuild.install.target import Compilers
from xpubuild.machine.compilers import CompilerFacts
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.host_report import HostReport, OneapiFacts, PythonReport, host_report
from xpubuild.machine.pythons import PythonFacts
from xpubuild.machine.versions import newest
from xpubuild.recipe.compatible_host import of_host
from xpubuild.recipe.constraints import level, solve
from xpubuild.recipe.load import load
from xpubuild.recipe.matrix import matrix_document
from xpubuild.recipe.releases import releases
from xpubuild.recipe.situation import Reason, Situation
from xpubuild.resources import recipes_dir

#: Family, its package, the version that stands for the family.
DRIVERS = {
    "lts-2350": ("intel-level-zero-gpu", "1.3.27642.40-803~22.04"),
    "lts2-2523": ("libze-intel-gpu1", "25.18.33578.51-1146~24.04"),
    "rolling": ("libze-intel-gpu1", "26.05.37020.3-0"),
    None: None,
}
#: As distributions and Intel's repositories have them: Debian 12, first LTS, rolling of 2025, second LTS.
LOADERS = ("1.8.12-2", "1.14.0-744~22.04", "1.17.44.0-1022~22.04", "1.24.0.0-1146~24.04", None)
GPUS = {"max": "0x0bd5", "arc-a": "0x56a0", "arc-b": "0xe20b", None: ""}
ONEAPI = ("2024.1", "2025.0", "2025.1", "2025.2", "2025.3", "2026.0", "2026.1")
KNOWN = releases(recipes_dir())
LINES = {item.name: load(item.name) for item in KNOWN if item.name == item.line}

hosts = st.fixed_dictionaries(
    {
        "driver": st.sampled_from([*DRIVERS]), "loader": st.sampled_from(LOADERS),
        "gpu": st.sampled_from([*GPUS]), "oneapi": st.sets(st.sampled_from(ONEAPI), max_size=3),
        "gcc": st.sampled_from(["9.4.0", "11.4.0", "12.2.0", "13.3.0", "15.1.0"]),
        "python": st.sampled_from(["3.10.12", "3.12.4", "3.14.0"]),
    }
)  # fmt: skip


def simulated(bare: HostReport, spec: dict[str, Any]) -> HostReport:
    packages = [("libze1", spec["loader"], "unknown")] if spec["loader"] else []
    named = DRIVERS[spec["driver"]]
    packages += [(*named, spec["driver"])] if named else []
    number = GPUS[spec["gpu"]]
    card = GpuFacts("0000:29:00.0", "0x8086", number, "GPU", str(spec["gpu"]), "i915", None, None, 0, 2)
    return replace(
        bare,
        gpus=(card,) if number else (),
        drivers=tuple(DriverFacts(family, name, version, "dpkg") for name, version, family in packages),
        oneapi=tuple(OneapiFacts("/opt/intel/oneapi", "compiler", line) for line in spec["oneapi"]),
        compilers=(CompilerFacts("g++", "/usr/bin/g++", spec["gcc"], "gcc"),),
        python=PythonReport(PythonFacts("/usr/bin/python3", spec["python"]), ()),
    )


def planned(name: str, host: HostReport, here: Situation) -> bool:
    """Whether plan accepts a release on a host."""
    if not here.oneapi:
        here = replace(here, oneapi=())
    version = str(here.gcc)
    facts = {
        "situation": here, "oneapi": None, "python_version": here.python[0] if here.python else "",
        "compilers": Compilers("/usr/bin/gcc", "/usr/bin/g++", version, {}, "gcc"),
    }  # fmt: skip
    choice = for_gpus_here(choose(Options(name, Path("/w"), target="xpu"), LINES[name]), host)
    try:
        check_host(known_target(choice, **facts))
    except UnsatisfiableError:
        return False
    return True


def looked(monkeypatch: pytest.MonkeyPatch, name: str, host: HostReport, here: Situation) -> dict[str, str]:
    """Return what doctor's checks of driver and loader say of a release on a host."""
    old = here.loader is not None and here.loader.startswith("1.8")
    begun = {"lacks": ["zeDeviceGetRootDevice"] if old else [], "version": here.loader, "spec": ""}
    found = Enumeration(Ending("ok", (begun, {"init": 0}, {"done": True}), status=0))
    answers: dict[Any, Any] = {unmasked: found, compatible.situation: here}
    monkeypatch.setattr(Look, "probe", lambda _self, ask: answers[ask])
    look = Look(host, {}, recipe=LINES[name])
    checks = {"loader": level_zero.level_zero_versions, "driver": driver_checks.driver_recipe}
    return {about: check(look).status for about, check in checks.items()}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> HostReport:
    return host_report(tmp_path_factory.mktemp("rootfs"))


@settings(max_examples=25, deadline=None)
@given(hosts)
def test_no_two_commands_disagree(bare: HostReport, spec: dict[str, Any]) -> None:
    host = simulated(bare, spec)
    here = of_host(host)
    told = {row["recipe"]: row["verdict"] for row in matrix_document(KNOWN, here)["releases"]}
    for item in (item for item in KNOWN if item.name == item.line):
        verdict = solve(item.recipe, here)
        against = {reason.constraint for reason in verdict.against()}
        assert (told[item.name]["builds"], told[item.name]["runs"]) == (verdict.builds, verdict.runs)
        assert planned(item.name, host, here) == (not verdict.refused), item.name
        with pytest.MonkeyPatch.context() as patch:
            said = looked(patch, item.name, host, here)
        assert (said["loader"] == "fail") == ("loader" in against), (item.name, said, against)
        assert (said["driver"] == "fail") == bool({"gpu", "driver"} & against), (item.name, said, against)
    try:
        chosen = choose_release(KNOWN, "xpu", here).recipe
    except XpuBuildError:
        return  # none can be built
    assert told[chosen]["builds"] == "yes"


def remedies(reason: Reason, here: Situation) -> list[Situation]:
    """Return the host after each remedy that a reason names."""
    if reason.constraint == "loader":
        return [replace(here, loader=re.findall(r">=([\d.]+)", reason.todo)[0])]
    if reason.constraint == "driver":
        families = re.findall(r"(lts-2350|lts2-2523|rolling)", reason.todo)
        return [replace(here, driver=family) for family in families]
    if reason.constraint == "oneapi":
        line = re.findall(r">=(\d+\.\d+)", reason.wanted)
        return [replace(here, oneapi=newest((*(here.oneapi or ()), line[0])))] if line else []
    lowest = re.findall(r">=(\d+\.\d+)", reason.todo)
    if reason.constraint == "gcc" and lowest:
        return [replace(here, gcc=lowest[0])]
    if reason.constraint == "python" and lowest:
        return [replace(here, python=(*(here.python or ()), f"{lowest[0]}.1"))]
    return []


@settings(max_examples=25, deadline=None)
@given(hosts)
def test_a_remedy_lowers_no_release_that_the_host_had(bare: HostReport, spec: dict[str, Any]) -> None:
    here = of_host(simulated(bare, spec))
    before = {item.version: solve(item.recipe, here) for item in KNOWN}
    reasons = {repr(reason): reason for verdict in before.values() for reason in verdict.reasons}
    after = {repr(then): then for reason in reasons.values() for then in remedies(reason, here)}
    for then, other in product(after.values(), KNOWN):
        had = level(before[other.version])
        assert had < 2 or level(solve(other.recipe, then)) >= had, (other.version, then)


@pytest.mark.parametrize(
    ("gpu", "asked", "arch"),
    [
        ("max", (), ("pvc",)), ("arc-a", (), ("dg2",)), ("arc-b", ("auto",), ("bmg",)), (None, (), ("pvc",)),
        # A foreign target is asked for by name; the driver and the GPU here say nothing about it.
        ("arc-b", ("pvc",), ("pvc",)),
    ],
)  # fmt: skip
def test_gpus_that_are_there_decide(
    bare: HostReport, gpu: str | None, asked: tuple[str, ...], arch: tuple[str, ...]
) -> None:
    spec = {"driver": "rolling", "loader": LOADERS[3], "gpu": gpu, "oneapi": ["2026.0"], "gcc": "12.2.0"}
    host = simulated(bare, {**spec, "python": "3.12.4"})
    choice = for_gpus_here(choose(Options("2.13", Path("/w"), arch=asked), LINES["2.13"]), host)
    assert choice.arch == arch
    verdict = solve(choice.recipe, replace(of_host(host), arch=choice.options.named_arch or None))
    slow = [note.found for note in verdict.notes() if note.constraint == "arch"]
    assert bool(slow) == (asked == ("pvc",) and gpu == "arc-b")
