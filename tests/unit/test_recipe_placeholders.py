"""A placeholder that is none: recipes check names it, and a plan refuses it before anything is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Xpubuild

BUILD = "{arch}, {build}, {cxx11_abi}, {env}, {xpu}"
WRONG = [
    ('env: {FOO: "{nope}"}', "env.FOO: '{nope}' is not a placeholder; placeholders are " + BUILD),
    ('env: {FOO: "-I{env/include"}', "'-I{env/include' has an unmatched brace; placeholders are " + BUILD),
    ('components: {ops: {build: {config_settings: {b: "{x}"}}}}', "ops.build.config_settings.b: '{x}'"),
    ('variants: {v: {env: {ops: {B: "{jobs}"}}}}', "variants.v.env.ops.B: '{jobs}' is not a placeholder"),
    (
        'toolchain: {conda: {packages: ["cmake", "python={pyhton}"]}}',
        "toolchain.conda.packages.1: '{pyhton}' is not a placeholder; placeholders are {mkl}, {python}",
    ),
]  # fmt: skip


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
    assert said in str(checked.document()["recipes"][0]["problems"])
    refused = xpubuild("plan", path, "--workspace", str(tmp_path / "ws"), "--json")
    assert refused.status == 20
    error = refused.document()["error"]
    assert path in error["what"]
    assert said in error["why"]


def test_variables_of_cmake_and_shell_are_no_placeholders(xpubuild: Xpubuild, tmp_path: Path) -> None:
    path = recipe(tmp_path, 'env: {FOO: "${HOME}/{env}", BAR: "{}", BAZ: "{1}"}')
    xpubuild.ok("recipes", "check", path)
