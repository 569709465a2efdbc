"""The SYCL runtime of an environment: its adapters load, and its OpenCL CPU device can be seen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip
from xpubuild.doctor.look.sites import site
from xpubuild.doctor.probes.unified_runtime import LOG, names, unified_runtime
from xpubuild.machine.readers import entries, read_text

_VARIABLE = "OCL_ICD_FILENAMES"
_LIBRARY = "libintelocl.so"


@check(
    "sycl.adapters",
    profiles=RUN,
    live=True,
    families=("A-conda-or-mixed-libstdcxx", "B-two-sycl-runtimes-or-stale-jit-cache"),
    deadline_s=20,
)
def sycl_adapters(look: Look) -> Outcome:
    """The adapters of the SYCL runtime load.

    The SYCL runtime loads an adapter for Level Zero and one for OpenCL. If a library that an adapter needs
    is missing (`libumf.so.1`, which needs `libhwloc.so.15`) or too old, the runtime skips it without a
    message, and the GPU is not listed. This check asks the runtime's loader, `libur_loader.so.0` of
    `LD_LIBRARY_PATH` or of the selected environment, in a subprocess with its log switched on. It needs no
    `sycl-ls`, which wheels do not bring.
    """
    found = unified_runtime(look)
    if found.loader is None or found.ending is None:
        return skip("no SYCL runtime on LD_LIBRARY_PATH or in the selected environment")
    listed = {item["adapter"]: found.devices(item["adapter"]) for item in found.adapters}
    evidence = {"loader": str(found.loader), "adapters": list(found.adapters), "failed": dict(found.failed)}
    ask = shlex.join(("python3", "-c", _ASK, str(found.loader)))
    fix = Fix(
        "install what is missing in the same place as the runtime, or use one oneAPI release",
        (f"UR_LOG_LOADER='{LOG}' {ask}",),
    )
    if found.failed:
        return finding(f"not loaded: {names(found.failed)}", fix, **evidence)
    if found.ending.how != "ok" or found.ending.value("load_error"):
        why = found.ending.value("load_error") or found.ending.told("the runtime's loader")
        return finding(f"{found.loader}: {why}", fix, **evidence)
    told = ", ".join(f"{backend}: {count} devices" for backend, count in listed.items())
    return ok(told or "no adapter has a device here", **evidence)


_ASK = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).urLoaderInit(0, None)"


@check("opencl.cpu", severity="warn", profiles=RUN, families=("Z-single",))
def opencl_cpu(look: Look) -> Outcome:
    """The OpenCL CPU device of the environment can be found.

    The package `intel-opencl-rt` brings an OpenCL device for the CPU, and a file in `etc/OpenCL/vendors` of
    the environment that names its library. pip leaves the placeholder of a conda prefix in that file
    (`/opt/anaconda1anaconda2anaconda3/lib/libintelocl.so`), and the OpenCL loader searches only
    `/etc/OpenCL/vendors`. SYCL programs then list no CPU device unless `OCL_ICD_FILENAMES` names the
    library. PyTorch for XPU does not need it.
    """
    python = site(look)
    named = dict(_vendors(python.prefixes if python else ()))
    if not named:
        return skip("the selected environment has no OpenCL library")
    told = look.environ.get(_VARIABLE, "").split(":")
    for file, library in named.items():
        real = file.parents[3] / "lib" / _LIBRARY
        if Path(library).is_file() or any(Path(entry).is_file() for entry in told if entry):
            continue
        exists = real.is_file()
        fix = Fix(
            "name the library in the environment" if exists else "install intel-opencl-rt again",
            (f"export {_VARIABLE}={shlex.quote(str(real))}",) if exists else (),
        )
        return finding(f"{file} names {library}, which does not exist", fix, registered={str(file): library})
    return ok(", ".join(told if any(told) else named.values()))


def _vendors(prefixes: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    for prefix in prefixes:
        if prefix.name != "usr":
            for file in entries(prefix / "etc" / "OpenCL" / "vendors"):
                if file.suffix == ".icd":
                    yield file, (read_text(file) or "").strip()
