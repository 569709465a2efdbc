"""The component of GitLab run by a real runner, and the quickstart through the action's script. On demand."""

from __future__ import annotations

import json
import os
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


def npx(package: str, program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the npm registry."""
    argv: Sequence[str] = ("npx", "--yes", f"--package={package}", "--", program, *arguments)
    env = {**os.environ, "npm_config_update_notifier": "false", "npm_config_ignore_scripts": "true"}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=1800)


@pytest.mark.needs("npx")
@pytest.mark.needs("rsync")
def test_gitlab_ci_local_runs_the_component(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
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
        done = npx(
            "gitlab-ci-local@4.61.0", "gitlab-ci-local", "--force-shell-executor", "pytorch", cwd=project
        )
    assert done.returncode == 0, done.stdout + done.stderr
    made = project / ".gitlab-ci-local" / "artifacts" / "pytorch" / "xpubuild-ci"
    assert json.loads((made / "receipt.json").read_text())["recipe"] == "small"
    assert len(list((made / "wheels").glob("*.whl"))) == 2
    assert (made / "workspace" / "logs").is_dir()


def test_the_action_builds_and_verifies_the_quickstart(tmp_path: Path) -> None:
    job = Job(tmp_path / "job")
    done = job.run({"recipe": "quickstart"})
    assert done.returncode == 0, done.stderr[-5000:]
    folder = job.folder / "work" / "xpubuild-ci"
    suite = ET.parse(folder / "verify.xml").getroot()  # noqa: S314 - written by the run above
    assert len(list(suite.iter("testcase"))) > 20
    assert not list(suite.iter("failure"))
    assert "### xpubuild verify: ok" in job.summary
    assert "### xpubuild install quickstart" in job.summary
