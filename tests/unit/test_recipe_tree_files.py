"""Files of a source tree that cannot be trusted, and the Python requirement that is read from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.recipe_trees import PIN, SETUP, found, write_tree

from xpubuild.recipe.setup_py import requires_python
from xpubuild.recipe.tree_text import MOST_BYTES


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree")


def chained(links: int) -> str:
    """Return a setup.py with a requirement that a chain of names leads to."""
    names = "".join(f"M{number} = M{number - 1} + ''\n" for number in range(1, links))
    return f"M0 = '>=3.7'\n{names}setup(python_requires=M{links - 1})"


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.10"\n', "setup.py": SETUP}, ">=3.10"),
        ({"setup.py": "from setuptools import setup\nsetup(python_requires='>=3.8, <4')"}, "<4,>=3.8"),
        ({"setup.py": "import setuptools\nM = '3.7'\nsetuptools.setup(python_requires='>=' + M)"}, ">=3.7"),
        ({"setup.py": "M: str = '3.7'\nsetup(python_requires=f'>={M}')"}, ">=3.7"),
        ({"setup.py": "M = '3.7'\nM = '3.8'\nsetup(python_requires=f'>={M}')"}, None),
        ({"setup.py": "M = f()\nsetup(python_requires=f'>={M}')"}, None),
        ({"setup.py": "M = M\nsetup(python_requires=M)"}, None),
        ({"setup.py": "setup(python_requires='.'.join(open('/etc/passwd')))"}, None),
        ({"setup.py": "setup(python_requires='three')"}, None),
        ({"setup.py": "setup(name='x')"}, None),
        ({"setup.py": chained(10)}, ">=3.7"),
        ({"setup.py": chained(11)}, None),
        ({"setup.py": "setup(python_requires='.'.join(map(str, (3, '7'))))"}, None),
        ({"setup.py": "setup(python_requires='>=' + '.'.join(map(str, [3, 7])))"}, ">=3.7"),
        ({"setup.py": "setup(python_requires='>=' + '.'.join(map(int, [3, 7])))"}, None),
        ({"setup.py": "setup(python_requires='>=' + '.'.join(map(str, [3, 7], x=1)))"}, None),
        ({"setup.py": "setup(python_requires='>=' + '.'.join(filter(str, [3, 7])))"}, None),
        ({"setup.py": "setup(python_requires='>=' + '.'.join([3.5]))"}, None),
        ({"setup.py": "setup(python_requires='>=' + 3.join(['7']))"}, None),
        ({"setup.py": "setup(python_requires='>=' + '.'.join(['3'], ['7']))"}, None),
        ({"setup.py": "M = '7'\nsetup(python_requires=f'>=3.{M:>2}')"}, None),
        ({"setup.py": "setup(python_requires='>=4' - '1')"}, None),
        ({"setup.py": "a = b = '>=3.7'\nsetup(python_requires=b)"}, ">=3.7"),
        ({"setup.py": "a.b = '>=3.7'\nM: str\nsetup(python_requires=M)"}, None),
        ({"setup.py": "def setup(x): pass\nother.setup(python_requires='>=3.7')"}, ">=3.7"),
        ({"setup.py": "setups(python_requires='>=3.7')\nx.y().z(python_requires='>=3.7')"}, None),
        ({"setup.py": "setup(python_requires=37)"}, None),
        ({"setup.py": "def ("}, None),
        ({"setup.py": "\x00"}, None),
        (
            {"pyproject.toml": "[project]\nname = 'x'\n", "setup.py": "setup(python_requires='>=3.9')"},
            ">=3.9",
        ),
        ({}, None),
    ],
)
def test_the_python_requirement_is_read_and_never_run(
    tmp_path: Path, files: dict[str, str], answer: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert requires_python(tmp_path).text == answer


def broken(tree: Path, name: str, how: str) -> None:
    """Put something in the place of a file that must not be read as one."""
    file = tree / name
    file.unlink()
    if how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    elif how == "large":
        file.write_text(PIN + "\n" * MOST_BYTES)
    elif how == "latin-1":
        file.write_bytes(b"2.6.0a0 \xe9\n")
    else:
        file.symlink_to(how)


@pytest.mark.parametrize("name", [
    "third_party/xpu.txt", "version.txt", ".gitmodules", ".ci/docker/triton_version.txt",
    ".ci/docker/ci_commit_pins/triton-xpu.txt", "pyproject.toml",
])  # fmt: skip
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("pipe", "not a regular file"),
        ("folder", "it is a folder"),
        ("large", "larger than 1 MiB"),
        ("latin-1", "not UTF-8 (byte 8)"),
        ("/dev/zero", "outside the tree"),
        ("../../../../../../../../../../../../etc/hostname", "outside the tree"),
        ("nothing", "a broken link"),
    ],
)
@pytest.mark.timeout(20)
def test_what_is_no_file_of_the_tree_is_not_read(tree: Path, name: str, how: str, said: str) -> None:
    broken(tree, name, how)
    problems = found(tree).problems
    assert [text for text in problems if name in text and said in text], problems


def test_a_link_in_a_circle_is_not_followed(tree: Path) -> None:
    broken(tree, "version.txt", "version.txt")
    (problem,) = found(tree).problems
    assert problem.startswith("version.txt cannot be read: ")


def test_a_link_inside_the_tree_is_read(tree: Path) -> None:
    (tree / "pins").write_text(PIN)
    broken(tree, "third_party/xpu.txt", "../pins")
    assert found(tree).problems == []


def test_a_pin_file_outside_the_tree_is_not_read(tree: Path) -> None:
    (tree.parent / "pin.txt").write_text(PIN)
    for file in ("../pin.txt", str(tree.parent / "pin.txt")):
        entry = {"url": "/ops", "pin_file": file, "commit": PIN}
        report = found(tree, source={"configure_time": [entry]})
        assert report.problems == [f"{file} cannot be read: it is outside the tree"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"pyproject.toml": "[project\n", "setup.py": SETUP}, "pyproject.toml: it is not valid TOML"),
        (
            {"pyproject.toml": "project = 3\n", "setup.py": SETUP},
            "pyproject.toml: its 'project' is not a table",
        ),
        ({"pyproject.toml": "[project]\nrequires-python = 3\n", "setup.py": SETUP}, "requires-python is 3"),
        ({"pyproject.toml": "[project]\nrequires-python = 'three'\n", "setup.py": SETUP}, "'three'"),
        ({"setup.py": "setup(python_requires='three')"}, "setup.py: it requires Python 'three'"),
    ],
)
def test_a_broken_python_requirement_is_told(tree: Path, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        (tree / name).write_text(text)
    report = found(tree)
    assert [text for text in report.problems if said in text], report
    assert "requires_python" not in report.found


def test_a_setup_py_for_another_python_is_listed(tree: Path) -> None:
    (tree / "setup.py").write_text("print 'hello'")
    report = found(tree)
    assert report.problems == []
    assert any("requires-python: setup.py: it cannot be parsed" in text for text in report.not_checked)
