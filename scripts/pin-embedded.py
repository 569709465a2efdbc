"""Makes the git bundles of the embedded ``ops`` sources, and writes their commit into the recipes.

Run it after changing a file below xpubuild/ops/project; ``xpubuild recipes check`` reports when it is due.
Author, date and message are fixed, so the commits depend on the files alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.embedded import TOP, expected_commit

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
PIN = re.compile(r'(embedded: ops\n\s+commit: "?)[0-9a-f]{40}')
#: The repositories and their places below the project, innermost first: each is a submodule of the next.
REPOSITORIES = {"vecmath": "third_party/fused/third_party/vecmath", "fused": "third_party/fused", TOP: "."}
#: 2026-01-01T00:00:00Z.
_DATE = "1767225600 +0000"
_WHO = {"NAME": "xpubuild", "EMAIL": "xpubuild@localhost", "DATE": _DATE}
# What installers, interpreters and editors add to a folder of sources.
_NEVER = (".git", "__pycache__", "*.py[co]", "*.egg-info", ".*_cache", ".DS_Store", "*~", "*.sw[op]")


def make_bundles(project: Path, into: Path) -> None:
    """Write a bundle of each repository of a project into a folder."""
    env = {f"GIT_{role}_{key}": text for role in ("AUTHOR", "COMMITTER") for key, text in _WHO.items()}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "PATH": os.environ["PATH"]}
    git = shutil.which("git") or "git"
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(project, Path(folder) / "project", ignore=shutil.ignore_patterns(*_NEVER))
        inner: tuple[str, str] | None = None
        for name, place in REPOSITORIES.items():
            top = copy / place
            if inner is not None:
                below = Path(inner[1]).relative_to(place)
                text = f'[submodule "{below}"]\n\tpath = {below}\n\turl = ../{inner[0]}.git\n'
                (top / ".gitmodules").write_text(text)
            for words in (
                ["init", "--quiet", "--template=", "--initial-branch=main", "--object-format=sha1"],
                [
                    "-c",
                    "advice.addEmbeddedRepo=false",
                    "-c",
                    "core.fileMode=false",
                    "add",
                    "--all",
                    "--force",
                ],
                ["commit", "--quiet", "--message", f"{name}: sources embedded in xpubuild"],
                [
                    "bundle",
                    "create",
                    "--quiet",
                    "--version=2",
                    str(into / f"{name}.bundle"),
                    "refs/heads/main",
                ],
            ):
                subprocess.run([git, *words], cwd=top, env=env, check=True)
            inner = (name, place)


def main() -> int:
    """Rewrite bundles and pins where a file was changed; say which."""
    project = ops_project_dir()
    with tempfile.TemporaryDirectory() as folder:
        make_bundles(project, Path(folder))
        for name in REPOSITORIES:
            made = Path(folder) / f"{name}.bundle"
            place = project.parent / made.name
            # Other versions of git pack other bytes: the commit decides.
            if not place.exists() or expected_commit(Path(folder) / "x", name) != expected_commit(
                project, name
            ):
                shutil.copyfile(made, place)
                sys.stdout.write(f"{made.name}: {expected_commit(project, name)}\n")
    commit = expected_commit(project)
    for path in sorted(RECIPES.glob("*.yaml")):
        text = path.read_text("utf-8")
        changed = PIN.sub(rf"\g<1>{commit}", text)
        if changed != text:
            path.write_text(changed, "utf-8")
            sys.stdout.write(f"{path.name}: ops is {commit}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
