"""The names that completion offers; each is looked up when a person presses the key, and quietly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completing(what: str) -> Complete:
    """Return what completes recipes, workspaces, doctor_checks or verify_checks."""

    def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
        # Of "a,b" the last is being typed.
        before, comma, last = typed.rpartition(",")
        found = [CompletionItem(before + comma + name) for name in _KNOWN[what]() if name.startswith(last)]
        return found or ([CompletionItem(typed, type="file")] if what in ("recipes", "workspaces") else [])

    return complete


def _recipes() -> Iterable[str]:
    from xpubuild.recipe.load import available, is_abstract
    from xpubuild.recipe.order import in_order

    return in_order(name for name, path in available().items() if not is_abstract(path))


def _installed() -> Iterable[str]:
    from xpubuild.install.options import default_workspace
    from xpubuild.recipe.order import in_order

    folder = default_workspace("any").parent
    return in_order(path.parent.name for path in folder.glob("*/journal.db"))


def _doctor_checks() -> Iterable[str]:
    from xpubuild.doctor.registry import all_checks

    checks = all_checks()
    return (*dict.fromkeys(check.group for check in checks), *(check.id for check in checks))


def _verify_checks() -> Iterable[str]:
    from xpubuild.verify.catalogue import list_checks

    return (check.id for check in list_checks())


_KNOWN: Mapping[str, Callable[[], Iterable[str]]] = {
    "recipes": _recipes,
    "workspaces": _installed,
    "doctor_checks": _doctor_checks,
    "verify_checks": _verify_checks,
}
