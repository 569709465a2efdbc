"""The tortured plan: a checkout with a submodule, a wheel from an index, a compiled wheel, its install."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from integration.gitserver import GitServer, Upstream, git_server, gitmodules
from integration.test_components_held import pins, wheel

from support.indexes import PackageIndex

RECIPE = """schema: 1
name: small
title: a small plan of every kind of step
target: cpu
needs: {{disk_gib: 0.01}}
components:
  tiny:
    kind: wheel
    dist: tiny-wheel
    version: 1.0+cpu
    requirements: tiny.txt
    indexes: ["{index}"]
  fast:
    kind: source
    dist: fast
    needs: [tiny]
    audit: {{cxx11_abi: false}}
    source: {{url: "{url}", commit: {commit}}}
"""
_BACKEND = dedent("""
    import base64, hashlib, pathlib, subprocess, sysconfig, zipfile

    def build_wheel(folder, config_settings=None, metadata_directory=None):
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        include = sysconfig.get_paths()["include"]
        for name in ("fast", "quick"):
            words = ["gcc", "-shared", "-fPIC", "-O1", "-g0", "-I", include, "-Ithird_party/inner"]
            subprocess.run([*words, f"-DINIT=PyInit_{name}", "fast.c", "-o", name + suffix], check=True)
        info, python = "fast-1.0.dist-info", "cp" + sysconfig.get_config_var("py_version_nodot")
        tag = f"{python}-{python}-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        files = {
            f"fast{suffix}": pathlib.Path("fast" + suffix).read_bytes(),
            f"quick{suffix}": pathlib.Path("quick" + suffix).read_bytes(),
            f"{info}/METADATA": b"Metadata-Version: 2.1\\nName: fast\\nVersion: 1.0\\n"
                b"Requires-Dist: tiny-wheel>=1.0\\n",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: false\\nTag: "
                + tag.encode() + b"\\n",
        }
        lines = []
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}")
        files[f"{info}/RECORD"] = "\\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
        made = f"fast-1.0-{tag}.whl"
        with zipfile.ZipFile(pathlib.Path(folder) / made, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return made
    """)
_C = dedent("""
    #include <Python.h>
    #include "answer.h"
    static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(ANSWER); }
    static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
    static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", "", -1, methods};
    PyMODINIT_FUNC INIT(void) { return PyModule_Create(&module); }
    """)
_PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
#: What the built module says when it is imported beside the other packages.
IMPORTS = ("import fast, quick, tiny; print(fast.answer(), quick.answer(), tiny.version)", "42 42 1.0+cpu")


@dataclass
class World:
    """The recipe, the servers that it names, and how it is installed and looked at."""

    folder: Path
    recipe: Path
    git: GitServer
    index: PackageIndex
    commit: str
    wheel: Path
    install: tuple[str, ...] = ()
    imports: tuple[str, str] = IMPORTS
    megabytes: int = 160

    def __post_init__(self) -> None:
        self.install = self.install or ("install", str(self.recipe), "--until", "fast.install")

    def environment(self, place: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command whose home, cache and temporary folder are in ``place``."""
        folders = {
            "HOME": "home", "XDG_CONFIG_HOME": "home/.config", "XDG_CACHE_HOME": "cache",
            "XDG_DATA_HOME": "home/share", "XDG_CONFIG_DIRS": "home/etc", "TMPDIR": "tmp",
        }  # fmt: skip
        for name in folders.values():
            (place / name).mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        # The usual index cannot be reached here: uv and then pip would ask it for 20 s, in each install.
        pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": self.index.url()}
        return {**kept, **pip, **{name: str(place / at) for name, at in folders.items()}, **(more or {})}


def contents(path: Path) -> dict[str, str]:
    """Return the sha256 of every file of a wheel; the times in the archive do not count."""
    with zipfile.ZipFile(path) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


@contextlib.contextmanager
def small_plan(folder: Path) -> Iterator[World]:
    """Serve the sources and packages of the small plan on loopback until the block ends."""
    inner = Upstream.make(folder / "srv" / "inner.git")
    fast = Upstream.make(folder / "srv" / "fast.git")
    link = inner.commit({"answer.h": "#define ANSWER 42\n", **_filler("inner", 12)})
    files: dict[str, str | bytes] = {
        "pyproject.toml": _PYPROJECT, "backend.py": _BACKEND, "fast.c": _C,
        ".gitignore": "__pycache__/\n*.so\n",
        ".gitmodules": gitmodules(("third_party/inner", "../inner.git")),
        **_filler("src/file", 24),
    }  # fmt: skip
    commit = fast.commit(files, links={"third_party/inner": link})
    (folder / "built").mkdir()
    names = [f"tiny_data/m{number}.py" for number in range(30)]
    tiny = wheel(folder / "built", "tiny-wheel", "1.0+cpu", "tiny.py", *names)
    with PackageIndex() as index, git_server(fast.path.parent) as server:
        index.add(tiny.name, tiny.read_bytes())
        recipe = folder / "small.yaml"
        (folder / "tiny.txt").write_text(pins(tiny))
        recipe.write_text(RECIPE.format(index=index.url(), url=server.url("fast.git"), commit=commit))
        yield World(folder, recipe, server, index, commit, tiny)


def _filler(stem: str, count: int) -> dict[str, str | bytes]:
    return {f"{stem}{number}.h": f"/* {number} */\n" * 90 for number in range(count)}
