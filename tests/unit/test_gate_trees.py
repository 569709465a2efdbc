"""Source trees and what their configuration wrote: kinds, commands, SYCL groups, messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xpubuild.artifacts.cmake_build import (
    Messages,
    SyclGroup,
    read_messages,
    read_sycl_groups,
)
from xpubuild.artifacts.configure import LEGACY, TreeKind, check, configure, configure_argv, look
from xpubuild.errors import RecipeError, ToolchainError

SCIKIT = '[build-system]\nrequires = ["a"]\nbuild-backend = "scikit_build_core.build"\n'


def tree(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("section", "backend"),
    [
        ("", LEGACY),
        ("[build-system]\nbuild-backend = 'a.b'  # x\n", "a.b"),
        (
            "[other]\nrequires = ['c']\n[build-system] # it\n  requires=['d']\n[tool]\nbuild-backend = 'x'\n",
            LEGACY,
        ),
    ],
)
def test_what_a_tree_says_of_its_build(tmp_path: Path, section: str, backend: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(section.encode("latin-1"))
    (tmp_path / "setup.py").touch()
    both = look(tmp_path)
    assert both == TreeKind(("pyproject.toml", "setup.py"), backend)
    assert str(both) == f"pyproject.toml and setup.py, backend {backend}"


@pytest.mark.parametrize(
    "text", ["[build-system]\nrequires = ['never ends',\n", "\xff[build-system]", "build-system = 1"]
)
def test_a_project_file_that_nobody_can_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    with pytest.raises(RecipeError, match=r"pyproject\.toml cannot be read"):
        look(tmp_path)


def test_what_a_tree_is(tmp_path: Path) -> None:
    old, new = tree(tmp_path / "old", setup_py=""), tree(tmp_path / "new", pyproject_toml=SCIKIT)
    assert (
        check(old, wanted="setup.py", settings=("--global-option",)) == f"{old}: setup.py, backend {LEGACY}"
    )
    found = check(new, wanted="auto", settings=("build-dir",))
    assert found == f"{new}: pyproject.toml, backend scikit_build_core.build"


@pytest.mark.parametrize(
    "key", ["build-dir", "cmake.x", "ninja.x", "wheel.x", "editable.x", "install.x", "build.x", "skbuild.x",
            "strict-config"],
)  # fmt: skip
def test_what_another_back_end_would_ignore(tmp_path: Path, key: str) -> None:
    folder = tree(tmp_path / "t", setup_py="")
    with pytest.raises(RecipeError):
        check(folder, wanted="auto", settings=(key, "--x"))


def test_a_file_of_the_user_that_decides_how_setuptools_builds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    old, new = tree(tmp_path / "old", setup_py=""), tree(tmp_path / "new", pyproject_toml=SCIKIT)
    (tmp_path / ".pydistutils.cfg").write_text("[build_ext]\ndefine = ANSWER=666\n")
    with pytest.raises(ToolchainError, match=r"pydistutils\.cfg decides how setuptools builds"):
        check(old, wanted="auto", settings=())
    assert check(new, wanted="auto", settings=())


def test_a_recipe_that_wants_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        look(tree(tmp_path / "empty"))
    with pytest.raises(RecipeError):
        check(tree(tmp_path / "t", pyproject_toml=SCIKIT), wanted="setup.py", settings=())
    with pytest.raises(RecipeError):
        configure_argv(look(tree(tmp_path / "u", pyproject_toml="")), "py", tmp_path / "u", (), "w")


@pytest.mark.parametrize(("end", "status"), [("", 0), ("sys.exit(3)", 3), ("os.abort()", 1)])
def test_a_tree_is_configured_where_it_is(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], end: str, status: int
) -> None:
    program = f"import os, sys\nprint(os.getcwd(), os.environ['PYTHONNOUSERSITE'], os.environ['A'])\n{end}\n"
    folder = tree(tmp_path / "a tree", setup_py=program)
    environ = {"PATH": "/usr/bin:/bin", "A": "b"}
    assert configure(folder, Path(sys.executable), (), environ) == status
    said = capfdbinary.readouterr().out.decode()
    assert said.startswith(f"+ {sys.executable} setup.py build --cmake --cmake-only\n")
    assert end == "os.abort()" or f"{folder} 1 b\n" in said


def test_messages_at_the_end_of_a_log_and_long_lines_count() -> None:
    (first, last) = read_messages(["x" * 9000, "CMake Warning at a:1 (message):"])[:2]
    assert (len(first.text), first.lines[0][0], last.lines[0][0]) == (8192, 1, 2)
    messages = Messages()
    assert messages.patience() == []
    assert (
        messages.feed("    CMake Error at a", 1) == messages.feed("", 2) == messages.feed("     b", 3) == []
    )
    (message, other) = messages.feed("    Not indented further", 4)
    assert (message.text, message.lines) == (
        "CMake Error at a b",
        ((1, "    CMake Error at a"), (2, ""), (3, "     b")),
    )
    assert other.lines == ((4, "    Not indented further"),)
    assert messages.feed("CMake Deprecation Warning at a", 5) == messages.feed("Call Stack", 6) == []
    assert messages.patience() == []
    assert [item.text for item in messages.patience()] == ["CMake Deprecation Warning at a Call Stack"]


SCRIPT = """\
set(source_file "/src/{name}.cpp") # path
set(SYCL_executable "{compiler}")
set(SYCL_host_compiler "{host}")
set(SYCL_compile_definitions [==[A=1;;B]==])
set({flags})
set(CMAKE_HOST_FLAGS {host_flags})
set(SYCL_host_compiler "second")
"""


def sycl_build(folder: Path) -> Path:
    build = folder / "build"
    scripts = build / "CMakeFiles/ops.dir"
    scripts.mkdir(parents=True)
    values = [
        (
            "a",
            "/icx",
            "",
            "SYCL_flags -std=c++17;-fpreview-breaking-changes;-std=gnu++20",
            "-D_GLIBCXX_USE_CXX11_ABI=1",
        ),
        ("b", "", "/g++", "SYCL_flags -std=c++23", "-std=c++11;-std=c++17"),
    ]
    for name, compiler, host, flags, host_flags in reversed(values):
        text = SCRIPT.format(name=name, compiler=compiler, host=host, flags=flags, host_flags=host_flags)
        (scripts / f"{name}.cpp.o.cmake").write_text(text)
    (scripts / "none.o.cmake").write_text("set(x y)\n")
    (folder / "a b.o.cmake").write_text((scripts / "a.cpp.o.cmake").read_text())
    command = "  COMMAND = cmake {} -P CMakeFiles/ops.dir/{}.o.cmake /CMakeFiles/ops.dir/x\n"
    link = "-fsycl-link -fsycl-targets=spir64_gen /CMakeFiles/{}.dir/x"
    devices = '-Xs "-device$ pvc,bmg" "-device\\ bmg,dg2"'
    lines = [
        "build x: phony -fsycl-link /CMakeFiles/no.dir/\n",
        "  COMMAND = cc -fsycl-link without a target\n",
        *(command.format("-E", name) for name in ("a.cpp", "b.cpp", "none", "gone")),
        f'  COMMAND = cmake -P "{folder}/a b.o.cmake" /CMakeFiles/bare.dir/x\n',
        f"  COMMAND = icx {link.format('ops')} {devices}\n",
        f"  COMMAND = icx {link.format('linked-only')} {devices}\n",
    ]
    (build / "build.ninja").write_text("".join(lines))
    return build


def test_groups_have_what_their_scripts_set_first(tmp_path: Path) -> None:
    build = sycl_build(tmp_path)
    ops, bare = read_sycl_groups(build)
    assert ops == SyclGroup(
        name="ops",
        sources=("/src/a.cpp", "/src/b.cpp"),
        aot=("pvc", "bmg", "dg2"),
        formats=("spir64_gen",),
        compiler="/icx",
        host_compiler="/g++",
        host_standard=None,
        device_standard="20",
        cxx11_abi=1,
        preview=("-fpreview-breaking-changes",),
    )
    assert (bare.name, bare.sources, bare.aot) == ("bare", ("/src/a.cpp",), ())
    assert [group.line() for group in (ops, bare)] == ["ops: -device pvc,bmg,dg2", "bare: -device nothing"]
