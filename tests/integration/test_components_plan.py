"""Plans of real components: triton prebuilt and from source, front ends, selection, what is shown of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.cli import Xpubuild

from xpubuild.artifacts.configure import check
from xpubuild.errors import RecipeError

COMPONENTS = Path(__file__).parent.parent / "data/components/components.yaml"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TRITON = f"""\
schema: 1
name: site
title: a site that takes triton as it is published
extends: quickstart
target: xpu
targets: [xpu, cpu]
components:
  torch: {{targets: [xpu, cpu]}}
  triton:
    kind: wheel
    dist: pytorch-triton-xpu
    version: 3.3.0
    commit: {COMMIT}
    needs: [torch]
    targets: [xpu]
    requirements: triton.txt
  triton-source:
    kind: source
    dist: pytorch-triton-xpu
    needs: [torch]
    optional: true
    targets: [xpu]
    source: {{url: "https://example.invalid/intel-xpu-backend-for-triton.git", commit: "{COMMIT}"}}
    build:
      source_dir: python
      env: {{TRITON_WHEEL_NAME: pytorch-triton-xpu}}
  vision:
    kind: source
    dist: torchvision
    needs: [torch]
    source: {{url: "https://example.invalid/vision.git", commit: "{COMMIT}"}}
"""


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


@pytest.fixture
def site(tmp_path: Path) -> str:
    recipe = tmp_path / "site.yaml"
    recipe.write_text(TRITON)
    (tmp_path / "triton.txt").write_text(f"pytorch-triton-xpu==3.3.0 --hash=sha256:{'1' * 64}\n")
    return str(recipe)


def steps_of(xpubuild: Xpubuild, *arguments: str) -> dict[str, dict[str, Any]]:
    plan = xpubuild.json("plan", *arguments, "--jobs", "4")
    return {step["id"]: step for step in plan["steps"]}


def argv_of(step: dict[str, Any]) -> list[str]:
    """Return the words of the last command that is pip's or Python's own."""
    words = [command["argv"] for command in step["commands"] if command["argv"][0] != "xpubuild"]
    return [str(word) for word in words[-1]]


# --- triton ----------------------------------------------------------------------------------------------


def test_no_pip_step_may_bring_another_triton_or_torch(xpubuild: Xpubuild, site: str) -> None:
    script = xpubuild.ok("plan", site, "--format", "sh").out
    for name in ("triton", "triton-xpu", "pytorch-triton"):
        assert f"\n{name}<0\n" in script
    assert "\npytorch-triton-xpu==3.3.0\n" in script
    assert "\npytorch-triton-xpu<0\n" not in script
    steps = steps_of(xpubuild, site)
    for name in ("triton", "ops.install", "vision.install"):
        argv = argv_of(steps[name])
        held = [argv[index + 1] for index, word in enumerate(argv) if word == "--constraint"]
        assert [Path(file).name for file in held] == ["by-the-recipe.txt", "torch.txt"]
    for name in ("torch", "triton", "ops.install", "vision.install"):
        assert steps[name]["commands"][-1]["argv"][:3] == ["xpubuild", "plumbing", "hold"]
        assert any("one owner each of torch/ and triton/" in text for text in steps[name]["proves"])


def test_triton_from_source_instead(xpubuild: Xpubuild, site: str) -> None:
    steps = steps_of(xpubuild, site, "--without", "triton", "--with", "triton-source")
    step = steps["triton-source.wheel"]
    argv = argv_of(step)
    assert argv[-1].endswith("src/triton-source/python")
    assert argv[argv.index("pip") + 1] == "wheel"
    assert step["commands"][-1]["env"]["TRITON_WHEEL_NAME"] == "pytorch-triton-xpu"
    # Left alone, triton's build takes twice the cores.
    assert int(step["commands"][-1]["env"]["MAX_JOBS"]) <= 4
    assert "torch" in step["needs"]


def test_both_at_once_are_refused(xpubuild: Xpubuild, site: str) -> None:
    result = xpubuild("plan", site, "--with", "triton-source")
    assert result.status == 22
    assert "triton and triton-source both contain the package triton/" in " ".join(result.err.split())
    assert "--without triton-source" in result.err


# --- vision and audio ------------------------------------------------------------------------------------


def test_editable_builds_where_the_checkout_is(xpubuild: Xpubuild) -> None:
    steps = steps_of(xpubuild, str(COMPONENTS), "--editable", "--without", "ops")
    assert "vision.wheel" not in steps
    argv = argv_of(steps["vision.install"])
    assert argv[argv.index("--editable") + 1].endswith("src/vision")
    assert "--no-build-isolation" in argv
    assert steps["vision.install"]["commands"][-2]["env"]["MAX_JOBS"] == "4"
    assert steps["audio.install"]["after"] == ["vision.install"]


# --- front ends ------------------------------------------------------------------------------------------


def plan_with(xpubuild: Xpubuild, folder: Path, build: str) -> dict[str, dict[str, Any]]:
    text = COMPONENTS.read_text().replace("    build:\n      env:\n        BUILD_VERSION: 2.6.0", build)
    assert build in text
    recipe = folder / "site.yaml"
    recipe.write_text(text)
    for name in ("vision-build.txt",):
        (folder / name).write_text((COMPONENTS.parent / name).read_text())
    return steps_of(xpubuild, str(recipe))


def test_setup_py_where_a_recipe_asks_for_it(xpubuild: Xpubuild, tmp_path: Path) -> None:
    build = "    build:\n      front_end: setup.py\n      env:\n        BUILD_VERSION: 2.6.0"
    step = plan_with(xpubuild, tmp_path, build)["audio.wheel"]
    first, command = step["commands"]
    assert first["argv"][1:3] == ["plumbing", "front-end"]
    assert "setup.py" in first["argv"]
    assert command["argv"][1:3] == ["setup.py", "bdist_wheel"]
    assert command["cwd"].endswith("src/audio")


def test_setup_py_takes_no_config_settings(xpubuild: Xpubuild, tmp_path: Path) -> None:
    build = (
        "    build:\n      front_end: setup.py\n      config_settings: {a: b}\n"
        "      env:\n        BUILD_VERSION: 2.6.0"
    )
    text = COMPONENTS.read_text().replace("    build:\n      env:\n        BUILD_VERSION: 2.6.0", build)
    recipe = tmp_path / "site.yaml"
    recipe.write_text(text)
    (tmp_path / "vision-build.txt").write_text((COMPONENTS.parent / "vision-build.txt").read_text())
    result = xpubuild("plan", str(recipe))
    assert result.status == 20
    assert "config settings" in result.err


PYPROJECT = """\
[tool.black]
line-length = 120

