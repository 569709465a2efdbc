"""Wheels with real code in them, each wrong in one way: what the audit says and how it ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.artifacts import compile_shared, pack

from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_report import AuditedWheel, AuditPolicy, raise_for_findings
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.errors import AuditError

#: A library with an interface as torch's c10 has it, and an extension that uses it.
CORE = """
#include <stdexcept>
#include <string>
namespace core {
void check_fail(const char* where, const std::string& text) { throw std::runtime_error(where + text); }
std::string version() { return "1.0"; }
}
"""
EXTENSION = """
#include <string>
namespace core { void check_fail(const char*, const std::string&); std::string version(); }
namespace extension {
std::string describe(const std::string& name) { return name + core::version(); }
int run(const std::string& text) {
  if (text.empty()) core::check_fail(__FILE__, text);
  return static_cast<int>(text.size());
}
}
extern "C" void* PyType_FromSpec(void*);
extern "C" void* PyInit_extension() { return PyType_FromSpec(nullptr); }
"""
BANNER = "Numerics Library Version 7, for static linking"
NUMERICS = f'const char* numerics_version() {{ return "{BANNER}"; }}\n'
USES_NUMERICS = (
    "const char* numerics_version();\n"
    'extern "C" __attribute__((visibility("default"))) const char* run() { return numerics_version(); }\n'
)


@pytest.fixture(scope="module")
def torch_lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ziel") / "lib mit leer é"
    compile_shared(folder / "libcore.so", CORE, abi=1, flags=["-Wl,-soname,libcore.so"])
    return folder


def extension(folder: Path, torch_lib: Path, abi: int, *flags: str) -> bytes:
    # A shared object may leave symbols open when it is linked, which is how the wrong ABI gets this far.
    libraries = [f"-L{torch_lib}", "-lcore", *flags]
    return compile_shared(folder / "extension.so", EXTENSION, abi=abi, libraries=libraries).read_bytes()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, torch_lib: Path) -> bytes:
    return extension(tmp_path_factory.mktemp("good"), torch_lib, 1, "-Wl,-rpath,$ORIGIN/../torch/lib")


def errors(report: AuditedWheel) -> list[tuple[str, str, str]]:
    return [(finding.kind, finding.object, finding.symbol_or_path) for finding in report.errors]


def failure(report: AuditedWheel) -> AuditError:
    with pytest.raises(AuditError) as caught:
        raise_for_findings(report)
    assert caught.value.exit_code == 60
    return caught.value


def test_a_good_wheel_passes(tmp_path: Path, torch_lib: Path, good: bytes) -> None:
    pack(tmp_path / "stage é", "ext", "1.0", {"ext/extension.so": good, "ext/__init__.py": b""})
    proof = WheelProof(
        str(tmp_path / "stage é"), "ext-*.whl", AuditPolicy(cxx11_abi=1), (str(torch_lib), "/nowhere")
    )
    audit = proof.check()["audit"]
    assert (audit["status"], audit["abi"], audit["findings"]) == ("ok", 1, [])
    [item] = audit["objects"]
    assert item["abi_counts"]["old"] == 0
    assert item["needed"][0] == "libcore.so"
    assert item["found"]["libcore.so"] == f"search: {torch_lib / 'libcore.so'}"
    assert item["found"]["libstdc++.so.6"].startswith("system: /")


def test_the_other_abi_is_refused_with_file_and_symbol(tmp_path: Path, torch_lib: Path) -> None:
    files = {"ext/extension.so": extension(tmp_path, torch_lib, 0)}
    report = audit_wheel(pack(tmp_path, "ext", "1.0", files), AuditPolicy(cxx11_abi=1), search=[torch_lib])
    assert report.abi == 0
    assert ("abi", "ext/extension.so", "_ZN4core10check_failEPKcRKSs") in errors(report)
    # The same seen from the other side: the loader would not find what the library does not have.
    assert ("unresolved-symbol", "ext/extension.so", "_ZN4core10check_failEPKcRKSs") in errors(report)
    error = failure(report)
    assert "ext/extension.so" in error.what
    assert "_ZN4core10check_failEPKcRKSs" in error.what
    assert "core::check_fail(char const*" in error.why
    assert error.fix.startswith("rebuild with --cxx11-abi 1")
    assert "other versions of its libraries" not in error.fix


def test_the_chain_to_a_lost_library_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "env lib"
    inner = compile_shared(
        folder / "libinner.so", "int inner() { return 1; }", flags=["-Wl,-soname,libinner.so"]
    )
    middle = compile_shared(
        folder / "libmiddle.so",
        "int inner(); int middle() { return inner(); }",
        libraries=[f"-L{folder}", "-linner"],
        flags=["-Wl,-soname,libmiddle.so"],
    )
    outer = compile_shared(
        tmp_path / "outer.so",
        "int middle(); int outer() { return middle(); }",
        libraries=[f"-L{folder}", "-lmiddle", f"-Wl,-rpath-link,{folder}"],
    )
    inner.unlink()
    report = audit_wheel(
        pack(tmp_path, "x", "1", {"x.so": outer.read_bytes()}), AuditPolicy(), search=[folder]
    )
    assert errors(report) == [("missing-library", "x.so", "libinner.so")]
    assert f"x.so -> {middle} needs libinner.so" in report.errors[0].message


def test_libraries_in_the_wheel_are_found_on_the_rpath(tmp_path: Path, torch_lib: Path) -> None:
    core = (torch_lib / "libcore.so").read_bytes()
    right = extension(tmp_path, torch_lib, 1, "-Wl,-rpath,$ORIGIN/lib")
    wheel = pack(tmp_path, "ext", "1.0", {"ext/extension.so": right, "ext/lib/libcore.so": core})
    report = audit_wheel(wheel, AuditPolicy(cxx11_abi=1))
    assert report.findings == ()
    assert report.objects[0].found["libcore.so"] == "wheel: ext/lib/libcore.so"
    wrong = extension(tmp_path, torch_lib, 1)
    wheel = pack(tmp_path, "ext", "1.0", {"ext/extension.so": wrong, "ext/lib/libcore.so": core})
    report = audit_wheel(wheel, AuditPolicy(cxx11_abi=1))
    assert [(finding.severity, finding.kind) for finding in report.findings] == [("warning", "not-on-rpath")]


def test_a_library_without_the_symbols_is_refused(tmp_path: Path, good: bytes) -> None:
    older = tmp_path / "older"
    compile_shared(older / "libcore.so", CORE.replace("version()", "build()"), abi=1)
    report = audit_wheel(
        pack(tmp_path, "ext", "1.0", {"ext/extension.so": good}), AuditPolicy(), search=[older]
    )
    assert errors(report) == [("unresolved-symbol", "ext/extension.so", "_ZN4core7versionB5cxx11Ev")]
    soft = AuditPolicy(unresolved_symbols="warning")
    assert audit_wheel(Path(report.wheel), soft, search=[older]).status == "warn"


def test_a_library_without_the_version_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    for versions in (
        "V_1 { global: one; local: *; }; V_2 { global: two; } V_1;",
        "V_1 { global: one; two; };",
    ):
        script = tmp_path / "versions.map"
        script.write_text(versions, encoding="utf-8")
        compile_shared(
            folder / "libv.so",
            "int one() { return 1; } int two() { return 2; }",
            flags=[f"-Wl,--version-script={script}", "-Wl,-soname,libv.so"],
            suffix=".c",
        )
        if "V_2" in versions:
            user = compile_shared(
                tmp_path / "user.so",
                "int one(); int two(); int use() { return one() + two(); }",
                libraries=[f"-L{folder}", "-lv"],
                suffix=".c",
            ).read_bytes()
    report = audit_wheel(pack(tmp_path, "x", "1", {"x.so": user}), AuditPolicy(), search=[folder])
    assert errors(report) == [("missing-version", "x.so", "V_2")]
    assert str(folder / "libv.so") in report.errors[0].message


def test_rpaths_of_the_build_machine(tmp_path: Path, torch_lib: Path) -> None:
    files = {
        "ext/a.so": extension(tmp_path, torch_lib, 1, "-Wl,-rpath,/home/builder/build/lib:$ORIGIN"),
        "ext/b.so": extension(tmp_path, torch_lib, 1, "-Wl,-rpath,/home/builder/build/lib"),
    }
    wheel = pack(tmp_path, "ext", "1.0", files)
    report = audit_wheel(wheel, AuditPolicy(), search=[torch_lib])
    [finding] = report.findings
    assert (finding.severity, finding.kind, finding.symbol_or_path) == (
        "warning",
        "rpath",
        "/home/builder/build/lib",
    )
    assert "ext/a.so and 1 more" in finding.message
    strict = audit_wheel(wheel, AuditPolicy(absolute_rpath="error"), search=[torch_lib])
    assert "/home/builder/build/lib" in failure(strict).what


def test_static_linking_is_proved_by_needed_and_by_what_is_inside(tmp_path: Path) -> None:
    folder = tmp_path / "numerics"
    part = compile_shared(folder / "numerics.o", NUMERICS, flags=["-c"])
    subprocess.run(["ar", "rcs", folder / "libnumerics.a", part], check=True)
    hidden = ["-fvisibility=hidden", "-Wl,--exclude-libs,ALL"]
    static = compile_shared(
        tmp_path / "static.so", USES_NUMERICS, flags=hidden, libraries=[str(folder / "libnumerics.a")]
    )
    (folder / "libnumerics.a").unlink()
    compile_shared(folder / "libnumerics.so", NUMERICS, flags=["-Wl,-soname,libnumerics.so.7"])
    shared = compile_shared(
        tmp_path / "shared.so", USES_NUMERICS, flags=hidden, libraries=[f"-L{folder}", "-lnumerics"]
    )
    subprocess.run(["strip", "--strip-all", static, shared], check=True)
    (folder / "libnumerics.so").rename(folder / "libnumerics.so.7")
    policy = AuditPolicy(forbid_needed=("libnumerics*",), require_strings=("no such text", BANNER))
    good = audit_wheel(pack(tmp_path, "s", "1", {"s.so": static.read_bytes()}), policy)
    assert good.status == "ok"
    assert good.objects[0].strings == (BANNER,)
    beside = {"s.so": static.read_bytes(), "other.so": compile_shared(tmp_path / "o.so", "").read_bytes()}
    assert audit_wheel(pack(tmp_path, "two", "1", beside), policy).status == "ok"
    bad = audit_wheel(pack(tmp_path, "d", "1", {"d.so": shared.read_bytes()}), policy, search=[folder])
    assert [kind for kind, _, _ in errors(bad)] == ["forbidden-library", "missing-string"]
    assert "d.so: libnumerics.so.7" in failure(bad).what
    for where, kinds in (("d*.so", ["forbidden-library"]), ("other.so", [])):
        only = AuditPolicy(forbid_needed=(f"{where}:libnumerics*",))
        report = audit_wheel(
            pack(tmp_path, f"o{len(kinds)}", "1", {"d.so": shared.read_bytes()}), only, search=[folder]
        )
        assert [kind for kind, _, _ in errors(report)] == kinds
    bundled = {
        "d.so": shared.read_bytes(),
        "libs/libnumerics.so.7": (folder / "libnumerics.so.7").read_bytes(),
    }
    report = audit_wheel(pack(tmp_path, "b", "1", bundled), AuditPolicy(forbid_needed=("libnumerics*",)))
    assert {(item, path) for kind, item, path in errors(report) if kind == "forbidden-library"} == {
        ("d.so", "libnumerics.so.7"),
        ("libs/libnumerics.so.7", "libnumerics.so.7"),
    }


def test_a_mixture_passes_with_a_warning(tmp_path: Path) -> None:
    code = "#include <string>\n" + "\n".join(
        f"__attribute__((noinline)) int length_{{abi}}_{n}(std::string text) {{{{ return text.size(); }}}}"
        for n in range(6)
    )
    parts = [
        compile_shared(
            tmp_path / f"p{abi}.o", code.format(abi=abi).replace("length_0_5", "x_5"), abi=abi, flags=["-c"]
        )
        for abi in (0, 1)
    ]
    more = compile_shared(tmp_path / "p2.o", code.format(abi=2), abi=1, flags=["-c"])
    mixed = compile_shared(tmp_path / "mixed.so", "", libraries=[str(path) for path in (*parts, more)])
    report = audit_wheel(pack(tmp_path, "m", "1", {"m.so": mixed.read_bytes()}), AuditPolicy(cxx11_abi=1))
    [finding] = report.findings
    assert (finding.severity, finding.kind) == ("warning", "abi")
    assert "mixes both" in finding.message
    raise_for_findings(report)


def test_an_object_with_its_own_libstdcpp_is_judged_by_its_static_table(tmp_path: Path) -> None:
    code = """
    #include <string>
    static std::string __attribute__((noinline)) twice(const std::string& text) { return text + text; }
    extern "C" __attribute__((visibility("default"))) int run(const char* text) { return twice(text).size(); }
    """
    flags = ["-fvisibility=hidden", "-static-libstdc++", "-Wl,--exclude-libs,ALL"]
    path = compile_shared(tmp_path / "own.so", code, abi=0, flags=flags)
    report = audit_wheel(pack(tmp_path, "own", "1", {"own.so": path.read_bytes()}), AuditPolicy(cxx11_abi=1))
    assert report.objects[0].abi_from == ".symtab"
    assert [(kind, item) for kind, item, _ in errors(report)] == [("abi", "own.so")]
    subprocess.run(["strip", path], check=True)
    report = audit_wheel(pack(tmp_path, "own", "1", {"own.so": path.read_bytes()}), AuditPolicy(cxx11_abi=1))
    assert (report.status, report.abi, report.objects[0].abi_from) == ("ok", None, "")
