"""The recipe of 2.6 against the real tree of PyTorch 2.6.0, and against copies in which one thing differs.

The tree is a distribution's source archive: without .git, submodules, .gitmodules and .ci.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import upstream
from support.cli import Xpubuild
from support.documents import check

XPU_OPS = "28cfac20ec662abdb0ac98faf122450013e8f520"
OTHER = "fe4ac6a6" + "0" * 32


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    without = (*upstream.NOT_BUILT, "aten", "torch")
    return upstream.source("pytorch", tmp_path_factory.mktemp("upstream"), without)


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


def test_the_recipe_agrees_with_the_tree(tree: Path, xpubuild: Xpubuild) -> None:
    document = xpubuild.json("recipes", "check", "2.6", "--tree", str(tree))
    check(document, "recipes-check")
    (result,) = document["recipes"]
    assert result["problems"] == []
    assert {text.split(": ")[1].rpartition("/")[2] for text in result["not_checked"]} == {
        "triton-xpu.txt",
        "triton_version.txt",
        "commit",
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("third_party/xpu.txt", XPU_OPS, OTHER), (XPU_OPS, OTHER)),
        (("version.txt", "2.6.0a0", "2.7.0a0"), ("2.6.0a0", "2.7.0a0")),
    ],
)
def test_one_difference_is_named(
    tree: Path, xpubuild: Xpubuild, tmp_path: Path, change: tuple[str, str, str], said: tuple[str, str]
) -> None:
    file, old, new = change
    changed = tmp_path / "tree"
    for name in ("setup.py", "pyproject.toml", "version.txt", "third_party/xpu.txt"):
        (changed / name).parent.mkdir(parents=True, exist_ok=True)
        (changed / name).write_bytes((tree / name).read_bytes())
    text = (changed / file).read_text()
    assert old in text
    (changed / file).write_text(text.replace(old, new))
    result = xpubuild("recipes", "check", "2.6", "--tree", str(changed), "--json")
    assert result.status == 20
    (checked,) = result.document()["recipes"]
    problem = next(text for text in checked["problems"] if file in text)
    for value in said:
        assert value in problem
