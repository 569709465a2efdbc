"""``check WHEEL --repair``: what it makes is installed by pip somewhere else, and loaded there."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from support import documents, travelling
from support.artifacts import compile_shared, pack, record_line, record_text, unzip, wheel_files, zip_up
from support.cli import XPUBUILD, Xpubuild
from support.small_elf import library

from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.repair_write import rewrite
from xpubuild.artifacts.wheel import read_wheel

pytestmark = pytest.mark.needs("g++")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> travelling.Parts:
    return travelling.parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def runtime(parts: travelling.Parts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheels of the runtime."""
    env = travelling.environment(tmp_path_factory.mktemp("runtime") / "env")
    travelling.install(env, "acme_rt", "acme_core", wheels=parts.wheels)
    return env


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


def repaired(
    xpubuild: Xpubuild, wheel: Path, output: Path, *words: str | Path
) -> tuple[Path, dict[str, object]]:
    """Repair a wheel; return the new one and its part of the document."""
    answer = xpubuild.json("check", "--repair", str(wheel), "--output", str(output), *map(str, words))
    (item,) = documents.check(answer, "wheel-repair")["wheels"]
    return Path(item["wheel"]), item


def objects(wheel: Path) -> dict[str, ElfObject]:
    found: dict[str, ElfObject] = {}
    contents = read_wheel(wheel, lambda name, copy: found.update({name: read_shared_object(copy)}))
    assert contents.problems == ()
    return found


