"""A placeholder that is none: recipes check names it, and a plan refuses it before anything is looked at."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.cli import Xpubuild

from xpubuild.install import conda_environment
from xpubuild.recipe.lint import CONDA_PLACEHOLDERS

BUILD = "{arch}, {build}, {cxx11_abi}, {env}, {xpu}"
WRONG = [
    ('env: {FOO: "{nope}"}', "env.FOO: '{nope}' is not a placeholder; placeholders are " + BUILD),
    ('env: {FOO: "a{cxx11-abi}"}', "env.FOO: '{cxx11-abi}' is not a placeholder; placeholders are " + BUILD),
    (
        'components: {ops: {build: {env: {FOO: "{python}"}}}}',
        "components.ops.build.env.FOO: '{python}' is not a placeholder; placeholders are " + BUILD,
    ),
    (
        'env: {FOO: "-I{env/include"}',
        "env.FOO: '-I{env/include' has an unmatched brace; placeholders are " + BUILD,
    ),
    (
        'toolchain: {conda: {packages: ["cmake", "python={pyhton}"]}}',
        "toolchain.conda.packages.1: '{pyhton}' is not a placeholder; placeholders are {mkl}, {python}",
    ),
]


def recipe(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(f"schema: 1\nname: mine\ntitle: t\nextends: quickstart\n{text}\n")
    return str(path)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_check_and_plan_name_file_key_and_the_known_ones(
    xpubuild: Xpubuild, tmp_path: Path, text: str, said: str
) -> None:
    path = recipe(tmp_path, text)
    checked = xpubuild("recipes", "check", path, "--json")
    assert checked.status == 20
    (result,) = checked.document()["recipes"]
    assert result["recipe"] == path
    assert said in result["problems"]
    for command in ("plan", "install"):
        refused = xpubuild(command, path, "--workspace", str(tmp_path / "ws"), "--json")
        assert refused.status == 20
        error = refused.document()["error"]
        assert path in error["what"]
        assert said in error["why"]
    assert not (tmp_path / "ws").exists()


def test_variables_of_cmake_and_shell_are_no_placeholders(xpubuild: Xpubuild, tmp_path: Path) -> None:
    path = recipe(tmp_path, 'env: {FOO: "${HOME}/{env}", BAR: "{}", BAZ: "{1}"}')
    xpubuild.ok("recipes", "check", path)


def test_what_is_left_out_is_not_pinned(xpubuild: Xpubuild, tmp_path: Path) -> None:
    path = recipe(tmp_path, "toolchain: {leave_out: [tbb, cmake]}")
    checked = xpubuild("recipes", "check", path, "--json")
    assert checked.status == 20
    (problem,) = checked.document()["recipes"][0]["problems"]
    assert problem.startswith(
        "toolchain.leave_out lists cmake, which requirements/quickstart-toolchain.txt pins"
    )


def test_those_of_conda_packages_are_the_ones_that_are_filled_in() -> None:
    tree = ast.parse(Path(conda_environment.__file__).read_text("utf-8"))
    keys = {key.value for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys
            if isinstance(key, ast.Constant)}  # fmt: skip
    assert {key for key in keys if str(key).startswith("{")} == {f"{{{item}}}" for item in CONDA_PLACEHOLDERS}
