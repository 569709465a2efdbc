"""Shell commands that make the same checkout with plain git and bash, for ``plan --format sh``."""

from __future__ import annotations

import shlex

from xpubuild.supply.git.pin import Pin, is_local

_CALLERS = (
    "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_NAMESPACE"
    " GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES"
)
_ALL_BRANCHES = "'+refs/heads/*:refs/remotes/origin/*'"


class ShellWord(str):
    """Text that is a shell word already, such as ``"$WORKSPACE"/src/ops``: it is not quoted again."""

    __slots__ = ()


def portable_commands(pin: Pin, into: str, *, url: ShellWord | None = None) -> tuple[str, ...]:
    """Return bash lines that fetch the tree of ``pin`` into ``into`` with plain git.

    For a shell with ``set -e``; the lines stand for themselves and must not be indented or reordered. A tree
    that is there already is only checked. Submodules that the pin skips come too: the build does not use
    them. ``url`` replaces the pin's, where it holds a shell variable.
    """
    where, origin = _word(into), _word(pin.url if url is None else url)
    local = ["-c protocol.file.allow=always"] if url is not None or is_local(pin.url) else []
    git = " ".join(["git", "-c core.autocrlf=false", *local, f"-C {where}"])
    lines = [
        f"unset {_CALLERS}",
        f"head=$(test ! -e {where}/.git || {git} rev-parse --quiet --verify HEAD || true)",
        f'if test "$head" != {pin.commit}; then',
        f"  git init --quiet {where}",
        f"  {git} config core.autocrlf false",
        f"  {git} config remote.origin.url {origin}",
        f"  {git} config remote.origin.fetch {_ALL_BRANCHES}",
        f"  {git} fetch --no-tags --depth 1 origin {pin.commit} || {git} fetch --tags origin",
        f"  {git} checkout --quiet --detach {pin.commit}",
        "fi",
    ]
    if pin.submodules:
        deepen = "git fetch --unshallow --tags origin || git fetch --tags origin"
        lines += [
            f"{git} submodule --quiet update --init --recursive --depth 1 || {{",
            "  # a server that gives no single commits: fetch whole histories, one level after the other",
            "  for level in 1 2 3 4; do",
            f"    {git} submodule --quiet foreach --recursive {shlex.quote(deepen)} || true",
            f"    if {git} submodule --quiet update --init --recursive; then break; fi",
            "  done; }",
        ]
    lines.append(f'test "$({git} rev-parse HEAD)" = {pin.commit}')
    if pin.tree is not None:
        lines.append(f'test "$({git} rev-parse HEAD^{{tree}})" = {pin.tree}')
    ignore = "untracked" if pin.submodules else "all"
    lines.append(f"{git} diff --quiet --ignore-submodules={ignore} HEAD")
    return tuple(lines)


def _word(text: str) -> str:
    return text if isinstance(text, ShellWord) else shlex.quote(text)
