"""``xpubuild bisect`` over the history of a small component, which an install builds at each commit."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import Upstream, git
from integration.small_world import BACKEND, PYPROJECT, SmallWorld, small_world
from support.cli import XPUBUILD, Result
from support.documents import check

from xpubuild.recipe.load import load

COMMITS, FAULT, BROKEN = 40, 27, 24


@dataclass
class World:
    small: SmallWorld
    commits: list[str]
    runs: Path

    def words(self, *more: str, good: int = 0, bad: int = COMMITS - 1) -> tuple[str, ...]:
        script = f"import mine; open({str(self.runs)!r}, 'a').write('x'); raise SystemExit(mine.CHECK)"
        ends = ("--good", self.commits[good], "--bad", self.commits[bad])
        return (
            "bisect", "./small.yml", "--component", "mine", *ends,
            "--workspace", str(self.small.workspace), *more, "--", "python", "-c", script,
        )  # fmt: skip

    def __call__(self, *more: str, good: int = 0, bad: int = COMMITS - 1) -> Result:
        return self.small(*self.words("--json", *more, good=good, bad=bad))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("bisect")
    with small_world(folder) as small:
        upstream = Upstream(folder / "srv" / "mine.git")
        git("config", "uploadpack.allowFilter", "true", cwd=upstream.path)  # as large servers have it
        commits = [git("rev-parse", "main", cwd=upstream.path)]
        for number in range(COMMITS):
            fault = "'planted: the sum is wrong'" if number >= FAULT else "0"
            broken = "raise OSError('this commit does not build')\n" if number == BROKEN else ""
            files = {
                "pyproject.toml": PYPROJECT, "backend.py": broken + BACKEND, ".gitignore": "__pycache__/\n",
                "mine.py": f"NUMBER = {number}\nCHECK = {fault}\n",
            }  # fmt: skip
            commits.append(upstream.commit(files, parent=commits[-1]))
        yield World(small, commits[1:], folder / "runs")


@pytest.fixture(autouse=True)
def beside_the_recipe(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes have relative paths here, and the other name of YAML."""
    (world.small.folder / "small.yml").write_text(world.small.recipe.read_text())
    monkeypatch.chdir(world.small.folder)


def test_the_first_bad_commit_is_found_in_few_builds_and_after_a_kill(world: World) -> None:
    state = world.small.workspace / "build" / "bisect" / "search.json"
    with subprocess.Popen(
        [*XPUBUILD, *world.words("--json")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        for _ in range(6000):
            with contextlib.suppress(OSError, ValueError):
                if len(json.loads(state.read_text())["steps"]) > 3:
                    break
            time.sleep(0.05)
        process.kill()
    before = json.loads(state.read_text())["steps"]
    result = world()
    assert result.status == 0, result.err
    document = check(result.document(), "bisect")
    assert document["first_bad"] == world.commits[FAULT]
    assert document["candidates"] == [world.commits[FAULT]]
    assert (document["subject"], "promisor" in result.err) == ("a commit", False)
    steps = {step["commit"]: step for step in document["steps"]}
    assert before.items() <= steps.items(), "what was judged before the kill was not judged again"
    assert len(steps) <= 8, "both ends included"
    found = steps[world.commits[FAULT]]
    assert found["why"] == "the command exited with code 1: planted: the sum is wrong"
    assert "planted" in Path(found["log"]).read_text()
    # The command ran once for each commit that was built; at most one more was under way at the kill.
    built = sum(step["verdict"] != "skip" for step in steps.values())
    assert built <= len(world.runs.read_text()) <= built + 1
    # Asked again, nothing is built.
    runs = world.runs.read_text()
    assert world().document()["first_bad"] == world.commits[FAULT]
    assert world.runs.read_text() == runs
    assert load(str(world.small.workspace / "build" / "bisect" / "recipe.yaml")).recipe.name == "small"


def test_what_does_not_build_is_skipped_with_the_reason_and_may_leave_several(world: World) -> None:
    result = world(good=BROKEN - 1, bad=BROKEN + 1)
    assert result.status == 70
    assert "the commit of --bad is not bad but good" in result.err
    result = world(good=BROKEN, bad=FAULT)
    assert result.status == 70
    assert "the commit of --good is not good but skip" in result.err
    assert "this commit does not build" in result.err


def test_ends_that_are_no_revisions_are_errors_of_use(world: World) -> None:
    mine = ("--component", "mine", "--workspace", str(world.small.folder / "other"))
    ends = (*mine, "--good", "--x", "--bad", "main", "--", "true")
    result = world.small("bisect", str(world.small.recipe), *ends)
    assert (result.status, "--good --x is no commit of" in result.err) == (2, True)
    result = world.small("bisect", str(world.small.recipe), "--good", "main", "--", "true")
    assert (result.status, "needs two ends" in result.err) == (2, True)
    result = world.small("bisect", str(world.small.recipe), "--good", "a", "--bad", "b")
    assert (result.status, "needs a command" in result.err) == (2, True)
    own = ("--good", "a", "--bad", "b", "--allow-dirty", "--", "true")
    result = world.small("bisect", str(world.small.recipe), *own)
    assert (result.status, "XPUBUILD_ALLOW_DIRTY" in result.err) == (2, True)
    words = ("--good", "a", "--bad", "b", "--component", "mime", "--", "true")
    result = world.small("bisect", str(world.small.recipe), *words)
    assert (result.status, "it has: mine" in result.err) == (2, True)
