"""What one account makes and others use: two accounts, one group, each umask; through the commands."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.small_world import SmallWorld, small_world

from xpubuild.engine.places import unreachable

pytestmark = pytest.mark.needs("root")
MAKER, USER, GROUP = 45101, 45102, 45200
#: What an ordinary account may run: the interpreter of the tests may be in a home folder.
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PYTHON = shutil.which(VERSION, path="/usr/bin:/usr/local/bin")
PACKAGES = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
if PYTHON is None or any(unreachable([Path(path)]) for path in PACKAGES):
    pytest.skip(f"other accounts cannot run {VERSION} and the tests' packages", allow_module_level=True)


@dataclass(frozen=True)
class Account:
    """An account that runs command lines, in the group or not."""

    number: int
    home: Path
    python: Path

    def run(self, *words: str, umask: int = 0o022, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin",
               "PIP_INDEX_URL": os.environ["PIP_INDEX_URL"], "NO_PROXY": "127.0.0.1,localhost",
               "PYTHONDONTWRITEBYTECODE": "1", **variables}  # fmt: skip
        return subprocess.run(
            words, env=env, cwd=self.home, umask=umask, user=self.number, group=self.number,
            extra_groups=[GROUP], capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def xpubuild(
        self, *words: str, status: int = 0, umask: int = 0o022, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        done = self.run(str(self.python), "-m", "xpubuild", *words, umask=umask, **variables)
        assert done.returncode == status, done.stderr
        return done


@dataclass(frozen=True)
class Site:
    """Both accounts, a folder in which both may make things, and the recipe of a small build."""

    folder: Path
    maker: Account
    user: Account
    small: SmallWorld

    def install(self, who: Account, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        steps = ("--until", "mine.install", "--python", VERSION, "--log-format", "plain")
        return who.xpubuild("install", str(self.small.recipe), *steps, *words, **more)  # type: ignore[arg-type]


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as name, small_world(Path(name)) as small:
        folder = Path(name)
        folder.chmod(0o755)
        for path in (folder / "maker", folder / "user", folder / "site"):
            path.mkdir()
        os.chown(folder / "maker", MAKER, MAKER)
        os.chown(folder / "user", USER, USER)
        os.chown(folder / "site", MAKER, GROUP)
        # Commands of a build get no PYTHONPATH, so there is an environment with what the tests have.
        subprocess.run([str(PYTHON), "-m", "venv", "--without-pip", str(folder / "env")], check=True)
        (packages,) = folder.glob("env/lib/*/site-packages")
        (packages / "tests.pth").write_text("".join(f"{path}\n" for path in PACKAGES))
        maker, user = (
            Account(number, folder / name, folder / "env/bin/python")
            for number, name in ((MAKER, "maker"), (USER, "user"))
        )
        yield Site(folder, maker, user, small)


MODULE = """
import sys
from pathlib import Path
from xpubuild.workspace.modulefile import Modules
from xpubuild.workspace.activation import read_receipt
root = Path(sys.argv[1])
print(Modules(Path(sys.argv[2]), "tcl").write(root, read_receipt(root)))
"""


def test_what_is_made_with_a_closed_umask_can_be_used_by_the_other_account(site: Site) -> None:
    """Wheels, a store and a module."""
    umask, shared, root = 0o077, site.folder / "site", site.folder / "site" / "ws"
    wheels = ("--wheel-dir", str(shared / "new" / "wheels"))
    result = site.install(site.maker, "--workspace", str(root), *wheels, "--json", umask=umask)
    found = json.loads(result.stdout)
    assert json.loads((root / "receipt.json").read_text())["published"] == [str(shared / "new" / "wheels")]
    site.maker.xpubuild("store", "push", "--store", str(shared / "store"), umask=umask)
    made = site.maker.run(
        str(site.maker.python), "-c", MODULE, str(root), str(shared / "modules"), umask=umask
    )
    assert made.returncode == 0, made.stderr
    # Wheels: the command of the result, into a folder of the other's.
    words = shlex.split(found["wheel_dir"]["command"])
    target = site.folder / "user" / "target"
    pip = site.user.run(str(root / "env/bin/python"), *words[1:], "--target", str(target), umask=umask)
    assert pip.returncode == 0, pip.stderr
    assert (target / "mine.py").is_file()
    # The store.
    trust, own = {"XPUBUILD_TRUSTED_OWNERS": str(MAKER)}, site.folder / "user" / "ws"
    taken = site.install(
        site.user, "--workspace", str(own), "--store", str(shared / "store"), "--json",
        umask=umask, **trust,
    )  # fmt: skip
    assert str(shared / "store") in [step["store"] for step in json.loads(taken.stdout)["steps"]], (
        taken.stderr
    )
    # The module, and the Python that it leads to.
    assert site.user.run("cat", made.stdout.strip()).returncode == 0
    ran = site.user.run(str(root / "env/bin/python"), "-c", "import mine; print(mine.__file__)")
    assert (ran.returncode, ran.stdout.strip()) == (
        0,
        str(next(root.glob("env/lib/*/site-packages/mine.py"))),
    )
    logs = site.user.run("ls", str(root / "logs"))
    assert logs.returncode != 0, "logs are nobody's but the maker's"


def test_what_was_closed_is_named_and_opened_where_that_is_asked(site: Site) -> None:
    wheels, root = site.folder / "site" / "wheels", site.folder / "site" / "ws"
    site.install(site.maker, "--workspace", str(root), "--wheel-dir", str(wheels))
    wheels.chmod(0o700)
    (root / "logs").chmod(0o700)
    assert "cannot read" in site.maker.xpubuild("check", "--workspace", str(root)).stderr
    group = {"XPUBUILD_SHARE_GROUP": str(GROUP), "XPUBUILD_SHARE_MODE": "2750"}
    assert str(wheels) in site.maker.xpubuild("check", "--workspace", str(root), status=60, **group).stderr
    site.maker.xpubuild("check", "--workspace", str(root), "--repair", **group)
    status = wheels.stat()
    assert (status.st_mode & 0o7777, status.st_gid) == (0o2750, GROUP)
    assert (root / "logs").stat().st_mode & 0o777 == 0o700
    assert site.user.run("ls", str(wheels)).stdout.split()


def test_what_the_site_sets_and_this_account_cannot_write_is_left_out(site: Site) -> None:
    closed, config = site.folder / "site" / "modules", site.folder / "etc" / "xpubuild" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[install]\nmodule-dir = "{closed}"\nwheel-dir = "{closed}/wheels"\n')
    root, by_site = site.folder / "user" / "ws", {"XDG_CONFIG_DIRS": str(site.folder / "etc")}
    own = ("--workspace", str(root), "--wheel-dir", str(closed))
    refused = site.install(site.user, *own, status=40, **by_site)
    assert "--wheel-dir ''" in refused.stderr
    assert not root.exists()
    result = site.install(site.user, "--workspace", str(root), **by_site)
    assert "wheel-dir of the site's configuration is left out" in result.stderr
    assert "mine.install" in result.stdout
    for off in (
        {"words": ("--wheel-dir", "", "--module-dir", "")},
        {"XPUBUILD_WHEEL_DIR": "", "XPUBUILD_MODULE_DIR": ""},
    ):
        words, variables = off.pop("words", ()), off
        quiet = site.install(site.user, "--workspace", str(root), *words, **by_site, **variables)
        assert "left out" not in quiet.stderr


def test_a_complete_mirror_of_the_other_account_is_enough(site: Site) -> None:
    mirror = site.folder / "site" / "mirror"
    words = ("fetch", str(site.small.recipe), "--mirror", str(mirror), "--python", VERSION)
    site.maker.xpubuild(*words, umask=0o077)
    before = {path: path.stat().st_mtime_ns for path in mirror.rglob("*")}
    site.user.xpubuild(*words)
    folder = site.folder / "user" / "jobs"
    plan = ("plan", str(site.small.recipe), "--format", "slurm", "--python", VERSION, "--output", str(folder))
    site.user.xpubuild(*plan, "--mirror", str(mirror))
    site.user.xpubuild(*plan, "--mirror", str(site.folder / "user" / "new"))
    assert {path: path.stat().st_mtime_ns for path in mirror.rglob("*")} == before
    site.install(
        site.user, "--workspace", str(site.folder / "user" / "ws"), "--offline", "--mirror", str(mirror)
    )
    # What is not there yet cannot be put there.
    other = ("fetch", str(site.small.recipe), "--mirror", str(site.folder / "site" / "other"))
    assert "with --mirror" in site.user.xpubuild(*other, "--python", VERSION, status=40).stderr
