"""The action of GitHub and the component of GitLab: valid, and their script run as a job runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.small_world import SmallWorld, small_world
from support.documents import check
from support.imports import ROOT

ACTION = ROOT / "action.yml"
COMPONENT = ROOT / "templates" / "install.yml"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    with small_world(tmp_path_factory.mktemp("world")) as made:
        yield made


@dataclass
class Job:
    """A job of GitHub Actions in an empty workspace, and the files that the runner reads afterwards."""

    folder: Path

    @property
    def outputs(self) -> dict[str, str]:
        lines = (self.folder / "output").read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    @property
    def summary(self) -> str:
        return (self.folder / "summary.md").read_text("utf-8")

    def run(self, inputs: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Execute the one run line of the action, with the environment that the action gives it."""
        action = yaml.safe_load(ACTION.read_text("utf-8"))
        (step,) = [step for step in action["runs"]["steps"] if "run" in step]
        given = {name: inputs.get(name, item.get("default", "")) for name, item in action["inputs"].items()}
        named = {key: _filled(text, given) for key, text in step["env"].items()}
        (self.folder / "work").mkdir(parents=True, exist_ok=True)
        (self.folder / "output").write_text("")
        env = {
            **os.environ, **named,
            # xpubuild is installed already: the package, the argument of the line, is left out.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
        }  # fmt: skip
        line = step["run"].removesuffix(' "$GITHUB_ACTION_PATH"')
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder / "work", env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip


def _filled(text: str, inputs: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], text)


def test_a_job_builds_from_what_it_fetched_and_leaves_results(world: SmallWorld, tmp_path: Path) -> None:
    job = Job(tmp_path / "jöb 1")
    inputs = {"recipe": str(world.recipe), "verify": "none"}
    done = job.run(inputs)
    assert done.returncode == 0, done.stderr
    folder = job.folder / "work" / "xpubuild-ci"
    wheels = Path(job.outputs["wheels"])
    assert {path.name for path in wheels.glob("*.whl")} == {
        "mine-1.0-py3-none-any.whl", "tiny_wheel-1.0+cpu-py3-none-any.whl",
    }  # fmt: skip
    receipt = check(json.loads((folder / "receipt.json").read_text()), "receipt")
    assert receipt["workspace"] == job.outputs["workspace"]
    assert subprocess.run([job.outputs["python"], "-c", "import mine"], check=False).returncode == 0
    assert f"### xpubuild install {receipt['recipe']}" in job.summary
    assert "| mine.wheel |" in job.summary
    folds = re.findall(r"^::group::(.*?)^::endgroup::", done.stderr, re.MULTILINE | re.DOTALL)
    assert any("mine.source" in fold for fold in folds)
    assert not re.search(r"\d+% \(\d+/\d+\)(?!.*done\.)|Progress \d+ of", "".join(folds))
    # Nothing new was fetched: the CI service has to store nothing.
    mirror = job.outputs["mirror"]
    assert job.run(inputs).returncode == 0
    assert job.outputs["mirror"] == mirror


def test_a_job_that_fails_says_so_on_its_page_and_in_annotations(world: SmallWorld, tmp_path: Path) -> None:
    recipe = world.recipe.with_name("broken.yaml")  # beside the files that it names
    text = world.recipe.read_text().replace("name: small", "name: broken")
    recipe.write_text(re.sub(r"commit: [0-9a-f]{40}", f"commit: {'a1' * 20}", text))
    job = Job(tmp_path / "job")
    done = job.run({"recipe": str(recipe), "verify": "none"})
    assert done.returncode == 30
    assert "### xpubuild: fetch (exit code 30)" in job.summary
    assert re.search(r"^::error title=xpubuild%3A fetch::", done.stderr, re.MULTILINE)


def test_the_schemas_of_the_ci_services_accept_the_files(tmp_path: Path) -> None:
    _, job = COMPONENT.read_text("utf-8").split("\n---\n")
    filled = tmp_path / ".gitlab-ci.yml"
    filled.write_text(re.sub(r"\$\[\[ inputs\.(\w+) \]\]", r"\1", job), "utf-8")
    renovate = ROOT / "scripts" / "ci" / "renovate.json"
    for kind, file in (("github-actions", ACTION), ("gitlab-ci", filled), ("renovate", renovate)):
        argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", str(file)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout


def test_action_and_component_have_the_same_inputs_for_the_same_script() -> None:
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    spec, job = yaml.safe_load_all(COMPONENT.read_text("utf-8"))
    inputs: dict[str, Any] = spec["spec"]["inputs"]
    shared = action["inputs"].keys() & inputs.keys()
    assert shared == {"recipe", "target", "verify", "mirror"}
    for name in shared:
        for key in ("description", "default"):
            one, other = action["inputs"][name].get(key), inputs[name].get(key)
            assert one == (other.replace("between jobs", "between runs") if other else other)
    (steps,) = job.values()
    (step,) = [step for step in action["runs"]["steps"] if "run" in step]
    both = {"XPUBUILD_CI_RECIPE", "XPUBUILD_CI_VERIFY", "XPUBUILD_TARGET", "XPUBUILD_MIRROR"}
    assert both <= step["env"].keys() & steps["variables"].keys()
    assert shlex.split(step["run"])[1].endswith("scripts/ci/job.sh")
    # Inputs reach the shell as variables alone: a text in a command would be run.
    assert not any("$[[" in line or "${{" in line for line in [step["run"], *steps["script"]])


@pytest.mark.needs("shellcheck")
def test_the_script_has_no_warnings() -> None:
    done = subprocess.run(
        ["shellcheck", str(ROOT / "scripts/ci/job.sh")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
