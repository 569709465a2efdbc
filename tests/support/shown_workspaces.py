"""Workspaces, also damaged, moved or half removed ones: what check, clean, status and env say, whole."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from support.data_files import dumped, placed
from support.entered import make_workspace
from xpubuild.checking.again import install_words
from xpubuild.checking.check import Check, failure, require_installed
from xpubuild.checking.model import Damage, Found
from xpubuild.checking.repair import Repair
from xpubuild.checking.wheels import check_receipt
from xpubuild.engine.events import NullSink
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import WorkspaceLock
from xpubuild.engine.process import Cancel
from xpubuild.engine.state import PUBLISHED
from xpubuild.errors import XpuBuildError
from xpubuild.source.bare import RepositoryStore
from xpubuild.source.git import Git
from xpubuild.workspace import moved, overview, shells
from xpubuild.workspace.activation import assignments, difference, environment, read_receipt
from xpubuild.workspace.clean import plan_clean, remove
from xpubuild.workspace.clean_many import CACHES, choose, remove_all
from xpubuild.workspace.documents import status_document
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.modulefile import file_name, modulefile
from xpubuild.workspace.odd import require_plain
from xpubuild.workspace.pth_locale import needed_locale

_SITE = "lib/python3.12/site-packages"
_DAY_S = 86_400.0


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made).resolve()


def _told(folder: Path, value: object) -> str:
    plain = _by_lines(json.loads(json.dumps(value, default=str)))
    return dumped(placed(plain, {str(folder): "{folder}"}))


def _by_lines(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _by_lines(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_by_lines(item) for item in value]
    return value.split("\n") if isinstance(value, str) and "\n" in value else value


def _error(action: Callable[[], object]) -> Any:
    """Return what an action answers, or its error."""
    try:
        return action()
    except XpuBuildError as error:
        return {name: value for name, value in error.to_json().items() if value}


def _write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


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
        _write(site / file, text)
        lines.append(f"{file},sha256={_sha256(text.encode())},{len(text)}\n")
    if record:
        _write(info / "RECORD", "".join([*lines, f"{info.name}/RECORD,,\n"]))
    return info


def _installed(root: Path) -> Path:
    """Make an environment with damage of each kind; return its site-packages."""
    site = root / "env" / _SITE
    _write(root / "env" / "pyvenv.cfg")
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
    _write(root / "env" / "conda-meta" / "a-1.json", json.dumps({"files": [f"{_SITE}/of_conda_meta.py"]}))
    _write(root / "env" / "conda-meta" / "b-1.json", "no json")
    _write(site / "of_conda_meta.py")
    for name, text in {
        "_virtualenv.pth": "import _virtualenv\n", "_virtualenv.py": "not that of virtualenv\n",
        "notes.txt": "", "folder/sitecustomize.py": "", "folder/code.pth": "import os\n",
        "a.pth": "# nothing\n/a/folder\n", "b.pth": "/a\nimport os\n", "c.pth": "import\tos\n",
        "d.pth": "importlib\n", "sitecustomize.py": "", "usercustomize/__init__.py": "",
        "__pycache__/x.cpython-312.pyc": "", "other/x.pyc": "",
    }.items():  # fmt: skip
        _write(site / name, text)
    (site / "e.pth").write_bytes(b"\xef\xbb\xbfimport os\n")
    (site / "f.pth").symlink_to("/nowhere/at all")
    return site


def _with_wheels(root: Path) -> None:
    """Add wheels, the journal of what made them, a report of pip and a receipt."""
    layout = Layout(root)
    sound, changed, extra = (
        _write(layout.wheels / f"{name}-1.0-py3-none-any.whl", "wheel")
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
        _write(report_of, json.dumps(report))
    _write(layout.pip_report("pip.install", "broken"), '{"install": [{}]}')
    receipt = {"wheels": [{"path": str(sound), "sha256": "0" * 64}, {"path": str(gone), "sha256": sha256}]}
    _write(layout.receipt, json.dumps(receipt))


def _check(root: Path, cache: Path) -> Check:
    return Check(root, cache, NullSink(), Cancel())


def _checked() -> str:
    with _folder() as folder, _outside(folder):
        root = folder / "a workspace"
        site = _installed(root)
        _with_wheels(root)
        _write(root / "src" / "odd" / ".git", "gitdir: /nowhere\n")
        _write(root / "src" / ".hidden" / ".git")
        _write(root / "src" / "no-checkout" / "x")
        _write(folder / "cache" / "mirrors" / "a-mirror" / "mirror.json", "no json")
        _write(folder / "cache" / "mirrors" / "a-file")
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
            "required": _error(lambda: require_installed(root, Cancel())),
            "required of nothing": [
                require_installed(folder / "nowhere", Cancel()),
                require_installed(_empty(folder / "empty"), Cancel()),
                require_installed(_sound(folder / "sound"), Cancel()),
            ],
        }
        broken = Found()
        for name, text in (("no json", "{"), ("no wheels", "{}"), ("a list", "[]")):
            _write(folder / name / "receipt.json", text)
            check_receipt(Layout(folder / name), broken)
        told["receipts"] = [asdict(item) for item in broken.damaged]
        with Journal(Layout(root).journal) as journal:
            store = RepositoryStore(folder / "cache", Git.open(), offline=True)
            pip = Damage("package", "pip", str(site), "x")
            mended = Repair(root, journal, store).run([*found.damaged, pip])
            records = {record.step: [record.status, record.detail] for record in journal.records()}
        left = sorted(path.name for path in site.glob("*.dist-info"))
        told["mended"] = {"what": [asdict(item) for item in mended], "steps": records, "left": left}
        told["again"] = _error(lambda: install_words(root))
        return _told(folder, told)


def _failed(found: Found) -> Any:
    error = failure(found, Path("/the root"))
    return error and error.to_json()


def _empty(root: Path) -> Path:
    _write(root / "env" / "pyvenv.cfg")
    (root / "env" / _SITE).mkdir(parents=True)
    return root


def _sound(root: Path) -> Path:
    _empty(root)
    dist(root / "env" / _SITE, "one", {"one.py": "1"})
    return root


def _words() -> str:
    """Return how the last install would be run again, by command lines."""
    told = {}
    with _folder() as folder:
        for line in (
            "install 2.8 --jobs 4", "-v install 2.8 --json --quiet -q --verbose --dry-run",
            "install --log-format plain 2.8 --log-format=plain --module-dir m --wheel-dir=w --wheel-dir",
            "plan 2.8", "a b c install", "install https://****@x --mirror y",
        ):  # fmt: skip
            root = folder / "w s"
            with Journal(_write(root / "journal.db")) as journal:
                journal.start_run("of the run", line.split(), "0")
            told[line] = _error(partial(install_words, root))
            shutil.rmtree(root)
        with Journal(_write(folder / "none" / "journal.db")):
            pass
        told["nothing"] = _error(lambda: install_words(folder / "none"))
        return _told(folder, told)


@contextmanager
def _outside(folder: Path) -> Iterator[None]:
    """Give this process the environment of a user whose home is in the folder."""
    names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR")
    for name in names:
        (folder / "of-user" / name).mkdir(parents=True, exist_ok=True)
    values = {name: str(folder / "of-user" / name) for name in names}
    with mock.patch.dict(os.environ, values), mock.patch.object(tempfile, "tempdir", None):
        yield


def _cleaned() -> str:
    """Return what clean says and leaves of a workspace with everything in it."""
    with _folder() as folder, _outside(folder):
        told: dict[str, Any] = {}
        for name, steps in (("whole", ()), ("a step", ("one",)), ("with a file of the user", ())):
            root = folder / name
            inside = [root / "build" / name for name in ("a/file", "a", "link", "gone")]
            _write(inside[0], "12345")
            (root / "build" / "link").symlink_to("/nowhere")
            _write(folder / "outside", "x")
            _write(root / "src" / "checkout" / ".git" / "HEAD", "nothing")
            _write(root / "logs" / "one.log")
            for empty in ("wheels", "env/lib"):
                (root / empty).mkdir(parents=True)
            with Journal(root / "journal.db") as journal:
                journal.start_run("r", ["install"], "0")
                for step in ("one", "two"):
                    journal.begin(step, "f")
                journal.add_made("one", [str(path) for path in inside[:2]])
                more = [*inside[2:], folder / "outside", root / "src" / "checkout"]
                journal.add_made("two", [str(path) for path in more])
            if name == "with a file of the user":
                shutil.rmtree(root / "src" / "checkout")
                _write(root / "wheels" / "mine.txt")
                (root / "receipt.json").touch()
            told[name] = {
                "unknown": _error(partial(plan_clean, root, ("zz", "aa"))),
                "plan": plan_clean(root, steps).to_json(dry_run=True),
                "done": remove(root, steps).to_json(dry_run=False),
                "left": _tree(root),
            }
        with Journal(_write(folder / "empty" / "journal.db")):
            pass
        told["empty"] = [
            _error(lambda: plan_clean(folder / "empty", ("zz",))),
            remove(folder / "empty").to_json(dry_run=False),
            (folder / "empty").exists(),
        ]
        return _told(folder, told)


def _tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else ["nothing"]


def _run_of(root: Path, days: float | None, ended: str | None, **receipt: Any) -> Path:
    """Make a workspace whose last run ended so many days before the first of all days."""
    with Journal(_write(root / "journal.db")) as journal:
        if days is not None:
            with mock.patch("time.time", return_value=(100 - days) * _DAY_S):
                journal.start_run("of the run", ["install", "x"], "0")
                if ended:
                    journal.end_run(ended)
    if receipt:
        _write(root / "receipt.json", json.dumps(receipt))
    return root


def _seen() -> str:
    """Return the overview of some workspaces, and which clean would choose."""
    with (
        _folder() as folder,
        mock.patch("xpubuild.workspace.overview.disk_usage", _size),
        mock.patch("xpubuild.workspace.clean_many.disk_usage", _size),
    ):
        workspaces, cache = folder / "workspaces", folder / "cache"
        complete = {"recipe": "r", "status": "complete", "verify": {"status": "pass"}}
        _run_of(workspaces / "complete", 2, "ok", **complete, wheels=[{"name": "torch", "version": "2.8"}])
        prebuilt = [{"name": "x", "version": "1"}, {"name": "torch", "version": 2}]
        _run_of(workspaces / "prebuilt", 40, "ok", recipe="p", prebuilt=prebuilt)
        _run_of(workspaces / "failed", 9, "failed", recipe="f")
        _run_of(workspaces / "cancelled", 6, "cancelled")
        _run_of(workspaces / "interrupted", 8, None)
        _run_of(workspaces / "never", None, None)
        _write(workspaces / "odd" / "journal.db", "no database " * 100)
        _write(workspaces / "odd" / "receipt.json", "[]")
        entered = _run_of(folder / "entered", 1, "ok", recipe="e")
        report = _write(Layout(workspaces / "complete").verify_report)
        os.utime(report, (5, 5))
        for name in (*CACHES, "other"):
            _write(cache / name / "file")
        (cache / "a-file").touch()
        shutil.rmtree(cache / "oneapi")
        (cache / "oneapi").symlink_to(folder)
        busy = _run_of(workspaces / "busy", 50, "ok")
        told: dict[str, Any] = {"ages": {text: _error(_age(text)) for text in _AGES}}
        with mock.patch("time.time", return_value=100 * _DAY_S):
            with WorkspaceLock(busy, command="xpubuild test"):
                told["overview"] = overview.overview_document(workspaces, cache, entered)
                told["busy"] = choose(workspaces, cache, None).to_json(dry_run=True)
                told["old while busy"] = choose(workspaces, cache, "7d").to_json(dry_run=True)
            told["nothing entered"] = len(overview.overview_document(workspaces, cache, folder)["workspaces"])
            told["nowhere"] = overview.overview_document(folder / "a", folder / "b", None)
            told["old"] = [
                choose(workspaces, cache, age).to_json(dry_run=True) for age in ("8d", "9d", "45d")
            ]
            chosen = choose(workspaces, cache, None)
            told["caches"] = chosen.to_json(dry_run=True)
            told["refused"] = chosen.refused().to_json(dry_run=False)
            told["removed"] = remove_all(chosen).to_json(dry_run=False)
            old = choose(workspaces, cache, "7d")
            (workspaces / "failed" / "journal.db").unlink()
            told["one is gone"] = remove_all(old).to_json(dry_run=False)
        told["left"] = [_tree(cache), sorted(path.name for path in workspaces.iterdir())]
        return _told(folder, told)


_AGES = ("1d", "2w", "3m", "4y", "5", "9999", "10000", "0", "d", "", "-1", "x")


def _age(text: str) -> Callable[[], str]:
    return lambda: str(overview.age_of(text))


def _size(path: Path) -> int:
    return len(path.name)


def _entered() -> str:
    """Return what enters a workspace: variables, modulefiles, the start of each shell."""
    with _folder() as folder, _outside(folder):
        root = make_workspace(folder / "a workspace", "2.8")
        site = root / "env" / _SITE
        _write(site / "_editable.pth", str(folder / "gr\u00f6\u00dfe"))
        receipt = read_receipt(root)
        caller = {
            "PATH": f"/usr/bin:{root}/env/bin:/bin", "LD_LIBRARY_PATH": "/own", "XT_GONE": "x", "LC_ALL": "C",
        }  # fmt: skip
        told: dict[str, Any] = {
            "assignments": assignments(root, caller),
            "environment": environment(root, {"PATH": "/usr/bin", "PYTHONHOME": "/p", "KEPT": "1"}),
            "without PATH": assignments(root, {})["PATH"],
            "difference": difference(root, receipt).to_json(),
            "difference without oneAPI": difference(root, receipt, oneapi=False).to_json(),
            "without a recipe": modulefile(root, {}, "lmod"),
            "names": [file_name("2.8", form) for form in ("lmod", "tcl")],
        }
        for form in ("lmod", "tcl"):
            for needs in ((), ("oneapi/2025.1", 'gcc "13"')):
                told[f"{form} {' and '.join(needs)}"] = modulefile(root, receipt, form, needs)
        locales: tuple[dict[str, str], ...] = (
            {}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "C.utf8"}, {"LANG": "en_US.UTF-8@euro"},
            {"LC_CTYPE": "de_DE.ISO-8859-1"}, {"LANG": "C"}, {"LANG": "de_DE", "LC_CTYPE": "C"},
            {"LC_ALL": "", "LANG": "de_DE"},
        )  # fmt: skip
        told["locales"] = [[given, needed_locale(root / "env", given)] for given in locales]
        (site / "_editable.pth").write_text("ascii")
        told["no locale"] = needed_locale(root / "env", {"LC_ALL": "C"})
        told["shells"] = _shells(root)
        captured = '{"activation": {"oneapi": {"set": 1}}}'
        texts = {"none": None, "no json": "{", "a list": "[]", "captured": captured}
        for name, text in texts.items():
            other = folder / name
            other.mkdir()
            if text is not None:
                (other / "receipt.json").write_text(text)
            told[f"receipt: {name}"] = _error(partial(assignments, other, {}))
        return _told(folder, told)


def _shells(root: Path) -> dict[str, Any]:
    env = {"HOME": "/a home", "SHELL": "/bin/x"}
    told: dict[str, Any] = {"asks nobody": asdict(shells.start("/bin/bash", root, "x", env, asks=False))}
    for shell in ("bash", "zsh", "fish", "sh", "dash", "ash", "ksh", "mksh", "ksh93", "tcsh"):
        with mock.patch.object(shells, "_nameless", lambda template, words: template.format(fd=7, **words)):
            begun = shells.start(f"/bin/{shell}", root, "'/a b/xpubuild'", env, asks=True)
        told[shell] = asdict(begun)
    for given in (env, {"ZDOTDIR": "/z d", "HOME": "/h"}, {}):
        made = Path(shells.start("zsh", root, "x", given, asks=True).env["ZDOTDIR"])
        files = {path.name: path.read_text() for path in sorted(made.iterdir())}
        told[f"zsh with {given}"] = json.loads(json.dumps(files).replace(str(made), "{made}"))
        shutil.rmtree(made)
    told["zsh"]["env"]["ZDOTDIR"] = "{made}"
    fd = shells._nameless("{fd} {root}\n", {"root": "\udcff"})
    os.lseek(fd, 0, os.SEEK_CUR)
    told["nameless"] = [os.read(fd, 99).decode("latin-1").replace(str(fd), "{fd}"), os.get_inheritable(fd)]
    os.close(fd)
    with mock.patch("pwd.getpwuid", side_effect=KeyError):
        told["users"] = [shells.users_shell({"SHELL": "/own"}), shells.users_shell({})]
    with mock.patch("pwd.getpwuid", return_value=mock.Mock(pw_shell="")):
        told["users"].append(shells.users_shell({"SHELL": ""}))
    return told


def _moved() -> str:
    """Return what is said and done about workspaces that are in another place than before."""
    with _folder() as folder, _outside(folder):
        told: dict[str, Any] = {}
        for kind in ("moved", "copied", "renamed"):
            old, new = folder / f"{kind} old", folder / f"{kind} new"
            with Journal(_write(old / "journal.db")) as journal:
                journal.settle_at(str(old))
                journal.add_made("one", [f"{old}/build/tree", f"{old}/env", "/elsewhere"])
            _write(old / "build" / "tree" / "file")
            _write(old / "build" / "other")
            (old / "env").mkdir()
            for depth, home in (("a", old), ("a/b", old / "x"), ("a/b/c", "/other"), ("a/b/c/d", old)):
                _write(old / "src" / depth / "CMakeCache.txt", f"# c\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
                _write(old / "src" / depth / "CMakeFiles" / "x")
            if kind == "renamed":
                new.symlink_to(old)
            elif kind == "copied":
                shutil.copytree(old, new)
            else:
                old.rename(new)
            found = moved.found_at(new)
            assert found is not None
            told[kind] = {
                "kind": found.kind, "told": found.told(), "settled": found.told(settled=True),
                "place": str(moved.place_of(new)), "of the old": str(moved.place_of(old)),
            }  # fmt: skip
            if kind != "renamed":
                with Journal(new / "journal.db") as journal:
                    moved.settle_here(new, journal)
                    told[kind]["made"] = journal.made()
                    told[kind]["now"] = [journal.place(), str(moved.settle_here(new, journal))]
                told[kind]["left"] = [path for path in _tree(new) if not path.startswith("journal")]
        told["nowhere"] = str(moved.found_at(folder / "nowhere"))
        told["damaged"] = str(moved.found_at(_write(folder / "bad" / "journal.db", "x" * 999).parent))
        return _told(folder, told)


def _odd() -> str:
    """Return what is said of names that are neither file nor folder, by the folder they are in."""
    told: dict[str, Any] = {}
    for place in (".", "build", "wheels", "build/requirements", "build/held", "src", "logs"):
        for kind in ("a pipe", "a link"):
            with _folder() as folder:
                (folder / place).mkdir(parents=True, exist_ok=True)
                path = folder / place / "odd"
                os.mkfifo(path) if kind == "a pipe" else path.symlink_to("/nowhere")
                found = _error(partial(require_plain, folder))
                told[f"{kind} in {place}"] = placed(found, {str(folder): "{folder}"})
    return dumped(told)


def _status() -> str:
    with _folder() as folder:
        root = folder / "w"
        with Journal(_write(root / "journal.db")) as journal, mock.patch("time.time", return_value=100.0):
            journal.start_run("r", ["install", "r"], "0.1")
            for step in ("done", "running", "failed"):
                journal.begin(step, f"of {step}")
            journal.done("done", evidence=[{"proof": "p", "files": 1}], witnesses={}, published=["/a"])
            journal.failed("failed", "why it failed")
            return _told(folder, [
                status_document("/w", journal, {}), status_document("/w", journal, {"pid": 1})["locked_by"],
            ])  # fmt: skip


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "workspace-checked": _checked,
    "workspace-cleaned": _cleaned,
    "workspace-entered": _entered,
    "workspace-moved": _moved,
    "workspace-odd": _odd,
    "workspace-overview": _seen,
    "workspace-status": _status,
    "workspace-words-again": _words,
}
