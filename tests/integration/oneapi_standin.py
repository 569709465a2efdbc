"""Stand-in oneAPI installations: no oneAPI can be had on a test machine.

The trees have both layouts, several versions, ``latest`` links and scripts that behave as the public ones are
documented to: they read variables without a default, find themselves through BASH_SOURCE, print to standard
output, return the documented statuses. Every trouble is a knob. ``icx`` and ``icpx`` are shell scripts that
state a version. Nothing here is Intel's code.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from support.ocloc_standin import add_ocloc

#: Versions of one bundle, as folders are named (xpubuild/machine/oneapi_bundles.yaml).
BUNDLE_2025_1 = {"compiler": "2025.1", "pti": "0.12", "umf": "0.10", "mpi": "2021.15", "ccl": "2021.15"}
BUNDLE_2025_3 = {"compiler": "2025.3", "pti": "0.16", "umf": "1.0", "mpi": "2021.17", "ccl": "2021.17"}
NEEDED = ("compiler", "pti", "umf", "mpi", "ccl")

HANGS = "sleep 300"
EXITS = "exit 5"
ERREXIT = "set -e; false"
NOISE = "echo ':: stand-in noise on standard output'; echo ':: and on standard error' >&2"
NEWLINES = "export STANDIN_TEXT=$'first line\\nsecond=line\\n'"
BYTES = "export STANDIN_BYTES=$'caf\\xe9'"
FUNCTION = "standin_function() { echo hello; }; export -f standin_function"
ARGUMENTS = 'export STANDIN_ARGUMENTS="$#:$*"'


def returns(status: int) -> str:
    """Return the line of a script that reports a status."""
    return f"return {status}"


_COMPONENT = """\
# stand-in for {name} {version}
if [ "${{BASH_SOURCE[0]}}" = "$0" ]; then return 255 2>/dev/null || exit 255; fi
here=$(cd -P -- "$(dirname -- "${{BASH_SOURCE[0]}}")/.." && pwd -P)
{before}
{body}
{after}
"""

# Real ones read these without a default, which ends a shell that runs under `set -u`.
_BODIES = {
    "compiler": """\
export CMPLR_ROOT="$here"
export PATH="$here/bin:$PATH"
export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH"
export LIBRARY_PATH="$here/lib:$LIBRARY_PATH"
export OCL_ICD_FILENAMES="$OCL_ICD_FILENAMES:$here/lib/libintelocl.so"
export MANPATH="$here/share/man:$MANPATH"
export NLSPATH="$here/lib/locale/%l_%t/%N:$NLSPATH"
[ "$1" = --include-intel-llvm ] && export PATH="$here/bin/compiler:$PATH"
: done""",
    "umf": """\
export UMF_ROOT="$here"
export TCM_SEEN=$TCM_ROOT
export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH" """,
    # Alone it takes MPI from mpi/latest, unless an MPI is set up already (env/vars.sh of oneCCL 2021.17).
    "ccl": """\
export CCL_ROOT="$here" CCL_CONFIGURATION=cpu_gpu_dpcpp
if [ -z "${SETVARS_CALL:-}" ] && [ -z "${I_MPI_ROOT:-}" ] && [ -f "$CCL_ROOT/../../mpi/latest/env/vars.sh" ]
then . "$CCL_ROOT/../../mpi/latest/env/vars.sh"; fi
export LIBRARY_PATH="$CCL_ROOT/lib:$LIBRARY_PATH"
export LD_LIBRARY_PATH="$CCL_ROOT/lib:$LD_LIBRARY_PATH"
export CPATH="$CCL_ROOT/include:$CPATH"
export CMAKE_PREFIX_PATH="$CCL_ROOT/lib/cmake/oneCCL:$CMAKE_PREFIX_PATH" """,
    "mpi": """\
export I_MPI_ROOT="$here" FI_PROVIDER_PATH="$here/opt/mpi/libfabric/lib/prov:/usr/lib/libfabric"
export PATH="$here/bin:$PATH"
export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH" """,
    "pti": """\
export Pti_DIR="$here/lib/cmake/pti"
export CMAKE_PREFIX_PATH="$here:$CMAKE_PREFIX_PATH" """,
}
_OTHER_BODY = 'export LD_LIBRARY_PATH="$here/lib:$LD_LIBRARY_PATH"'

_COMPILER = """\
#!/bin/sh
# stand-in for {name}
echo 'Intel(R) oneAPI DPC++/C++ Compiler {version} ({version}.20250418)'
echo 'Target: x86_64-unknown-linux-gnu'
echo 'Thread model: posix'
"""

