"""What ``check`` and its repair say of workspaces that are damaged."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from support.shown_places import SITE, error_of, outside, scratch_folder, told_in, write_file
from xpubuild.engine.events import NullSink
from xpubuild.engine.journal import Journal
from xpubuild.engine.process import Cancel
from xpubuild.engine.state import PUBLISHED
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.workspace.check import Check, failure, require_installed
from xpubuild.workspace.check_again import install_words
from xpubuild.workspace.check_model import Damage, Found
from xpubuild.workspace.check_repair import Repair
from xpubuild.workspace.check_wheels import check_receipt
from xpubuild.workspace.layout import Layout


def _sha256(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def dist(
    site: Path, name: str, files: dict[str, str], *, installer: str = "pip", record: bool = True
) -> Path:
    """Install a distribution by its files, as pip leaves it; return its folder."""
    info = site / f"{name}-1.0.dist-info"
    lines = []
    for file, text in {
        **files,
        f"{info.name}/INSTALLER": f"{installer}\n",
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info.name}/WHEEL": "Wheel-Version: 1.0\n",
    }.items():
        write_file(site / file, text)
        lines.append(f"{file},sha256={_sha256(text.encode())},{len(text)}\n")
    if record:
        write_file(info / "RECORD", "".join([*lines, f"{info.name}/RECORD,,\n"]))
    return info


def _installed(root: Path) -> Path:
    """Make an environment with damage of each kind; return its site-packages."""
    site = root / "env" / SITE
    write_file(root / "env" / "pyvenv.cfg")
    dist(site, "sound", {"sound.py": "1", "sound.pth": "import sound\n"})
    dist(site, "changed", {"changed.py": "12", "more.py": "34", "third.py": "5"})
    dist(site, "shared", {"shared.py": "12"}, installer="uv")
    dist(site, "alone", {"alone.py": "12"}, installer="uv")
    dist(site, "cut_off", {"cut_off.py": "1"}, record=False)
    dist(site, "of_conda", {"of_conda.py": "1"}, installer="conda")
    dist(site, "pip", {"pip/main.py": "12"})
    record = site / "pip-1.0.dist-info" / "RECORD"
    record.write_text(f"{record.read_text()}pip/__pycache__/main.cpython-312.pyc,,\n")
    for name in ("changed", "more", "shared", "alone", "of_conda", "pip/main"):
        (site / f"{name}.py").write_text("xx")
    os.link(site / "shared.py", root / "linked.py")
    write_file(root / "env" / "conda-meta" / "a-1.json", json.dumps({"files": [f"{SITE}/of_conda_meta.py"]}))
    write_file(root / "env" / "conda-meta" / "b-1.json", "no json")
    write_file(site / "of_conda_meta.py")
    for name, text in {
        "_virtualenv.pth": "import _virtualenv\n", "_virtualenv.py": "not that of virtualenv\n",
        "notes.txt": "", "folder/sitecustomize.py": "", "folder/code.pth": "import os\n",
        "a.pth": "# nothing\n/a/folder\n", "b.pth": "/a\nimport os\n", "c.pth": "import\tos\n",
        "d.pth": "importlib\n", "sitecustomize.py": "", "usercustomize/__init__.py": "",
        "__pycache__/x.cpython-312.pyc": "", "other/x.pyc": "",
    }.items():  # fmt: skip
        write_file(site / name, text)
    (site / "e.pth").write_bytes(b"\xef\xbb\xbfimport os\n")
    (site / "f.pth").symlink_to("/nowhere/at all")
    return site


def _with_wheels(root: Path) -> None:
    """Add wheels, the journal of what made them, a report of pip and a receipt."""
    layout = Layout(root)
    sound, changed, extra = (
        write_file(layout.wheels / f"{name}-1.0-py3-none-any.whl", "wheel")
        for name in ("sound", "changed", "extra")
    )
    gone, sha256 = layout.wheels / "gone-1.0-py3-none-any.whl", hashlib.sha256(b"wheel").hexdigest()
    with Journal(layout.journal) as journal:
        journal.start_run("small", ["install", "./small.yaml", "--jobs", "2", "--wheel-dir", "w"], "0")
        for step, paths in {
            "env": (), "sound.wheel": (sound,), "changed.wheel": (changed,), "gone.wheel": (gone,),
            "pip.install": (), "failed.install": (),
        }.items():  # fmt: skip
            journal.begin(step, f"of {step}")
            evidence = [{"proof": "p", PUBLISHED: {str(path): sha256 for path in paths}}]
            journal.done(step, evidence=evidence, witnesses={}, published=[str(path) for path in paths])
        journal.failed("failed.install", "it failed")
    changed.write_text("other")
    assert extra.exists()
    names_of = {"pip.install": ("sound", "Gone_Package", "gone.package"), "failed.install": ("x",)}
    for step, names in names_of.items():
        report = {"install": [{"metadata": {"name": name}} for name in names]}
        report_of = layout.pip_report(step, "some")
        write_file(report_of, json.dumps(report))
    write_file(layout.pip_report("pip.install", "broken"), '{"install": [{}]}')
    receipt = {"wheels": [{"path": str(sound), "sha256": "0" * 64}, {"path": str(gone), "sha256": sha256}]}
    write_file(layout.receipt, json.dumps(receipt))


def _check(root: Path, cache: Path) -> Check:
    return Check(root, cache, NullSink(), Cancel())


def _checked() -> str:
    with scratch_folder() as folder, outside(folder):
        root = folder / "a workspace"
        site = _installed(root)
        _with_wheels(root)
        write_file(root / "src" / "odd" / ".git", "gitdir: /nowhere\n")
        write_file(root / "src" / ".hidden" / ".git")
        write_file(root / "src" / "no-checkout" / "x")
        write_file(folder / "cache" / "mirrors" / "a-mirror" / "mirror.json", "no json")
        write_file(folder / "cache" / "mirrors" / "a-file")
        check = _check(root, folder / "cache")
        found = check.look()
        document = found.document(str(root))
        error = failure(found, root)
        only = [Damage("source", "a", "/a", "x"), Damage("mirror", "m", "/m", "y")]
        planted = [Damage("start-up file", "p", "/a b.pth", "z")]
        told = {
            "document": document,
            "error": error and error.to_json(),
            "repaired": (again := failure(found, root, repaired=True)) and again.to_json(),
            "of kept": _failed(Found(only)),
            "of a start-up file": _failed(Found(planted)),
            "of both": _failed(Found([*only, *planted])),
            "of nothing": _failed(Found()),
            "required": error_of(lambda: require_installed(root, Cancel())),
            "required of nothing": [
                require_installed(folder / "nowhere", Cancel()),
                require_installed(_empty(folder / "empty"), Cancel()),
                require_installed(_sound(folder / "sound"), Cancel()),
            ],
        }
        broken = Found()
        for name, text in (("no json", "{"), ("no wheels", "{}"), ("a list", "[]")):
            write_file(folder / name / "receipt.json", text)
            check_receipt(Layout(folder / name), broken)
        told["receipts"] = [asdict(item) for item in broken.damaged]
        with Journal(Layout(root).journal) as journal:
            store = RepositoryStore(folder / "cache", Git.open(), offline=True)
            pip = Damage("package", "pip", str(site), "x")
            mended = Repair(root, journal, store).run([*found.damaged, pip])
            records = {record.step: [record.status, record.detail] for record in journal.records()}
        left = sorted(path.name for path in site.glob("*.dist-info"))
        told["mended"] = {"what": [asdict(item) for item in mended], "steps": records, "left": left}
        told["again"] = error_of(lambda: install_words(root))
        return told_in(folder, told)


def _failed(found: Found) -> Any:
    error = failure(found, Path("/the root"))
    return error and error.to_json()


def _empty(root: Path) -> Path:
    write_file(root / "env" / "pyvenv.cfg")
    (root / "env" / SITE).mkdir(parents=True)
    return root


def _sound(root: Path) -> Path:
    _empty(root)
    dist(root / "env" / SITE, "one", {"one.py": "1"})
    return root


def _words() -> str:
    """Return how the last install would be run again, by command lines."""
    told = {}
    with scratch_folder() as folder:
        for line in (
            "install 2.8 --jobs 4", "-v install 2.8 --json --quiet -q --verbose --dry-run",
            "install --log-format plain 2.8 --log-format=plain --module-dir m --wheel-dir=w --wheel-dir",
            "plan 2.8", "a b c install", "install https://****@x --mirror y",
        ):  # fmt: skip
            root = folder / "w s"
            with Journal(write_file(root / "journal.db")) as journal:
                journal.start_run("of the run", line.split(), "0")
            told[line] = error_of(partial(install_words, root))
            shutil.rmtree(root)
        with Journal(write_file(folder / "none" / "journal.db")):
            pass
        told["nothing"] = error_of(lambda: install_words(folder / "none"))
        return told_in(folder, told)


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "workspace-checked": _checked,
    "workspace-words-again": _words,
}
