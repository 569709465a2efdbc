"""Every finding of an audit, from made-up objects."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from xpubuild.artifacts.abi import AbiCount
from xpubuild.artifacts.audit_checks import (
    abi_findings,
    forbidden_findings,
    linkage_findings,
    machine_findings,
    outside_findings,
    readable,
    rpath_findings,
    string_findings,
    sycl_findings,
    symbol_findings,
)
from xpubuild.artifacts.audit_report import AuditPolicy, AuditReport, Finding, Severity
from xpubuild.artifacts.device_code import Code, Device
from xpubuild.artifacts.device_findings import (
    _TARGETS,
    describe,
    device_findings,
    has_code_for,
    known,
    named,
    summary,
)
from xpubuild.artifacts.device_images import DeviceImage
from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.artifacts.linkage import Closure, Missing, Provider, entry_folder, rpath_problem, sycl_runtimes

POLICY = AuditPolicy()


def shown(findings: Iterable[Finding]) -> list[str]:
    """Return severity, kind and what each finding is about."""
    return [f"{item.severity} {item.kind} {item.object}: {item.symbol_or_path}" for item in findings]


def elf(*needed: str, machine: str = "EM_X86_64", **more: Any) -> ElfObject:
    values = {"kind": "ET_DYN", "machine": machine, "bits": 64, "little_endian": True, **more}
    return ElfObject(needed=needed, **values)


@pytest.mark.parametrize(
    ("tags", "machine", "platforms"),
    [
        (("py3-none-linux_x86_64",), "EM_AARCH64", "linux_x86_64"),
        (("py3-none-linux_x86_64",), "EM_X86_64", ""),
        (("py3-none-manylinux_2_28_aarch64", "py3-none-linux_aarch64"), "EM_X86_64",
         "linux_aarch64, manylinux_2_28_aarch64"),
        (("py3-none-linux_i686",), "EM_386", ""), (("py3-none-linux_ppc64le",), "EM_PPC64", ""),
        (("py3-none-linux_s390x",), "EM_S390", ""), (("py3-none-linux_riscv64",), "EM_RISCV", ""),
        (("py3-none-linux_x86_64",), "EM_AMDGPU", ""), (("py3-none-any",), "EM_X86_64", ""),
        (("py3-none-linux_riscv64",), "EM_386", "linux_riscv64"),
        (("py3-none-linux_x86_64",), "EM_S390", "linux_x86_64"),
    ],
)  # fmt: skip
def test_objects_of_another_machine(tags: tuple[str, ...], machine: str, platforms: str) -> None:
    found = list(machine_findings(tags, {"a.so": elf(machine=machine)}))
    assert shown(found) == ([f"error tags a.so: {machine}"] if platforms else [])
    assert [item.message.partition("file name has ")[2] for item in found] == (
        [platforms] if platforms else []
    )


@pytest.mark.parametrize(
    ("count", "old", "new"),
    [
        (AbiCount(0, 0), "", ""), (AbiCount(5, 0, ("new",)), "error abi a.so: new", ""),
        (AbiCount(0, 5, (), ("old",)), "", "error abi a.so: old"),
        (AbiCount(9, 9, ("n",), ("o",)), "error abi a.so: n", "error abi a.so: o"),
        (AbiCount(100, 11, ("n",), ("o",)), "error abi a.so: n", "warning abi a.so: o"),
    ],
)  # fmt: skip
def test_objects_of_another_abi(count: AbiCount, old: str, new: str) -> None:
    for wanted, expected in ((None, ""), (0, old), (1, new)):
        found = list(abi_findings("a.so", count, AuditPolicy(cxx11_abi=wanted)))
        assert shown(found) == ([expected] if expected else [])
        assert all(
            f"{count.new} of its symbols have the C++11 ABI (1), {count.old} the old" in item.message
            for item in found
        )


PROVIDERS = {
    "libx.so": Provider("libx.so", "other/libx.so", "elsewhere", elf(versions_defined=frozenset({"X_1"}))),
    "liby.so": Provider("liby.so", "liby.so", "wheel", elf()),
}


@pytest.mark.parametrize("search", [(), (Path("/torch/lib"), Path("/b"))])
def test_libraries_that_are_not_found(search: tuple[Path, ...]) -> None:
    closure = Closure(PROVIDERS, (Missing("libz.so", ("a.so", "liby.so")), Missing("libq.so", ("a.so",))), ())
    user = elf(
        "libx.so", "liby.so", "libq.so", versions_needed={"libx.so": ("X_1", "X_2"), "liby.so": ("Y",)}
    )
    found = list(linkage_findings("a.so", user, closure, search))
    assert shown(found) == [
        "error missing-library a.so: libz.so", "error missing-library a.so: libq.so",
        "warning not-on-rpath a.so: libx.so", "error missing-version a.so: X_2",
    ]  # fmt: skip
    assert found[0].message.startswith("a.so -> liby.so needs libz.so, ")
    assert all(str(folder) in found[0].message for folder in search)
    assert found[3].message == "a.so needs X_2 of libx.so, but other/libx.so does not have it"


@pytest.mark.parametrize(
    ("entries", "place"),
    [
        (("$ORIGIN/../../../lib", "$ORIGIN", "/usr/lib", "${ORIGIN}/../../x"), Path("/target")),
        (("$ORIGIN/../../../lib",), None), (("$ORIGIN",), Path("/target")),
    ],
)  # fmt: skip
def test_ways_out_of_a_target_folder(entries: tuple[str, ...], place: Path | None) -> None:
    user = elf("libx.so", rpath=entries[:1], runpath=entries[1:])
    own, deep = Missing("libx.so", ("demo/a.so",)), Missing("libdeep.so", ("demo/a.so", "libx.so"))
    found = list(outside_findings("demo/a.so", user, Closure({}, (own,), ()), place))
    outside = [entry for entry in entries if place is not None and "../.." in entry]
    assert shown(found) == [f"error outside demo/a.so: {entry}" for entry in outside]
    assert not outside or found[0].message.endswith("which leads out of /target to /lib")
    for closure in (Closure({}, (deep,), ()), Closure({}, (), ())):
        assert list(outside_findings("demo/a.so", user, closure, place)) == []


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_symbols_that_nobody_has(count: int) -> None:
    names = [f"symbol{number}" for number in range(count)]
    severity: Severity = "warning" if count == 4 else "error"
    found = list(symbol_findings("a.so", names, AuditPolicy(unresolved_symbols=severity)))
    assert shown(found) == ([f"{severity} unresolved-symbol a.so: symbol0"] if count else [])
    end = {1: ": symbol0", 3: "symbol1, symbol2", 4: "symbol2 and 1 more"}
    assert all(item.message.endswith(end[count]) for item in found)


def test_search_paths_of_the_build_machine() -> None:
    elves = {
        "a.so": elf(rpath=("/build", "$ORIGIN", "lib", "/build"), runpath=("/usr/lib", "")),
        "b.so": elf(runpath=("/build", "/opt/ok/lib", "/lib64")), "c.so": elf(rpath=("/build/..",)),
    }  # fmt: skip
    policy = AuditPolicy(allowed_rpaths=("/opt/ok/",), absolute_rpath="error")
    found = list(rpath_findings(elves, policy))
    assert shown(found) == [
        "error rpath a.so: /build", "error rpath a.so: lib", "error rpath a.so: ",
        "error rpath c.so: /build/..",
    ]  # fmt: skip
    assert found[0].message == "a.so and 1 more: RPATH has /build, a folder of the build machine"
    assert found[1].message == "a.so: RPATH has 'lib', which is relative to the current folder"
    assert shown(rpath_findings(elves, POLICY)) == [
        "warning rpath a.so: /build", "error rpath a.so: lib", "error rpath a.so: ",
        "warning rpath b.so: /opt/ok/lib", "warning rpath c.so: /build/..",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("libmkl_*", ["x/a.so needs libmkl_rt.so.2", "libmkl_core.so is libmkl_core.so.2",
                      "libmkl_core.so is libmkl_core.so"]),
        ("a.so:libmkl_*", ["x/a.so needs libmkl_rt.so.2"]), ("b.so:libmkl_*", []),
        ("a.so:lib*", ["x/a.so needs libmkl_rt.so.2", "x/a.so needs libc.so.6"]),
        ("libmkl_rt.so.2", ["x/a.so needs libmkl_rt.so.2"]),
    ],
)  # fmt: skip
def test_libraries_that_must_be_linked_statically(pattern: str, found: list[str]) -> None:
    elves = {"x/a.so": elf("libmkl_rt.so.2", "libc.so.6"), "libmkl_core.so": elf(soname="libmkl_core.so.2")}
    findings = list(forbidden_findings(elves, AuditPolicy(forbid_needed=("libno", pattern))))
    assert [item.message.partition(",")[0] for item in findings] == found
    assert {(item.severity, item.kind) for item in findings} <= {("error", "forbidden-library")}


def test_more_than_one_sycl() -> None:
    objects = [
        ("a", ["libsycl.so.7"]),
        ("b", ["libsycl.so.10", "libsycl.so.7"]),
        ("c", ["libsycl-preview.so.9"]),
    ]
    (found,) = sycl_findings(objects)
    assert (found.kind, found.object, found.symbol_or_path) == ("two-sycl", "b", "libsycl.so.10")
    assert found.message.endswith(": libsycl-preview.so.9 by c, libsycl.so.10 by b, libsycl.so.7 by a")
    assert list(sycl_findings(objects[:1])) == []
    assert sycl_runtimes([("a", ["libsycl.so.8", "libsycl.so.8.1"])]) == {"libsycl.so.8": ["a"]}


def test_texts_that_must_be_inside() -> None:
    policy = AuditPolicy(require_strings=("one", "two"))
    assert shown(string_findings("w.whl", [(), ()], policy)) == ["error missing-string w.whl: one"]
    assert list(string_findings("w.whl", [(), ("one",)], policy)) == []
    assert list(string_findings("w.whl", [()], POLICY)) == []


PVC, BMG, OTHER = Device("12.60.7", 0xC08), Device("20.1.0", 0xC09), Device("", 0x9999)


def image(
    kind: str, kernels: str, *devices: Device, target: str = "spir64", packed: bool = False
) -> DeviceImage:
    return DeviceImage(target, Code(kind, devices, packed), frozenset(kernels), 9)


NOTHING = ["error no-device-code w.whl: device image"]
UNREGISTERED = [*NOTHING, "error device-code a.so: __sycl_register_lib"]


@pytest.mark.parametrize(
    ("images", "targets", "found", "native"),
    [
        ([], None, [], {}), ([], (), UNREGISTERED, {}), ([], ("pvc",), UNREGISTERED, {}),
        ([image("SPIR-V", "ab")], (), [], {}),
        ([image("SPIR-V", "abc")], ("pvc", "none"), ["error aot a.so: pvc"], {}),
        ([image("SPIR-V", "abc"), image("native", "a", PVC, target="spir64_gen")],
         ("pvc", "bmg", "pvc", "what"),
         ["error aot a.so: pvc", "error aot a.so: bmg", "warning aot-unknown a.so: what"],
         {"pvc (12.60.7)": 1}),
        ([image("native", "ab", PVC)], ("pvc", "bmg"), ["warning aot a.so: bmg"], {"pvc (12.60.7)": 2}),
        ([image("native", "", PVC)], ("pvc",), NOTHING, {}),
        ([image("unknown", "abc"), image("unknown", "d", target="nvptx64")], ("pvc",),
         ["error device-code a.so: spir64", "warning aot a.so: pvc"], {}),
        ([image("unknown", "", target="spir64"), image("SPIR-V", "a", packed=True)], (), [], {}),
        ([image("native", "ab", PVC, OTHER), image("SPIR-V", "b"), image("native", "b", BMG, packed=True)],
         ("bmg",), ["warning aot a.so: bmg"], {"bmg (20.1.0)": 1, "core 0x9999": 2, "pvc (12.60.7)": 2}),
    ],
    ids=range(11),
)  # fmt: skip
def test_device_code_that_is_lacking(
    images: list[DeviceImage], targets: tuple[str, ...] | None, found: list[str], native: dict[str, int]
) -> None:
    elves = {"a.so": elf(symbols=Symbols(undefined=("__sycl_register_lib",))), "b.so": elf()}
    policy = AuditPolicy(device_targets=targets)
    findings = list(device_findings("w.whl", elves, {"a.so": images, "b.so": []}, policy))
    assert shown(findings) == found
    counts = summary(images)
    assert (counts.images, counts.native) == (len(images), native)
    assert counts.kernels == len({kernel for item in images for kernel in item.kernels})
    if targets == ("pvc", "bmg", "pvc", "what"):
        assert "for 1 of 3 kernels, not for b, c; it has native code for pvc (12.60.7)" in findings[0].message


def test_targets_and_the_releases_that_they_mean() -> None:
    meant = {
        name: (releases, core, describe(Device(f"{releases[0]}.0", core)))
        for name, (releases, core) in _TARGETS.items()
    }
    assert {name: releases for name, (releases, _, _) in meant.items()} == {
        "pvc": ("12.60",), "pvc-vg": ("12.61",), "xe-hpc": ("12.60",), "dg2": ("12.55",),
        "dg2-g10": ("12.55",),
        "dg2-g11": ("12.56",), "dg2-g12": ("12.57",), "ats-m150": ("12.55",), "ats-m75": ("12.56",),
        "mtl": ("12.70",), "mtl-u": ("12.70",), "mtl-h": ("12.71",), "arl-u": ("12.70",),
        "arl-s": ("12.70",),
        "arl-h": ("12.74",), "xe-lpg": ("12.70", "12.71"), "bmg": ("20.1",), "bmg-g21": ("20.1",),
        "bmg-g31": ("20.2",), "xe2-hpg": ("20.1",), "lnl": ("20.4",), "lnl-m": ("20.4",),
        "xe2-lpg": ("20.4",),
        "ptl": ("30.0",), "ptl-h": ("30.0",), "ptl-u": ("30.1",), "cri": ("35.11",),
    }  # fmt: skip
    assert {core for _, core, _ in meant.values()} == {0x0C07, 0x0C08, 0x0C09, 0x1E00, 0}
    names = {meant[name][2] for name in ("dg2-g11", "mtl-u", "bmg-g21", "lnl-m", "ptl-h", "cri")}
    assert names == {
        "dg2-g11 (12.56.0)",
        "mtl (12.70.0)",
        "bmg (20.1.0)",
        "lnl (20.4.0)",
        "ptl (30.0.0)",
        "cri (35.11.0)",
    }
    cores = {0xC07: "Xe-HPG", 0xC08: "Xe-HPC", 0xC09: "Xe2", 0x1E00: "Xe3", 0x12: "core 0x0012"}
    assert {core: describe(Device("", core)) for core in cores} == cores
    assert [known(name) for name in ("pvc", "12.60.7", "12.60", "0x0bd5", "x12.60.7")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert named(["pvc", "", "none", "bmg", "pvc"]) == ("pvc", "bmg")
    assert has_code_for([Device("", 0xC08)], "pvc")
    assert not has_code_for([], "pvc")
    assert not has_code_for([Device("", 0)], "pvc")


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        ("echo torch::f", "torch::f [_Z1f]"), ("echo _Z1f", "_Z1f"), ("echo x; exit 1", "_Z1f"),
        ("echo", "_Z1f"),
        ("printf '%0160d' 7", f"{'0' * 159}7 [_Z1f]"), ("printf '%0161d' 7", f"{'0' * 160}... [_Z1f]"),
    ],
)  # fmt: skip
def test_symbols_for_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, shown: str) -> None:
    (tmp_path / "c++filt").write_text(f"#!/bin/sh\n{says}\n")
    (tmp_path / "c++filt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert readable("_Z1f") == shown
    monkeypatch.setenv("PATH", "/nowhere")
    assert readable("_Z1f") == "_Z1f"


def test_where_entries_lead() -> None:
    assert entry_folder("$ORIGIN/../x", "a", Path("/t")) == Path("/t/x")
    assert entry_folder("/usr", "a", Path("/t")) is None
    assert [rpath_problem(entry) for entry in ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/")] == [
        None
    ] * 5


def test_a_report_tells_errors_from_warnings() -> None:
    report = AuditReport("w", "n", "1", "0", 1, "0", None, AuditPolicy(device_targets=("pvc",)), (), ())
    warning, error = Finding("warning", "rpath", "a", "b", "c"), Finding("error", "rpath", "a", "b", "c")
    assert (report.status, report.with_findings([warning]).status) == ("ok", "warn")
    both = report.with_findings([warning]).with_findings([error])
    assert (both.status, both.errors, len(both.findings)) == ("fail", (error,), 2)
    assert both.to_json()["status"] == "fail"
    assert report.policy.to_json()["device_targets"] == ["pvc"]
    assert "device_targets" not in POLICY.to_json()
