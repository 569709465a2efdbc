"""What "recipes check" finds in a recipe, by itself and against a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.recipe_trees import OTHER, PIN

from xpubuild.errors import RecipeError
from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.releases import catalogue

HASH = "--hash=sha256:" + "1" * 64
ENV = {"USE_XPU": "{xpu}", "USE_CUDA": 0, "USE_ROCM": 0, "USE_DISTRIBUTED": 1, "USE_MPI": 0, "USE_KINETO": 1}
CLONED = {"url": "https://example.org/ops", "path": "third_party/ops", "pin_file": "third_party/ops.txt"}
SOURCE: dict[str, Any] = {
    "url": "https://example.org/torch.git", "commit": "1" * 40, "skip_submodules": ["third_party/a/deps/b"],
    "made_by_build": ["third_party/c"], "configure_time": [CLONED],
}  # fmt: skip
TORCH: dict[str, Any] = {"kind": "source", "dist": "torch", "source": SOURCE, "build": {"env": ENV}}
BASE: dict[str, Any] = {
    "schema": 1, "name": "2.6", "title": "t", "release": "2.6.0", "components": {"torch": TORCH},
    "facts": {"components": {"source": "x"}},
}  # fmt: skip
ARCHIVE = {"url": "https://h/a.tar.gz", "variable": "A"}


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


def problems(folder: Path, **changes: Any) -> list[str]:
    return check_recipes([str(write(folder, **changes))])["recipes"][0]["problems"]


def of_source(**changes: Any) -> dict[str, Any]:
    return {"components": {"torch": {**TORCH, "source": {**SOURCE, **changes}}}}


def of_build(**changes: Any) -> dict[str, Any]:
    return {"components": {"torch": {**TORCH, "build": {"env": ENV, **changes}}}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "other"}, "name is 'other', the file is named '2.6'"),
        (of_source(commit=None), "components.torch.source has neither commit nor ref"),
        (of_build(archives={"a": {**ARCHIVE, "url": "https://h/a.rar"}}), "end in the name of an archive"),
        ({"toolchain": {"requirements": ["gone.txt"]}}, "'gone.txt', which was not found"),
        ({"toolchain": {"requirements": ["bare.txt"]}}, "bare.txt: 'a==1' has no hash"),
        ({"toolchain": {"requirements": ["right.txt"], "leave_out": ["b"]}}, "lists b, which right.txt pins"),
        ({"patches": {"2.7.0": {}}}, "2.7.0: it is not a patch release of 2.6"),
        ({"patches": {"2.6.2": {"needs": {"gc": 1}}}}, "2.6.2: the recipe"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, changes: dict[str, Any], said: str) -> None:
    assert problems(folder) == []
    (folder / "bare.txt").write_text(f"# c\n-c x\na==1\nb==2 \\\n    {HASH}\nc>=3 {HASH}\n")
    (folder / "right.txt").write_text(f"b==2 \\\n    {HASH}\nd==1 {HASH}\n")
    (problem,) = problems(folder, **changes)
    assert said in problem


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (of_source(skip_submodules=["../../etc"]), "skip_submodules.0: '../../etc' is not a path below"),
        (of_source(skip_submodules=["-x"]), "'-x' is not a path below"),
        (of_source(made_by_build=["../x"]), "made_by_build.0: '../x' is not"),
        (of_source(url="ext::sh -c id"), "remote helper"),
        (of_source(url="-uanything"), "starts with '-'"),
        (of_source(url="ftp://example.org/x"), "its protocol is 'ftp'"),
        (of_source(ref="--upload-pack=x"), "is not the name of a tag or branch"),
        (of_source(configure_time=[CLONED, {**CLONED, "url": "ext::x"}]), "configure_time.1.url: it uses a"),
        (of_source(configure_time=[{**CLONED, "pin_file": "/x"}]), "configure_time.0.pin_file: '/x'"),
        (of_source(configure_time=[{**CLONED, "ref": "-x"}]), "configure_time.0.ref: '-x'"),
        (of_build(source_dir="../other"), "build.source_dir: '../other'"),
        (of_build(archives={"a": {**ARCHIVE, "url": "ext::sh -c x"}}), "archives.a.url: it uses a"),
        (of_build(archives={"a": {**ARCHIVE, "folder": "../x"}}), "archives.a.folder: '../x'"),
        (of_build(archives={"a": {**ARCHIVE, "pin_file": "/y"}}), "archives.a.pin_file: '/y'"),
    ],
)
def test_what_leads_elsewhere_is_no_recipe(folder: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        problems(folder, **changes)
    assert said in caught.value.why


def test_what_is_known_to_be_unknown_stops_only_those_who_ask_for_it(folder: Path) -> None:
    fact = {"components": {"source": "x"}}
    fact["components.torch.source.commit"] = {"source": "upstream", "confidence": "unknown"}
    torch = {**TORCH, "source": {"url": "/x"}, "optional": True}
    assert len(problems(folder, components={"torch": torch})) == 1
    assert problems(folder, components={"torch": torch}, facts=fact) == []
    assert problems(folder, **of_source(commit=None), abstract=True) == []


def test_embedded_sources_are_those_that_are_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.recipe.checked._embedded_commit", lambda: OTHER)
    for commit in (PIN, OTHER):
        source = {"embedded": "ops", "commit": commit}
        found = problems(folder, components={"ops": {"kind": "source", "dist": "x", "source": source}})
        assert len(found) == (1 if commit == PIN else 0)


def test_one_that_cannot_be_read_does_not_hide_the_others(folder: Path) -> None:
    write(folder)
    write(folder, "base", abstract=True)
    (folder / "broken.yaml").write_text("- a\n")
    write(folder, "2.10", name="2.10", release="2.10.1", patches={"2.10.0": {}})
    assert [entry["name"] for entry in catalogue()] == ["2.6", "2.10", "broken"]
    document = check_recipes([])
    assert [Path(item["recipe"]).stem for item in document["recipes"]] == ["2.6", "2.10", "base", "broken"]
    assert document["status"] == "fail"
    with pytest.raises(RecipeError):
        check_recipes([str(folder / "broken.yaml")])
