"""``plan --format sh``: the plan as a bash script that makes the same wheels without xpubuild."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterator, Mapping

from xpubuild.engine.model import XPUBUILD, Command, Plan, Step

_END = "XPUBUILD_END_OF_FILE"
#: Set for a build from a mirror; a script clones from the network.
_OF_A_MIRROR = frozenset({"GIT_ALLOW_PROTOCOL"})
_OF_A_CACHE = re.compile(r"S?CCACHE_|CMAKE_\w+_COMPILER_LAUNCHER$")
#: A word in single quotes; a quote inside of it, as shlex writes it, leaves the word quoted.
_QUOTED = re.compile(r"""('(?:[^']|'"'"')*')""")
_HEAD = r"""#!/usr/bin/env bash
# Made by: xpubuild plan %(recipe)s --format sh
# Builds the wheels of recipe '%(recipe)s' (inputs sha256 %(digest)s) into the folder wheels of a workspace.
# Usage: bash THIS-FILE [WORKSPACE]; PYTHON=EXE names another interpreter of the same version
# Needs git, a C++ compiler and Python with venv, not xpubuild. xpubuild's checks of the results (ABI,
# linkage, RECORD, verify) is not part of this script.
set -euo pipefail
WORKSPACE=${1:-%(workspace)s}
mkdir -p -- "$WORKSPACE/build/requirements"
WORKSPACE=$(cd -- "$WORKSPACE" && pwd)
if [ -z "${XPUBUILD_CLEAN:-}" ]; then
  # The build gets this environment and nothing else of the caller's.
  keep=(XPUBUILD_CLEAN=1 "HOME=$HOME" "PATH=$PATH" LC_ALL=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONNOUSERSITE=1)
  for name in $(compgen -e); do
    case $name in
      PYTHON|USER|LOGNAME|TMPDIR|SSH_AUTH_SOCK|*_proxy|*_PROXY|SSL_CERT_*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO|PIP_*)
        keep+=("$name=${!name}") ;;
    esac
  done
  exec env -i "${keep[@]}" bash "${BASH_SOURCE[0]}" "$WORKSPACE"
fi
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
cd -- "$WORKSPACE"
"""


def files_of(plan: Plan) -> str:
    """Return the shell lines that write the files of a plan: hashes of packages, for the most part."""
    return "".join(_file(path, text, plan.workspace) for path, text in plan.files.items())


def script(plan: Plan, beside: str = "") -> str:
    """Return the script for a plan; xpubuild's own commands appear as their plain equivalents.

    ``beside`` names a file in the script's folder that has ``files_of(plan)``, or else the script has them.
    """
    written = files_of(plan)
    if beside:
        name, found = shlex.quote(beside), hashlib.sha256(written.encode()).hexdigest()
        written = f'(cd -- "$HERE" && sha256sum --check --quiet <<<{found}"  "{name})\n. "$HERE"/{name}\n'
    workspace = shlex.quote(plan.workspace)
    head = _HEAD % {"recipe": plan.recipe, "digest": plan.lock_digest, "workspace": workspace}
    parts = [head, written.rstrip("\n")]
    # What only xpubuild's own commands write is missing here: no variable may name it.
    missing = frozenset(path for step in plan.steps if not _lines(step) for path in step.witnesses)
    texts = ("\n".join(_step(step, plan.workspace, missing)) for step in plan.steps)
    parts += [text for text in texts if text]
    parts.append('printf "\\nWheels in %s:\\n" "$WORKSPACE/wheels"\nls -l -- "$WORKSPACE/wheels"')
    return "\n".join(parts) + "\n"


def relocatable(line: str, workspace: str) -> str:
    """Return a shell line with every mention of the workspace replaced by ``"$WORKSPACE"``.

    Inside single quotes the quote is closed and opened again around the variable, so the line stays one
    with the same words.
    """
    place = re.compile(re.escape(workspace) + r"(?![^/'\" :;,])")
    parts = enumerate(_QUOTED.split(line))
    return "".join(place.sub("'\"$WORKSPACE\"'" if n % 2 else '"$WORKSPACE"', part) for n, part in parts)


def _file(path: str, text: str, workspace: str) -> str:
    target = relocatable(shlex.quote(path), workspace)
    program = f"chmod +x {target}\n" if text.startswith("#!") else ""
    end = _END
    while end in text:
        end += "_"
    head = f"mkdir -p -- \"$(dirname -- {target})\"\ncat > {target} <<'{end}'\n"
    return head + text.rstrip("\n") + f"\n{end}\n{program}"


def _lines(step: Step, missing: Collection[str] = ()) -> list[str]:
    return [line for command in step.commands for line in _command(command, missing)]


def _step(step: Step, workspace: str, missing: Collection[str]) -> Iterator[str]:
    lines = _lines(step, missing)
    if not lines:
        return
    yield f"\nprintf '\\n== %s\\n' {shlex.quote(step.title)}"
    for path in step.fresh:
        yield relocatable(f"rm -rf -- {shlex.quote(path)}", workspace)
    if step.publish is not None:
        yield relocatable(f"mkdir -p -- {shlex.quote(step.publish.stage)}", workspace)
    for line in lines:
        yield relocatable(line, workspace)
    if step.publish is not None:
        stage, folder = shlex.quote(step.publish.stage), shlex.quote(step.publish.folder)
        yield relocatable(f"mkdir -p -- {folder}", workspace)
        yield relocatable(f"mv -f -- {stage}/{step.publish.pattern} {folder}/", workspace)
        yield relocatable(f"rmdir -- {stage}", workspace)


def _command(command: Command, missing: Collection[str]) -> list[str]:
    if command.portable is not None:
        return list(command.portable)
    if command.argv[0] == XPUBUILD:
        return []
    overlay = [
        f"{shlex.quote(name)}={shlex.quote(value)}"
        # A compile cache has CC and CXX beside those of the plan, for xpubuild alone.
        for name, value in sorted(_without_cache({**command.tuning, **command.env}).items())
        if value not in missing and name not in _OF_A_MIRROR
    ]
    if command.path_prefix:
        overlay.insert(0, f'PATH={shlex.quote(":".join(command.path_prefix))}:"$PATH"')
    prefix = " ".join(["env", *overlay, ""]) if overlay else ""
    line = " || ".join(prefix + shlex.join(argv) for argv in (command.argv, *command.alternatives))
    return [f"(cd -- {shlex.quote(command.cwd)} && {{ {line}; }})" if command.cwd else line]


def _without_cache(shown: Mapping[str, str]) -> dict[str, str]:
    """Return variables without those of a compile cache.

    What lets compilers wait for memory stays in front of them: the build gets more jobs than there are.
    """
    found = {name: value for name, value in shown.items() if not _OF_A_CACHE.match(name)}
    admits = shown.get("CMAKE_CXX_LINKER_LAUNCHER")
    if admits is not None:
        found |= dict.fromkeys(("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"), admits)
    return found
