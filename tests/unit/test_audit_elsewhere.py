"""What of a wheel holds on the machine that built it alone, and what takes over other packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.artifacts import compile_shared, pack

from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_checks import brought_by_requirements, elsewhere_findings
from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.repair_decide import Platforms
from xpubuild.artifacts.wheel import Member, WheelContents, WheelName

STRICT = AuditPolicy(elsewhere="error")


def wheel(*names: str, dist: str = "mine", tag: str = "linux_x86_64", **texts: str) -> WheelContents:
    """Return a wheel with these members; ``texts`` are METADATA (headers alone) and entry_points."""
    info = f"{dist}-1.0.dist-info"
    return WheelContents(
        Path(f"{dist}-1.0-cp311-cp311-{tag}.whl"),
        WheelName(dist, "1.0", (f"cp311-cp311-{tag}",)),
        tuple(Member(name, 1, "0" * 64, False) for name in names),
        (),
        {f"{info}/{name.replace('entry_points', 'entry_points.txt')}": text for name, text in texts.items()},
    )


def elf(**values: object) -> ElfObject:
    return ElfObject("EM_X86_64", 64, True, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "kind", "always"),
    [
        ({"needed": ("../lib/x.so",)}, "rpath", True),
        ({"needed": ("./x.so",)}, "rpath", True),
        ({"needed": ("/opt/build/x.so",)}, "rpath", False),
        ({"hooks": (("DT_AUDIT", "x.so"),)}, "loader-hook", True),
        ({"runpath": ("$ORIGIN/../../../../../x",)}, "rpath", True),
        ({"rpath": ("${ORIGIN}/a/../../../../../../etc",)}, "rpath", True),
        ({"runs_stack": True}, "executable-stack", False),
        ({"needed": ("libtorch.so",)}, "requirement", False),
    ],
)
def test_an_object_that_depends_on_the_machine_that_built_it(
    values: dict[str, object], kind: str, always: bool
) -> None:
    found = list(elsewhere_findings(wheel(), {"mine/x.so": elf(**values)}, STRICT))
    assert [(item.severity, item.kind, item.object) for item in found] == [("error", kind, "mine/x.so")]
    assert "mine/x.so" in found[0].message
    (lenient,) = elsewhere_findings(wheel(), {"mine/x.so": elf(**values)}, AuditPolicy())
    assert lenient.severity == ("error" if always else "warning")


def test_an_object_that_is_the_same_everywhere() -> None:
    """Four up from a package's lib folder is the lib folder of the environment, where Intel's wheels are."""
    objects = {
        "mine/lib/x.so": elf(needed=("libmine.so", "libc.so.6"), runpath=("$ORIGIN", "$ORIGIN/../../../..")),
        "mine/lib/libmine.so": elf(soname="libmine.so"),
    }
    assert list(elsewhere_findings(wheel("mine/lib/x.so"), objects, STRICT)) == []


@pytest.mark.parametrize(
    ("tag", "version", "kept"),
    [
        ("manylinux_2_28_x86_64", "GLIBCXX_3.4.29", False),
        ("manylinux_2_28_x86_64", "GLIBCXX_3.4.24", True),
        ("manylinux_2_30_x86_64", "GLIBC_2.31", False),
        ("manylinux2014_x86_64", "GLIBC_2.18", False),
        ("manylinux2014_x86_64", "GLIBC_2.17", True),
        ("linux_x86_64", "GLIBCXX_3.4.40", True),
    ],
)
def test_a_tag_promises_symbol_versions(tag: str, version: str, kept: bool) -> None:
    library = "libstdc++.so.6" if "CXX" in version else "libc.so.6"
    needs = elf(needed=(library,), versions_needed={library: (version,)})
    found = list(elsewhere_findings(wheel(tag=tag), {"mine/x.so": needs}, STRICT))
    assert [(item.kind, item.symbol_or_path) for item in found] == ([] if kept else [("platform", version)])
    own = {"mine/x.so": needs, "mine.libs/own.so": elf(soname=library)}
    assert list(elsewhere_findings(wheel(tag=tag), own, STRICT)) == [], "the wheel has the library itself"


def test_every_policy_keeps_what_it_promises() -> None:
    platforms = Platforms(["EM_X86_64"])
    assert platforms.has("manylinux1_x86_64", "libc.so.6", "GLIBC_2.5")
    assert not platforms.has("manylinux1_x86_64", "libc.so.6", "GLIBC_2.6")


@pytest.mark.parametrize(
    ("library", "requires", "brought"),
    [
        ("libtorch_cpu.so", "torch==2.8.0", True),
        ("libtorch_cpu.so", "torch; extra == 'all'", False),
        ("libsycl.so.8", "dpcpp-cpp-rt>=2025", True),
        ("libsycl.so.8", "intel_sycl_rt", True),
        ("libsycl.so.8", "torch", True),
        ("libsycl.so.8", "numpy", False),
        ("libtorch_cpu.so", "not a requirement at all!", False),
    ],
)
def test_a_library_comes_with_the_distribution_that_is_required(
    library: str, requires: str, brought: bool
) -> None:
    contents = wheel(METADATA=f"Name: mine\nRequires-Dist: {requires}\n")
    objects = {"mine/x.so": elf(needed=(library,))}
    assert brought_by_requirements(contents, objects) == ((library,) if brought else ())
    severity = "error" if "torch" in library else "warning"  # a machine may have oneAPI, and no torch
    assert [(item.kind, item.severity) for item in elsewhere_findings(contents, objects, STRICT)] == (
        [] if brought else [("requirement", severity)]
    )


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (wheel("sitecustomize.py"), "run at every start of Python"),
        (wheel("mine-1.0.data/purelib/usercustomize/__init__.py"), "run at every start of Python"),
        (wheel("torch/extra.py"), "the package torch of torch"),
        (wheel("mine-1.0.data/platlib/numpy/x.so"), "the package numpy of numpy"),
        (wheel("mine-1.0.data/scripts/python3"), "the program python3"),
        (wheel("mine-1.0.data/data/bin/python3.11"), "the program python3.11"),
        (wheel("mine-1.0.data/data/pyvenv.cfg"), "decide what the environment imports"),
        (wheel("mine-1.0.data/data/lib/python3.11/site-packages/torch/x.py"), "the package torch of torch"),
        (wheel("mine.pth"), "run, at every start of Python"),
        (wheel("mine-1.0.data/purelib/mine.pth"), "run, at every start of Python"),
        (wheel(entry_points="[console_scripts]\npython = a:b\n"), "a program named python"),
        (wheel(entry_points="[gui_scripts]\n../../x = a:b\n"), "a program outside of its folder: ../../x"),
        (wheel(entry_points="[console_scripts]\n/bin/x = a:b\n"), "outside of its folder: /bin/x"),
        (wheel(entry_points="x"), "cannot be read"),
    ],
)
def test_a_wheel_that_takes_over_others(contents: WheelContents, words: str) -> None:
    (found,) = elsewhere_findings(contents, {}, AuditPolicy())
    assert (found.severity, found.kind) == ("error", "takes-over")
    assert words in found.message


def test_a_wheel_may_bring_its_own_package_and_programs() -> None:
    points = "[console_scripts]\nmine = a:b\npython-mine = a:b\n[torch.backends]\npython = a:b\n"
    assert list(elsewhere_findings(wheel("mine/x.py", entry_points=points), {}, STRICT)) == []
    owners = {"functorch": "torch", "triton": "pytorch-triton-xpu", "pkg_resources": "setuptools"}
    for package, dist in owners.items():
        assert list(elsewhere_findings(wheel(f"{package}/x.py", dist=dist), {}, STRICT)) == []
    assert list(elsewhere_findings(wheel("distutils-precedence.pth", dist="setuptools"), {}, STRICT)) == []
    assert list(elsewhere_findings(wheel("mine-1.0.data/data/share/mine.pth"), {}, STRICT)) == []
    pip = wheel("pip/x.py", dist="pip", entry_points="[console_scripts]\npip3 = a:b\n")
    assert list(elsewhere_findings(pip, {}, STRICT)) == []


def test_a_real_object_shows_its_hooks_and_its_stack(tmp_path: Path) -> None:
    flags = ["-Wl,--auxiliary,aux.so", "-Wl,-z,execstack", "-Wl,--audit,audit.so"]
    path = compile_shared(tmp_path / "x.so", "int f() { return 1; }\n", flags=flags)
    found = read_shared_object(path)
    assert found.runs_stack
    assert set(found.hooks) == {("DT_AUXILIARY", "aux.so"), ("DT_AUDIT", "audit.so")}
    report = audit_wheel(pack(tmp_path, "mine", "1.0", {"mine/x.so": path.read_bytes()}), STRICT)
    assert {item.kind for item in report.findings} == {"loader-hook", "executable-stack"}
    assert report.status == "fail"
    assert not read_shared_object(compile_shared(tmp_path / "y.so", "int f() { return 1; }\n")).runs_stack


def test_static_libraries_are_named_with_their_size(tmp_path: Path) -> None:
    files = {"mine/a.a": b"!<arch>\n", "mine/b.bin": b"!<thin>\n" + bytes(10**6)}
    made = pack(tmp_path, "mine", "1.0", files)
    report = audit_wheel(made, STRICT)
    (found,) = report.findings
    assert (report.status, found.kind) == ("warn", "static-library")
    assert found.message.startswith("mine/b.bin and 1 more: static libraries, 1.0 MB")
