"""The recipe of 2.6 against the real tree of PyTorch 2.6.0; what differs is named: test_recipe_tree.py.

The tree is a distribution's source archive: without .git, submodules, .gitmodules and .ci.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import upstream
from support.cli import Xpubuild
from support.documents import check


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    without = (*upstream.NOT_BUILT, "aten", "torch")
    return upstream.source("pytorch", tmp_path_factory.mktemp("upstream"), without)


def test_the_recipe_agrees_with_the_tree(tree: Path, xpubuild: Xpubuild) -> None:
    document = xpubuild.json("recipes", "check", "2.6", "--tree", str(tree))
    check(document, "recipes-check")
    (result,) = document["recipes"]
    assert result["problems"] == []
    left_out = {text.split(": ")[1].rpartition("/")[2] for text in result["not_checked"]}
    assert left_out == {"triton-xpu.txt", "triton_version.txt", "commit"}
