"""The checks that a component has in its own file: its package can be imported, and statements run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .context import SuiteContext

#: Before the name of a component, in the options of a run: its value is the check of that component, as JSON.
OPTION = "check."


def declare(name: str, given: Mapping[str, Any]) -> None:
    """Declare the checks of a component, as ``--require`` may name it then.

    ``given`` has ``package``, which is imported, and ``run``: Python statements of one line each, with the
    names ``torch`` and ``device``. The check fails with the first that raises an exception.
    """
    first, second = f"{name}.import", f"{name}.run"
    registry.forget(first, second)
    registry.PARTS[name] = (f"{name}.*",)

    @registry.check(first, f"{given['package']} can be imported", needs=("import.torch",), suites=())
    def _import(context: SuiteContext) -> None:
        context.imported(given["package"], name)

    if not given["run"]:
        return

    @registry.check(second, f"{name} works", needs=("device.availability", first), suites=())
    def _run(context: SuiteContext) -> None:
        names = {"torch": context.torch, "device": context.device}
        for statement in given["run"]:
            # Of a failure, the output says where.
            sys.stdout.write(f">>> {statement}\n")
            exec(statement, names)  # noqa: S102 - of a recipe, whose build has run as this user, too