def requires(wheel: Path) -> list[str]:
    text = next(data for name, data in unzip(wheel).items() if name.endswith("/METADATA")).decode()
    return [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Requires-Dist")]


def test_a_runtime_of_other_distributions_is_required_and_found_by_rpath(
    xpubuild: Xpubuild, parts: travelling.Parts, runtime: Path, tmp_path: Path
) -> None:
    wheel, item = repaired(xpubuild, parts.wheel, tmp_path / "out", "--runtime", runtime)
    assert requires(wheel) == ["acme-core==3.0", "acme-rt==1.2"]
    (elf,) = objects(wheel).values()
    assert (elf.rpath, elf.runpath) == (("$ORIGIN/../../..",), ()), "DT_RPATH, as upstream's wheels have it"
    env = travelling.environment(tmp_path / "env")
    travelling.install(env, wheel, wheels=parts.wheels)
    assert travelling.answer(env) == "42"
    assert travelling.answer(env, library_path=parts.decoy) == "42", "LD_LIBRARY_PATH must not come first"
    assert not [name for name, data in unzip(wheel).items() if travelling.BUILDER.encode() in data]
    note = json.loads(unzip(wheel)["pkg-1.0.dist-info/xpubuild-repair.json"])
    assert {key: item[key] for key in note} == note

    # --target leaves out what lies beside site-packages: the library is not there, and the audit says so.
    folder = tmp_path / "target"
    travelling.install(env, wheel, wheels=parts.wheels, target=folder)
    assert "libacme.so.1" in travelling.answer(travelling.environment(tmp_path / "bare"), path=folder)
    refused = xpubuild("check", str(wheel), "--installed-in", str(folder))
    assert refused.status == 60
    assert f"leads out of {folder}" in refused.err
    assert "--target" in refused.err
    assert xpubuild("check", str(wheel), "--installed-in", str(travelling.site(env))).status == 0


def test_the_runtime_in_another_environment_is_out_of_reach(
    xpubuild: Xpubuild, parts: travelling.Parts, runtime: Path, tmp_path: Path
) -> None:
    wheel, _ = repaired(xpubuild, parts.wheel, tmp_path / "out", "--runtime", runtime)
    env = travelling.environment(tmp_path / "env")
    shutil.copytree(runtime / "lib", tmp_path / "elsewhere", symlinks=True)
    travelling.install(env, wheel, wheels=parts.wheels)
    for name in ("libacme.so.1", "libacme_core.so.1"):
        (env / "lib" / name).unlink()
    assert "libacme.so.1" in travelling.answer(env)
    assert xpubuild("check", str(wheel), "--installed-in", str(travelling.site(env))).status == 60


def test_a_system_library_gets_a_name_that_no_other_copy_has(
    xpubuild: Xpubuild, parts: travelling.Parts, tmp_path: Path
) -> None:
    wheel, _ = repaired(xpubuild, parts.wheel, tmp_path / "out", "--search", parts.extension.parent)
    found = objects(wheel)
    (acme,) = (name for name in found if name.startswith("pkg/lib/libacme-"))
    assert found["pkg/ext.so"].needed[0] == found[acme].soname == Path(acme).name
    assert len(found) == 3
    env = travelling.environment(tmp_path / "env")
    travelling.install(env, wheel, wheels=tmp_path)
    assert travelling.answer(env, library_path=parts.decoy) == "42"


@pytest.mark.parametrize(
    ("symbol", "version", "platform"),
    [
        ("memcpy", "2.2.5", "manylinux_2_5_x86_64"),
        ("memcpy", "2.14", "manylinux_2_17_x86_64"),
        ("fcntl64", "2.28", "manylinux_2_28_x86_64"),
        ("dlopen", "2.34", "manylinux_2_34_x86_64"),
    ],
)
def test_the_tag_is_that_of_the_newest_symbol_version(
    xpubuild: Xpubuild, tmp_path: Path, symbol: str, version: str, platform: str
) -> None:
    source = f"""__asm__(".symver {symbol}, {symbol}@GLIBC_{version}");
void *{symbol}(); void *answer = (void *)&{symbol};"""
    extension = compile_shared(tmp_path / "ext.so", source, suffix=".c", flags=["-fno-builtin"])
    wheel, item = repaired(
        xpubuild, travelling.extension_wheel(tmp_path / "dist", extension), tmp_path / "out"
    )
    assert wheel.name == f"pkg-1.0-py3-none-{platform}.whl"
    assert item["symbol_versions"] == {"GLIBC": version}
    assert f"Tag: py3-none-{platform}\n" in unzip(wheel)["pkg-1.0.dist-info/WHEEL"].decode()


def test_a_version_that_no_system_has_is_refused(xpubuild: Xpubuild, tmp_path: Path) -> None:
    extension = library(tmp_path / "ext.so", wants={"libc.so.6": ["GLIBC_2.999"]})
    wheel = travelling.extension_wheel(tmp_path / "dist", extension)
    result = xpubuild("check", "--repair", str(wheel), "--output", str(tmp_path / "out"))
    assert (result.status, "GLIBC_2.999" in result.err) == (60, True)
    assert list((tmp_path / "out").glob("*.whl")) == []


def test_two_sycl_runtimes_are_refused(xpubuild: Xpubuild, tmp_path: Path) -> None:
    files = {f"pkg/{name}.so": library(tmp_path / f"{name}.so", needed=[needed]).read_bytes()
             for name, needed in (("a", "libsycl.so.7"), ("b", "libsycl.so.8"))}  # fmt: skip
    wheel = pack(tmp_path / "dist", "pkg", "1.0", files)
    result = xpubuild("check", "--repair", str(wheel), "--output", str(tmp_path / "out"))
    assert (result.status, "more than one SYCL runtime" in result.err) == (60, True)


def test_what_the_runtime_opens_by_name_comes_with_it(xpubuild: Xpubuild, tmp_path: Path) -> None:
    """No NEEDED entry leads from the loader of Unified Runtime to its adapters."""
    env = travelling.environment(tmp_path / "runtime")
    for dist, names in (
        ("intel_sycl_rt", ["libsycl.so.8"]),
        ("intel_cmplr_lib_ur", ["libur_loader.so.0", "libur_adapter_level_zero.so.0"]),
    ):
        files = {
            f"{dist}-2025.0.4.data/data/lib/{name}": library(
                tmp_path / name, needed=["libur_loader.so.0"] if "sycl" in name else []
            ).read_bytes()
            for name in names
        }
        pack(tmp_path / "wheels", dist, "2025.0.4", files)
    travelling.install(env, "intel_sycl_rt", "intel_cmplr_lib_ur", wheels=tmp_path / "wheels")
    extension = library(tmp_path / "ext.so", needed=["libsycl.so.8"])
    wheel = travelling.extension_wheel(tmp_path / "dist", extension)
    pinned, item = repaired(xpubuild, wheel, tmp_path / "pinned", "--runtime", env)
    assert requires(pinned) == ["intel-cmplr-lib-ur==2025.0.4", "intel-sycl-rt==2025.0.4"]
    assert "libur_adapter_level_zero.so.0" in json.dumps(item["pins"])


def test_torchs_libraries_are_left_to_torch(xpubuild: Xpubuild, tmp_path: Path) -> None:
    extension = library(tmp_path / "ext.so", needed=["libtorch_cpu.so", "libc10.so"])
    wheel = travelling.extension_wheel(tmp_path / "dist", extension)
    assert xpubuild("check", str(wheel)).status == 60, "it needs torch and does not require it"
    made, item = repaired(xpubuild, wheel, tmp_path / "out")
    assert item["expected"]["torch"] == ["libc10.so", "libtorch_cpu.so"]  # type: ignore[index]
    assert item["bundled"] == item["pins"] == []
    assert xpubuild("check", str(made)).status == 0
    assert "Requires-Dist: torch\n" in unzip(made)["pkg-1.0.dist-info/METADATA"].decode()


@pytest.mark.parametrize(
    ("old", "new", "status"), [("linux_x86_64", "manylinux_2_28_x86_64", 0), ("py3-none", "cp39-cp39", 60)]
)
def test_a_wheel_that_was_downloaded_under_another_tag(
    xpubuild: Xpubuild, tmp_path: Path, old: str, new: str, status: int
) -> None:
    built = travelling.extension_wheel(tmp_path / "dist", library(tmp_path / "ext.so"))
    wheel = built.rename(built.with_name(built.name.replace(old, new)))
    assert wheel.name != built.name
    refused = xpubuild("check", str(wheel))
    assert refused.status == 60
    assert "check WHEEL --repair" in " ".join(refused.err.split())
    words = ("check", "--repair", str(wheel), "--output", str(tmp_path / "out"))
    assert xpubuild(*words).status == status
    made = list((tmp_path / "out").glob("*.whl"))
    assert [xpubuild("check", str(item)).status for item in made] == ([] if status else [0])


def test_a_requirement_that_excludes_the_installed_version_is_an_error(
    xpubuild: Xpubuild, parts: travelling.Parts, runtime: Path, tmp_path: Path
) -> None:
    metadata = b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\nRequires-Dist: acme_rt>=2\n\nText\n"
    wheel = with_metadata(parts.wheel, metadata, tmp_path)
    result = xpubuild(
        "check", "--repair", str(wheel), "--runtime", str(runtime), "--output", str(tmp_path / "out")
    )
    assert (result.status, "acme-rt 1.2" in result.err) == (22, True)


def test_the_builders_folder_in_metadata_is_an_error(
    xpubuild: Xpubuild, parts: travelling.Parts, runtime: Path, tmp_path: Path
) -> None:
    metadata = (
        f"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\nHome-page: file://{travelling.BUILDER}\n\nText\n"
    )
    wheel = with_metadata(parts.wheel, metadata.encode(), tmp_path)
    words = ("check", "--repair", str(wheel), "--runtime", str(runtime), "--output", str(tmp_path / "out"))
    result = xpubuild(*words, "--search", travelling.BUILDER)
    assert (result.status, travelling.BUILDER in result.err) == (60, True)
    assert xpubuild(*words).status == 0
    (made,) = (tmp_path / "out").glob("*.whl")
    text = unzip(made)["pkg-1.0.dist-info/METADATA"].decode()
    assert text == "Requires-Dist: acme-core==3.0\nRequires-Dist: acme-rt==1.2\n" + metadata


def with_metadata(wheel: Path, metadata: bytes, folder: Path) -> Path:
    files = {name: data for name, data in unzip(wheel).items() if ".dist-info/" not in name}
    return pack_as(folder / "with", {**files, "pkg-1.0.dist-info/METADATA": metadata})


def pack_as(folder: Path, files: dict[str, bytes]) -> Path:
    """Pack with the given METADATA in the place of the usual one, and a right RECORD."""
    everything = {**wheel_files("pkg", "1.0", {}), **files}
    made = pack(folder, "pkg", "1.0", {})
    lines = [*(record_line(*item) for item in everything.items()), ("pkg-1.0.dist-info/RECORD", "", "")]
    return zip_up(made, {**everything, "pkg-1.0.dist-info/RECORD": record_text(lines).encode()})


@pytest.mark.parametrize("what", ["changed", "outside", "twice", "no wheel"])
def test_a_wheel_that_cannot_be_trusted_is_refused_and_nothing_is_written(
    xpubuild: Xpubuild, parts: travelling.Parts, runtime: Path, tmp_path: Path, what: str
) -> None:
    files = unzip(parts.wheel)
    output, words = tmp_path / "out", ("--runtime", runtime)
    wheel = tmp_path / parts.wheel.name
    if what == "changed":
        zip_up(wheel, {**files, "pkg/__init__.py": b"import os"})
    elif what == "outside":
        zip_up(wheel, {**files, "../evil.py": b""})
    elif what == "no wheel":
        wheel.write_bytes(b"PK not at all")
    else:
        wheel, _ = repaired(xpubuild, parts.wheel, tmp_path / "first", *words)
    result = xpubuild("check", "--repair", str(wheel), "--output", str(output), *map(str, words))
    assert result.status == 60, result.err
    assert not output.exists() or list(output.iterdir()) == []


def test_members_keep_mode_and_order_and_large_ones_are_zip64(
    tmp_path: Path, parts: travelling.Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    target = tmp_path / "pkg-1.0-py3-none-linux_x86_64.whl"
    rewrite(parts.wheel, target, {"pkg/new.txt": b"x"}, "pkg-1.0.dist-info")
    with zipfile.ZipFile(parts.wheel) as before, zipfile.ZipFile(target) as after:
        assert after.testzip() is None
        kept = [name for name in before.namelist() if not name.endswith("RECORD")]
        assert after.namelist() == [*kept, "pkg/new.txt", "pkg-1.0.dist-info/RECORD"]
        for name in kept:
            assert after.getinfo(name).external_attr == before.getinfo(name).external_attr
        large = after.getinfo("pkg/ext.so")
        data = target.read_bytes()[large.header_offset :]
    assert large.file_size > 1000
    name_length, extra_length = struct.unpack("<HH", data[26:30])
    assert struct.unpack("<HH", data[30 + name_length :][:4]) == (1, 16), "ZIP64 sizes in the local header"
    assert extra_length >= 20
    assert read_wheel(target).problems == ()


@pytest.mark.on_demand
@pytest.mark.timeout(1800)
def test_a_wheel_above_4_gib_is_repaired_as_a_stream(tmp_path: Path) -> None:
    extension = library(tmp_path / "ext.so", rpath=travelling.BUILDER)
    small = pack(tmp_path / "small", "pkg", "1.0", {"pkg/ext.so": extension.read_bytes()})
    wheel = _with_zeros(small, tmp_path / small.name)
    argv = [*XPUBUILD, "check", "--repair", str(wheel), "--output", str(tmp_path / "out")]
    with subprocess.Popen(argv) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss < 512 * 1024, "KiB of memory, a ninth of what the wheel has"
    (made,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        assert archive.getinfo("pkg/zeros").file_size == archive.getinfo("pkg/zeros").compress_size == _ZEROS
        assert archive.getinfo("pkg/ext.so").header_offset > 1 << 32
    assert objects(made)["pkg/ext.so"].rpath == ()
    env = travelling.environment(tmp_path / "env")
    wheel.unlink()
    travelling.install(env, made, wheels=tmp_path)
    assert (travelling.site(env) / "pkg/zeros").stat().st_size == _ZEROS


_ZEROS = (1 << 32) + (100 << 20)


def _with_zeros(small: Path, target: Path) -> Path:
    """Copy a wheel with a stored member of zeros above 4 GiB before all others."""
    chunk, digest = bytes(1 << 20), hashlib.sha256()
    with zipfile.ZipFile(small) as old, zipfile.ZipFile(target, "w") as new:
        info = zipfile.ZipInfo("pkg/zeros")
        info.external_attr = 0o100644 << 16
        with new.open(info, "w", force_zip64=True) as stream:
            for _ in range(_ZEROS // len(chunk)):
                stream.write(chunk)
                digest.update(chunk)
        line = f"pkg/zeros,sha256={base64.urlsafe_b64encode(digest.digest()).decode().rstrip('=')},{_ZEROS}\n"
        for item in old.infolist():
            before = line.encode() if item.filename.endswith("/RECORD") else b""
            new.writestr(item, before + old.read(item))
    return target


def test_bad_words_are_a_matter_of_usage(xpubuild: Xpubuild, parts: travelling.Parts, tmp_path: Path) -> None:
    assert xpubuild("check", "--repair", str(parts.wheel), "--runtime", str(tmp_path)).status == 2
    assert xpubuild("check", "--repair", str(tmp_path / "none.whl")).status == 2


def test_a_second_object_of_the_wheel_is_found_inside(xpubuild: Xpubuild, tmp_path: Path) -> None:
    inner = travelling.library(tmp_path, "libinner.so", "int acme() { return 41; }")
    extension = compile_shared(
        tmp_path / "ext.so", 'extern "C" { int acme(); int answer() { return acme() + 1; } }',
        libraries=[str(inner)],
    )  # fmt: skip
    wheel = travelling.extension_wheel(
        tmp_path / "dist", extension, {"pkg/data/libinner.so": inner.read_bytes()}
    )
    made, _ = repaired(xpubuild, wheel, tmp_path / "out")
    assert objects(made)["pkg/ext.so"].rpath == ("$ORIGIN/data",)
    env = travelling.environment(tmp_path / "env")
    travelling.install(env, made, wheels=tmp_path)
    assert travelling.answer(env) == "42"


def test_a_wheel_without_shared_objects_is_portable_as_it_is(xpubuild: Xpubuild, tmp_path: Path) -> None:
    wheel = pack(tmp_path, "pkg", "1.0", {"pkg/__init__.py": b""}, tag="py3-none-any")
    made, item = repaired(xpubuild, wheel, tmp_path / "out")
    assert (made.name, item["rpath"], item["pins"]) == (wheel.name, {}, [])
    assert read_wheel(made).problems == ()
