"""Where a needed library is looked for, and what is said when it is not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.artifacts import install_by_hand, pack, record_text, tiny_elf

from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.artifacts.installed import installed_stamp
from xpubuild.artifacts.linkage import (
    DRIVER_LIBRARIES,
    Linker,
    Missing,
    rpath_problem,
    sycl_runtimes,
)
from xpubuild.artifacts.site_packages import (
    declared,
    installed_dists,
    is_environment,
    prefix_of,
    runtime_folder,
    site_packages_of,
)
from xpubuild.artifacts.wheel import read_wheel, record_of
from xpubuild.errors import XpuBuildError


def elf(*needed: str, machine: str = "EM_X86_64", **more: object) -> ElfObject:
    values = {
        "machine": machine,
        "bits": 64,
        "little_endian": True,
        **more,
    }
    return ElfObject(needed=needed, **values)  # type: ignore[arg-type]


def how(linker: Linker, name: str, library: str) -> tuple[str, str] | None:
    found = linker.closure(name).found.get(library)
    return (found.how, found.path) if found else None


def test_runpath_with_origin_leads_through_the_wheel() -> None:
    linker = Linker({
        "pkg/_C.so": elf("libx.so", runpath=("$ORIGIN/lib", "${ORIGIN}/../other")),
        "pkg/lib/libx.so": elf("liby.so", runpath=("$ORIGIN",)),
        "pkg/lib/liby.so": elf("libz.so", runpath=("$ORIGIN/../../other",)),
        "other/libz.so": elf(),
    })  # fmt: skip
    closure = linker.closure("pkg/_C.so")
    assert {name: item.path for name, item in closure.found.items()} == {
        "libx.so": "pkg/lib/libx.so",
        "liby.so": "pkg/lib/liby.so",
        "libz.so": "other/libz.so",
    }
    assert not closure.missing
    assert {item.how for item in closure.found.values()} == {"wheel"}


def test_rpath_is_inherited_and_runpath_is_not() -> None:
    inner = {"pkg/lib/libx.so": elf("liby.so"), "pkg/deep/liby.so": elf()}
    by_rpath = Linker({"a.so": elf("libx.so", rpath=("$ORIGIN/pkg/lib", "$ORIGIN/pkg/deep")), **inner})
    by_runpath = Linker({"a.so": elf("libx.so", runpath=("$ORIGIN/pkg/lib", "$ORIGIN/pkg/deep")), **inner})
    assert how(by_rpath, "a.so", "liby.so") == ("wheel", "pkg/deep/liby.so")
    assert how(by_runpath, "a.so", "liby.so") == ("elsewhere", "pkg/deep/liby.so")


def test_runpath_hides_rpath() -> None:
    both = elf("libx.so", rpath=("$ORIGIN/right",), runpath=("$ORIGIN/wrong",))
    assert how(Linker({"a.so": both, "right/libx.so": elf()}), "a.so", "libx.so") == (
        "elsewhere",
        "right/libx.so",
    )


def test_same_folder_and_elsewhere_in_the_wheel() -> None:
    linker = Linker({"pkg/a.so": elf("libx.so", "liby.so"), "pkg/libx.so": elf(), "z/liby.so": elf()})
    assert how(linker, "pkg/a.so", "libx.so") == ("wheel", "pkg/libx.so")
    assert how(linker, "pkg/a.so", "liby.so") == ("elsewhere", "z/liby.so")


def test_search_folders_are_read_and_followed(tmp_path: Path) -> None:
    folder = tmp_path / "torch lib é"
    folder.mkdir()
    (folder / "libouter.so").write_bytes(tiny_elf(needed=["libnobody.so.7"]))
    closure = Linker({"a.so": elf("libouter.so")}, search=[tmp_path / "none", folder]).closure("a.so")
    assert closure.found["libouter.so"].how == "search"
    assert closure.missing == (Missing("libnobody.so.7", ("a.so", str(folder / "libouter.so"))),)


def test_a_library_of_another_machine_or_word_size_is_passed_over(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder, data in ((first, tiny_elf(bits=32)), (second, tiny_elf())):
        folder.mkdir()
        (folder / "libx.so").write_bytes(data)
    assert how(Linker({"a.so": elf("libx.so")}, search=[first, second]), "a.so", "libx.so") == (
        "search",
        str(second / "libx.so"),
    )
    wheel = Linker({"a.so": elf("libq.so"), "libq.so": elf(machine="EM_AARCH64")})
    assert [item.library for item in wheel.closure("a.so").missing] == ["libq.so"]


def test_the_systems_own_libraries_are_found() -> None:
    found = how(Linker({"a.so": elf("libc.so.6", "libstdc++.so.6")}), "a.so", "libc.so.6")
    assert found is not None
    assert found[0] == "system"


def test_drivers_and_the_policys_own_may_be_missing() -> None:
    allowed = (*DRIVER_LIBRARIES, "libsycl.so.*")
    linker = Linker({"a.so": elf("libcuda.so.1", "libsycl.so.8", "libother.so")}, allowed=allowed)
    closure = linker.closure("a.so")
    assert [item.library for item in closure.missing] == ["libother.so"]
    assert set(closure.allowed) >= {"libsycl.so.8"} - set(closure.found)


def test_a_library_with_a_path_is_taken_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "libx.so").write_bytes(tiny_elf())
    path = str(tmp_path / "libx.so")
    assert how(Linker({"a.so": elf(path)}), "a.so", path) == ("rpath", path)


def unresolved(objects: dict[str, ElfObject], name: str) -> tuple[str, ...]:
    linker = Linker(objects)
    return linker.unresolved(name, {other: linker.closure(other) for other in objects})


def test_unresolved_symbols_need_a_complete_closure() -> None:
    user = elf(
        "libx.so", symbols=Symbols(undefined=("there", "gone", "PyLong_Type", "_Py_NoneStruct", "Pyre"))
    )
    provider = elf(symbols=Symbols(defined=("there",)))
    assert unresolved({"a.so": user, "libx.so": provider}, "a.so") == ("Pyre", "gone")
    assert unresolved({"a.so": user}, "a.so") == ()


def test_symbols_of_what_loads_a_library_resolve_in_it() -> None:
    kernels = elf(symbols=Symbols(undefined=("add", "gone")))
    objects = {
        "libkernels.so": kernels,
        "libcpu.so": elf(symbols=Symbols(defined=("add",))),
        "libxpu.so": elf("libcpu.so", "libkernels.so"),
    }
    assert unresolved(objects, "libkernels.so") == ("gone",)
    # libcpu.so does not load it: alone, nobody has these symbols.
    del objects["libxpu.so"]
    assert unresolved(objects, "libkernels.so") == ("add", "gone")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("$ORIGIN", None),
        ("${ORIGIN}/../lib", None),
        ("", "relative"),
        ("lib", "relative"),
        ("$HOME/lib", "relative"),
        ("/home/me/build/lib", "absolute"),
        ("/opt/intel/oneapi-old/lib", "absolute"),
        ("/opt/intel/oneapi/../../evil", "absolute"),
        ("/usr/lib64", None),
        ("/lib/intel64", "absolute"),
    ],
)
def test_entries_of_rpath(entry: str, problem: str | None) -> None:
    assert rpath_problem(entry) == problem


def test_sycl_runtimes_by_their_whole_name() -> None:
    objects = [
        ("a", ["libsycl.so.8", "libc.so.6"]),
        ("b", ["libsycl-preview.so.8"]),
        ("c", ["libsycl.so.7.1"]),
    ]
    assert sycl_runtimes(objects) == {
        "libsycl.so.8": ["a"],
        "libsycl-preview.so.8": ["b"],
        "libsycl.so.7": ["c"],
    }
    assert sycl_runtimes([("a", ["libsycl_extra.so.9", "libsyclx.so.1"])]) == {}


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([f"lib{i}.so" for i in range(6)]), max_size=4), min_size=6, max_size=6)
)
def test_any_graph_ends_and_loses_nothing(graph: list[list[str]]) -> None:
    objects = {f"lib{i}.so": elf(*needed) for i, needed in enumerate(graph)}
    reached, todo = set(), list(graph[0])
    while todo:
        library = todo.pop()
        if library not in reached:
            reached.add(library)
            todo.extend(objects[library].needed)
    closure = Linker(objects).closure("lib0.so")
    assert set(closure.found) == reached
    assert not closure.missing


# ---- Where distributions, their files and their interpreters are: looked up by files alone


def refuses(action: Callable[[], object], said: str) -> None:
    with pytest.raises(XpuBuildError, match=said):
        action()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("version = 3.12\n")
    return folder


def test_environments_and_what_is_none(tmp_path: Path, site: Path) -> None:
    env = tmp_path / "env"
    assert (is_environment(env), is_environment(tmp_path)) == (True, False)
    assert (prefix_of(site), prefix_of(tmp_path / "a")) == (env, tmp_path / "a")
    (env / "lib" / "python3.1").symlink_to("python3.12")
    assert site_packages_of(env) == site == runtime_folder(env)
    (env / "pyvenv.cfg").unlink()
    refuses(lambda: site_packages_of(env), "is not a complete Python environment")
    refuses(lambda: runtime_folder(env), "is neither a Python environment nor")
    assert prefix_of(site) == site
    (env / "conda-meta").mkdir()
    assert is_environment(env)
    site.rmdir()
    refuses(lambda: site_packages_of(env), "is not a complete Python environment")
    target = tmp_path / "target"
    refuses(lambda: runtime_folder(target), "is neither a Python environment nor")
    install_by_hand(target, "demo", "1.0", {})
    assert runtime_folder(target) == target


def test_requirements_are_read_without_extras_and_by_the_markers_given(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {})
    (info / "METADATA").write_text(
        "Name: demo\nRequires-Dist: a>=1\nRequires-Dist: not valid >\nRequires-Dist: b; extra == 'x'\n"
        "Requires-Dist: c; python_version < '3.0'\nRequires-Dist: d; platform_machine == 'abacus'\n\n"
    )
    (dist,) = installed_dists(site)
    assert [item.name for item in declared(dist)] == ["a"]
    given = {"python_version": "2.7", "platform_machine": "abacus"}
    assert [item.name for item in declared(dist, given)] == ["a", "c", "d"]
    (info / "METADATA").unlink()
    assert declared(dist) == []


def test_a_stamp_changes_with_every_file_but_compiled_ones(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1", "demo/b.pyc": b"2"})
    install_by_hand(site, "other", "1.0", {"other.py": b"1"})
    stamp = installed_stamp(site, ["Demo"])
    assert installed_stamp(site, ["demo"]) == stamp != installed_stamp(site, ["demo", "other"])
    assert stamp < 1 << 56
    (site / "demo/b.pyc").unlink()
    assert installed_stamp(site, ["demo"]) == stamp
    seen = {stamp}
    for change in (
        lambda: os.utime(site / "demo/a.py", (1, 1)), lambda: (site / "demo/a.py").write_bytes(b"22"),
        lambda: os.link(site / "demo/a.py", site / "twin"), (site / "demo/a.py").unlink,
        lambda: (info / "RECORD").write_text("one,two\n"), (info / "RECORD").unlink,
    ):  # fmt: skip
        change()
        seen.add(installed_stamp(site, ["demo"]))
    assert len(seen) == 6, "a RECORD that cannot be read and none are alike"


def test_a_file_with_several_names_keeps_its_stamp(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1"})
    os.link(site / "demo/a.py", site / "one")
    stamp = installed_stamp(site, ["demo"])
    os.link(site / "demo/a.py", site / "two")
    assert installed_stamp(site, ["demo"]) == stamp


def test_wheels_that_would_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = pack(tmp_path, "demo", "1.0", {"a": bytes(100_000)})
    monkeypatch.setattr("xpubuild.artifacts.wheel._HARMLESS_BYTES", 100_000)
    assert [item.kind for item in read_wheel(wheel).problems] == ["bomb", "metadata"]
    refuses(lambda: record_of(wheel), "is not a readable wheel")
    monkeypatch.setattr("xpubuild.artifacts.wheel._HARMLESS_BYTES", 200_000)
    assert read_wheel(wheel).problems == ()
    monkeypatch.setattr("xpubuild.artifacts.wheel._MOST_MEMBERS", 3)
    assert read_wheel(wheel).problems[0].message == "it has 4 files"
    monkeypatch.setattr("xpubuild.artifacts.wheel._MOST_MEMBERS", 4)
    assert read_wheel(wheel).problems == ()
    assert set(record_of(wheel)) == {
        "a",
        *(f"demo-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
    }
    twice = pack(tmp_path, "demo", "1.0", {}, record=[("a", "", ""), ("a", "", "")])
    refuses(lambda: record_of(twice), "is not a readable wheel")
    assert record_text([("a", "b", "1")]) == "a,b,1\n"