[build-system]  # as upstream writes it
requires = [
    "setuptools>=62.3",  # with a ] in a comment
    'ninja[extra]; platform_system != "Nowhere"', "astunparse",
    "never; python_version < '3'",
]
build-backend = {backend}

[project]
name = "x"
"""


def tree(folder: Path, *files: str, pyproject: str | None = None) -> Path:
    folder.mkdir()
    for name in files:
        (folder / name).write_text("")
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject)
    return folder


def test_a_recipe_that_does_not_fit_the_tree_is_refused(tmp_path: Path) -> None:
    modern = tree(tmp_path / "modern", pyproject=PYPROJECT.format(backend='"scikit_build_core.build"'))
    classic = tree(tmp_path / "classic", "setup.py")
    assert "scikit_build_core.build" in check(modern, wanted="auto", settings=("build-dir", "cmake.define.X"))
    with pytest.raises(RecipeError, match=r"no setup\.py"):
        check(modern, wanted="setup.py", settings=())
    with pytest.raises(RecipeError, match=r"build-dir, cmake\.define\.X would be ignored"):
        check(classic, wanted="auto", settings=("cmake.define.X", "build-dir"))
    # setuptools has settings of its own.
    assert check(classic, wanted="auto", settings=("--build-option",))


# --- side by side -----------------------------------------------------------------------------------------


def test_nothing_is_installed_while_a_build_runs(xpubuild: Xpubuild) -> None:
    # A build whose modules pip replaces under it dies of a bus error: seen with the real torchaudio.
    steps = steps_of(xpubuild, str(COMPONENTS))

    def before(name: str) -> set[str]:
        direct = {*steps[name]["needs"], *steps[name]["after"]}
        return direct | {other for item in direct for other in before(item)}

    builds = [name for name in steps if name.endswith(".wheel")]
    pips = [name for name in steps if name == "torch" or name.endswith((".requirements", ".install"))]
    assert len(builds) >= 3
    for build, pip in itertools.product(builds, pips):
        assert pip in before(build) or build in before(pip), f"{pip} may run while {build} does"
    # Their compilers cannot wait for memory, so each has all jobs for itself.
    assert "vision.wheel" in before("audio.wheel")