_SETVARS = """\
# stand-in for setvars.sh
if [ "${{BASH_SOURCE[0]}}" = "$0" ]; then return 255 2>/dev/null || exit 255; fi
{before}
root=$(cd -- "$(dirname -- "${{BASH_SOURCE[0]}}")" && pwd -P)
if [ -n "${{SETVARS_ARGS:-}}" ]; then set -- $SETVARS_ARGS; unset SETVARS_ARGS; fi
force=no
for word in "$@"; do
  case $word in
    --force) force=yes ;;
    --help) echo 'usage: source setvars.sh'; return 254 ;;
    ia32) return 255 ;;
    --config=*)
      [ -r "${{word#--config=}}" ] || return 4
      while IFS= read -r line; do
        case $line in default=exclude) ;; default=*) return 7 ;; esac
      done < "${{word#--config=}}" ;;
  esac
done
if [ "$SETVARS_COMPLETED" = 1 ] && [ $force = no ]; then echo ':: already run; usage: ...'; return 3; fi
echo ":: initializing oneAPI environment ..."
trouble=no
export ONEAPI_ROOT="$root"
for script in "$root"/*/latest/env/vars.sh; do
  [ -r "$script" ] || continue
  echo ":: $script"
  SETVARS_CALL=1 . "$script" "$@" || trouble=yes
done
if [ $trouble = yes ]; then echo ':: WARNING: a component reported a problem'; return 250; fi
export SETVARS_COMPLETED=1
echo ":: oneAPI environment initialized ::"
return 0
"""

_UNIFIED = """\
# stand-in for oneapi-vars.sh
if [ "${{BASH_SOURCE[0]}}" = "$0" ]; then return 255 2>/dev/null || exit 255; fi
{before}
if [ "$SETVARS_COMPLETED" = 1 ]; then return 3; fi
export ONEAPI_ROOT=$(cd -- "$(dirname -- "${{BASH_SOURCE[0]}}")" && pwd -P)
export SETVARS_CALL=1
for script in "$ONEAPI_ROOT"/etc/*/vars.sh; do
  [ -r "$script" ] && . "$script" "$@"
done
unset SETVARS_CALL
export SETVARS_COMPLETED=1
return 0
"""

_UNIFIED_COMPONENT = """\
# stand-in for {name} in the unified layout
if [ -z "$SETVARS_CALL" ]; then
  echo ':: ERROR: run oneapi-vars.sh' >&2
  return 255 2>/dev/null || exit 255
fi
here=$ONEAPI_ROOT
{before}
{body}
{after}
"""


def write(path: Path, text: str, *, mode: int = 0o644) -> Path:
    """Write a file and the folders above it with the rights of an installation, whatever the umask."""
    for folder in reversed([parent for parent in path.parents if not parent.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def add_component(
    root: Path,
    name: str,
    version: str,
    *,
    before: str = "",
    after: str = "",
    body: str | None = None,
    full_version: str | None = None,
    latest: bool = True,
) -> Path:
    """Install a component in the component layout; return its script.

    ``before`` and ``after`` are lines of the script around what it normally sets (``body``). A compiler gets
    programs that state ``full_version`` (default: ``version`` with ".1").
    """
    folder = root / name / version
    text = _BODIES.get(name, _OTHER_BODY) if body is None else body
    script = write(
        folder / "env" / "vars.sh",
        _COMPONENT.format(name=name, version=version, before=before, body=text, after=after),
    )
    if name == "compiler":
        add_compilers(folder, full_version or f"{version}.1")
    elif name in ("mpi",):
        write(folder / "bin" / "mpirun", "#!/bin/sh\n", mode=0o755)
    if latest:
        point_latest(root, name, version)
    return script


def add_compilers(folder: Path, version: str) -> None:
    """Put icx and icpx into ``folder``/bin, and beside them the driver's ocloc, which a plan needs."""
    for name in ("icx", "icpx"):
        write(folder / "bin" / name, _COMPILER.format(name=name, version=version), mode=0o755)
    add_ocloc(folder / "bin")


def point_latest(root: Path, name: str, version: str) -> None:
    """Make the link ``latest`` of a component lead to a version."""
    link = root / name / "latest"
    link.unlink(missing_ok=True)
    link.symlink_to(version)


def add_setvars(root: Path, *, before: str = "") -> Path:
    """Install setvars.sh."""
    return write(root / "setvars.sh", _SETVARS.format(before=before), mode=0o755)


def build_root(
    root: Path, versions: Mapping[str, str] = BUNDLE_2025_1, *, before: Mapping[str, str] | None = None
) -> Path:
    """Make an installation in the component layout with one version of each component, and setvars.sh.

    oneMKL of the compiler's version comes with a whole bundle.
    """
    for name, version in versions.items():
        add_component(root, name, version, before=(before or {}).get(name, ""))
    if {"compiler", "ccl"} <= versions.keys() and "mkl" not in versions:
        add_component(root, "mkl", versions["compiler"])
    add_setvars(root)
    return root


def build_unified(
    root: Path,
    toolkit: str = "2025.1",
    names: Iterable[str] = NEEDED,
    *,
    full_version: str = "2025.1.1",
    before: str = "",
) -> Path:
    """Make a toolkit in the unified layout; return its folder."""
    folder = root / toolkit
    write(folder / "oneapi-vars.sh", _UNIFIED.format(before=before), mode=0o755)
    for name in names:
        text = _BODIES.get(name, _OTHER_BODY)
        write(
            folder / "etc" / name / "vars.sh",
            _UNIFIED_COMPONENT.format(name=name, before="", body=text, after=""),
        )
    add_compilers(folder, full_version)
    return folder


def remove(path: Path) -> None:
    """Remove a part of an installation."""
    shutil.rmtree(path)
