"""Breaking a good environment without touching it: code that runs in the target after an import.

It travels as a ``sitecustomize`` on PYTHONPATH, which every Python runs at its start.
"""

from __future__ import annotations

import os
from pathlib import Path

_HOOK = """\
import importlib.abc
import importlib.util
import sys


class _AfterImport(importlib.abc.MetaPathFinder):
    asked = False

    def find_spec(self, name, path, target=None):
        if name != {module!r} or self.asked:
            return None
        self.asked = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asked = False
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            exec(compile({code!r}, "mutation", "exec"), {{"module": module, {alias!r}: module}})

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _AfterImport())
"""


def mutate(folder: Path, code: str, *, module: str = "torch") -> Path:
    """Write a mutation and return the folder to put on PYTHONPATH.

    ``code`` runs after ``module`` was imported and has it under its own name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_HOOK.format(module=module, code=code, alias=module), "utf-8")
    return folder


def python_path(*folders: Path) -> str:
    return os.pathsep.join(map(str, folders))
