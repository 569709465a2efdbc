"""What a plan refuses of a recipe is what its check finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.refused import refused, satisfiable

SOURCE: dict[str, Any] = {
    "url": "https://example.org/torch.git",
    "commit": "1" * 40,
    "skip_submodules": ["third_party/a/deps/b"],
    "made_by_build": ["third_party/c"],
    "requires_python": ">=3.9",
    "configure_time": [
        {"url": "https://example.org/ops", "path": "third_party/ops", "pin_file": "third_party/ops.txt"}
    ],
}
ENTRY = SOURCE["configure_time"][0]


def document(source: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    torch = {"kind": "source", "dist": "torch", "source": {**SOURCE, **(source or {})}}
    return {"schema": 1, "name": "mine", "title": "t", "components": {"torch": torch}, **changes}


def problems(source: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    return refused(Recipe.model_validate(document(source, **changes)))


def test_a_recipe_that_can_be_planned() -> None:
    assert problems() == []
    assert problems({"commit": None, "ref": "main"}) == []


@pytest.mark.parametrize("path", ["../../etc", "/etc", "a/../../b", "-x", "a//b", ".", ""])
def test_a_skipped_submodule_is_below_the_checkout(path: str) -> None:
    (problem,) = problems({"skip_submodules": ["third_party/a", path]})
    assert problem.startswith("components.torch.source: ")
    assert f"'{path}', which is not the path of a submodule" in problem


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ext::sh -c id", "remote helper"),
        ("-uanything", "starts with '-'"),
        ("ftp://example.org/x", "its protocol is 'ftp'"),
        ("../x", "neither a URL nor an absolute path"),
        ("", "it is empty"),
    ],
)
def test_urls_that_git_must_not_get(url: str, said: str) -> None:
    (problem,) = problems({"url": url})
    assert problem.startswith("components.torch.source: ")
    assert said in problem
    (problem,) = problems({"configure_time": [ENTRY, {**ENTRY, "url": url}]})
    assert problem.startswith("components.torch.source.configure_time.1.url is not valid: ")
    assert said in problem


@pytest.mark.parametrize("key", ["path", "pin_file"])
@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "-x", "", "."])
def test_what_the_build_clones_is_below_the_checkout(key: str, path: str) -> None:
    (problem,) = problems({"configure_time": [{**ENTRY, key: path}]})
    assert (
        problem
        == f"components.torch.source.configure_time.0.{key} is '{path}', which is not below the checkout"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"ref": "--upload-pack=x"}, "is not a tag or branch name"),
        ({"tree": "2" * 64}, "is of another kind than its commit"),
        ({"made_by_build": ["../x"]}, "made_by_build lists '../x'"),
        ({"configure_time": [{**ENTRY, "ref": "-x"}]}, "configure_time.0.ref is '-x'"),
        (
            {"requires_python": ">=3.12,<3.9"},
            "source.requires_python is '>=3.12,<3.9', which no version matches",
        ),
    ],
)
def test_other_parts_of_a_source(source: dict[str, Any], said: str) -> None:
    (problem,) = problems(source)
    assert said in problem


def test_the_folder_of_a_build_is_below_the_checkout() -> None:
    torch = {"kind": "source", "dist": "torch", "source": SOURCE, "build": {"source_dir": "../other"}}
    (problem,) = problems(components={"torch": torch})
    assert "build.source_dir is '../other'" in problem


def test_sources_have_to_be_named() -> None:
    (problem,) = problems({"commit": None})
    assert "components.torch.source has neither commit nor ref" in problem
    assert problems({"commit": None}, abstract=True) == []
    fact = {"components.torch.source.commit": {"source": "upstream", "confidence": "unknown"}}
    assert len(problems({"commit": None}, facts=fact)) == 1
    torch = {"kind": "source", "dist": "torch", "source": {"url": "/x"}, "optional": True}
    assert len(problems(components={"torch": torch})) == 1
    # What is known to be unknown stops only those who ask for it.
    assert problems(components={"torch": torch}, facts=fact) == []


@pytest.mark.parametrize("key", ["python", "gcc", "cmake", "oneapi"])
def test_a_need_that_nothing_meets(key: str) -> None:
    assert problems(needs={key: ">=13,<12"}) == [f"needs.{key} is '>=13,<12', which no version matches"]


def test_conditions_that_never_hold() -> None:
    never = {"gcc": ">=13,<12"}
    found = problems(
        loses=[{"feature": "x", "when": {"gcc": ">=12"}}, {"feature": "x", "when": never}],
        refuses=[{"why": "x", "when": never}],
        components={
            "torch": {
                "kind": "source", "dist": "torch", "source": SOURCE,
                "build": {
                    "large_units": [{"what": "x", "gib_each": 1, "gib_largest": 1, "gcc": "<5,>5"}]
                },
            }
        },
    )  # fmt: skip
    assert [text.split(" is ")[0] for text in found] == [
        "components.torch.build.large_units.0.gcc", "loses.1.when.gcc", "refuses.0.when.gcc",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("specifier", "answer"),
    [
        ("", True), (">=3.10,<3.15", True), (">=13,<12", False), (">=13,<13", False), (">13,<=13", False),
        (">13,<14", True), ("==13", True), ("==13,!=13.0", False), ("==13.*,!=13.0", True),
        ("==13.*,!=13.*", False), ("==13.*,>=14", False), ("~=3.1,<3.1", False), ("~=3.1,>3.9", True),
        ("!=3.*", True), (">=3.*,<3.1", None), ("<0", False), (">=2025.0,<2025.1", True),
        (">=3.1rc1,<3.1rc3", True), (">3.1rc1,<3.1rc3", True), ("==2.13.0+cpu", True), (">=1!2,<1!1", False),
        ("===13", True), ("===13,<12", False), ("!=1,!=2,!=3,>=1,<=3", True), (">=99999999", True),
    ],
)  # fmt: skip
def test_whether_a_version_exists(specifier: str, answer: bool | None) -> None:
    if answer is None:
        with pytest.raises(ValueError, match="Invalid"):
            satisfiable(specifier)
    else:
        assert satisfiable(specifier) is answer


def test_the_check_of_a_recipe_tells_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document({"skip_submodules": ["../../etc"]}, needs={"gcc": ">=13,<12"})))
    checked = check_recipes([str(path)])
    assert checked["status"] == "fail"
    found = "\n".join(checked["recipes"][0]["problems"])
    assert "'../../etc'" in found
    assert "needs.gcc is '>=13,<12', which no version matches" in found
