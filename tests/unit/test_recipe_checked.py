"""What "recipes check" and "recipes list" say of recipes with something wrong, whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.recipe_trees import OTHER, PIN, write_tree

from xpubuild.errors import RecipeError, UsageError
from xpubuild.recipe.catalogue import catalogue
from xpubuild.recipe.checked import check_recipes

HASH = "--hash=sha256:" + "1" * 64
ENV = {"USE_XPU": "{xpu}", "USE_CUDA": 0, "USE_ROCM": 0, "USE_DISTRIBUTED": 1, "USE_MPI": 0, "USE_KINETO": 1}
TORCH: dict[str, Any] = {
    "kind": "source", "dist": "torch", "source": {"url": "/x", "ref": "v2.6.0"}, "build": {"env": ENV},
}  # fmt: skip
BASE: dict[str, Any] = {
    "schema": 1, "name": "2.6", "title": "t", "release": "2.6.0", "components": {"torch": TORCH},
    "facts": {"components": {"source": "x"}},
}  # fmt: skip


def changed(**parts: Any) -> dict[str, Any]:
    """Return torch with other parts."""
    return {"components": {"torch": {**TORCH, **parts}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path / "recipes"))
    monkeypatch.setattr("xpubuild.recipe.load.recipes_dir", lambda: tmp_path / "shipped")
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes"


def write(folder: Path, stem: str = "2.6", **changes: Any) -> Path:
    path = folder / f"{stem}.yaml"
    path.write_text(yaml.safe_dump({**BASE, **changes}, sort_keys=False))
    return path


SOURCE = TORCH["source"]
ARCHIVE = {"url": "https://h/a.tar.gz", "variable": "A"}


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"name": "other"}, {"facts": {}},
        {"toolchain": {"requirements": ["gone.txt", "bare.txt", "right.txt"], "leave_out": ["b", "c"]}},
        changed(requirements="gone.txt", build={"env": ENV, "requirements": ["bare.txt"]}),
        {"patches": {"2.6.1": {}, "2.7.0": {}, "2.6.2": {"needs": {"gc": 1}},
                     "2.6.3": {"components": {"torch": {"build": {"env": {"USE_XETLA": 1}}}}}}},
        changed(source={"url": "ext::x", "ref": "-x", "tree": "1" * 64}),
        changed(source={**SOURCE, "tree": "2" * 40, "commit": "1" * 64}),
        changed(source={"url": "/x"}),
        changed(source={**SOURCE, "made_by_build": ["a", "../b", "/c", "-d", ""]}),
        changed(source={**SOURCE, "configure_time": [
            {"url": "", "path": ".", "pin_file": "../x", "ref": "-x"},
            {"url": "/y", "path": "a", "pin_file": "b/c", "ref": "v1"}]}),
        changed(build={"env": ENV, "source_dir": "/x", "archives": {
            "a": ARCHIVE, "b": {**ARCHIVE, "url": "https://h/a.rar"}, "c": {**ARCHIVE, "url": "ftp://h/a.zip"},
            "d": {**ARCHIVE, "folder": "../x", "pin_file": "/y"}, "e": {**ARCHIVE, "url": "https://h/.zip"},
            "f": {**ARCHIVE, "url": None}}}),
        {"env": {"A": "{what}", "B": "{", "C": "${HOME}", "D": "}{env}"},
         "toolchain": {"conda": {"packages": ["python {python}", "mkl {mlk}"]}}},
        {"variants": {"v": {"env": {"torch": {"USE_KINETO": "perhaps", "B": "{jobs}"}}}}},
        changed(build={"env": {**ENV, "USE_KINETTO": 1, "USE_XETLA": 1, "MAX_JOBS": 0}}),
        {"release": "2.8.0", "name": "2.8", "abi": {"honoured": True, "default": 0}},
    ],
    ids=range(16),
)  # fmt: skip
def test_what_is_wrong_is_told(folder: Path, changes: dict[str, Any]) -> None:
    path = write(folder, "2.8" if changes.get("name") == "2.8" else "2.6", **changes)
    (folder / "bare.txt").write_text(f"# c\n-c x\na==1\nb==2 \\\n    {HASH}\nc>=3 {HASH}\n")
    (folder / "right.txt").write_text(f"b==2 \\\n    {HASH}\nd==1 {HASH}\n")
    document = check_recipes([str(path)])
    assert document["status"] == ("fail" if document["recipes"][0]["problems"] else "ok")


def test_embedded_sources_are_those_that_are_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.recipe.checked._embedded_commit", lambda: OTHER)
    for commit in (PIN, OTHER):
        source = {"embedded": "ops", "commit": commit}
        write(folder, components={"ops": {"kind": "source", "dist": "x", "source": source}})
        assert check_recipes(["2.6"])["status"] == ("fail" if commit == PIN else "ok")


def test_a_tree_is_held_against_one_recipe(folder: Path, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    (tree / "third_party/xpu.txt").write_text(OTHER)
    path = write(folder)
    assert check_recipes([str(path)], {"torch": tree})["recipes"][0]["problems"] == []
    path = write(folder, **changed(source={**SOURCE, "version": "2.5.0", "requires_python": ">=3.8"}))
    assert check_recipes([str(path)], {"torch": tree})["status"] == "fail"
    for trees in ({"torch": tmp_path}, {"vision": tree}):
        with pytest.raises(UsageError):
            check_recipes([str(path)], trees)
    with pytest.raises(UsageError):
        check_recipes([], {"torch": tree})


def test_one_that_cannot_be_read_does_not_hide_the_others(folder: Path) -> None:
    write(folder)
    write(folder, "base", abstract=True)
    (folder / "broken.yaml").write_text("- a\n")
    write(folder, "2.10", name="2.10", release="2.10.1", patches={"2.10.0": {}})
    assert [entry["name"] for entry in catalogue()] == ["2.6", "2.10", "broken"]
    document = check_recipes([])
    assert [Path(item["recipe"]).stem for item in document["recipes"]] == ["2.6", "2.10", "base", "broken"]
    with pytest.raises(RecipeError):
        check_recipes([str(folder / "broken.yaml")])
