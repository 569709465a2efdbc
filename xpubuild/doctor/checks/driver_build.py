"""What of the driver a build or torch.compile needs: the offline compiler, and headers."""

from __future__ import annotations

import shutil

from xpubuild.doctor.checks.level_zero import first_names, install_headers
from xpubuild.doctor.context import CheckContext, Profile
from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import CHECK_DEADLINE_S, child
from xpubuild.doctor.probes.machine import RUN, wants_driver
from xpubuild.host.readers import exists

_BUILD: frozenset[Profile] = frozenset({"build"})
_IMAGE_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_INCLUDE = ("/usr/include", "/usr/local/include")
_ROOTS = ("ZE_PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "CMPLR_ROOT")
_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_LEVEL_ZERO, _OPENCL = "level_zero/ze_api.h", "CL/cl.h"
_HEADERS = (_LEVEL_ZERO, _OPENCL)


class Ocloc(Check):
    """The offline compiler runs."""

    id = "driver.ocloc"
    title = "ocloc, the GPU driver's offline compiler, runs"
    severity = "warn"
    profiles = _BUILD
    families = ("P-missing-build-component",)
    deadline_s = CHECK_DEADLINE_S
    explanation = """
    Searches for `ocloc` on PATH and runs `ocloc query NEO_REVISION`. Ahead-of-time compilation of
    kernels (`TORCH_XPU_ARCH_LIST`, `--arch`) calls it through llvm-foreach. Without it, linking fails
    after hours with `llvm-foreach: No such file or directory`. A machine that builds needs it, with or
    without a GPU. It is a failure with a recipe that compiles for a GPU, and a warning otherwise;
    recipes of 2.8 and later can be built with `--arch none`.

    In the first LTS driver it is part of `intel-opencl-icd`, in all later ones of `intel-ocloc`. On
    clusters it is often in a separate module.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Find it and run it."""
        debian = "intel-opencl-icd" if first_names(context) else "intel-ocloc"
        install = Fix(
            "install it, or load the environment module that contains it",
            install_command(context, debian=(debian,), rhel=("intel-ocloc",), suse=("intel-ocloc",)),
        )
        if not context.live:
            path = next(
                (f"{folder}/ocloc" for folder in _IMAGE_PATH if exists(context.path(f"{folder}/ocloc"))), None
            )
            return self.ok(path) if path else self._missing(context, "no ocloc in this image", install)
        program = shutil.which("ocloc", path=context.environ.get("PATH", ""))
        if program is None:
            return self._missing(context, "no ocloc on PATH", install)
        ending = child(context, [program, "query", "NEO_REVISION"])
        if ending.how != "ok":
            words = ending.words.splitlines()[-1:] or [""]
            return self._missing(context, f"{ending.told(program)} {words[0]}".strip(), install)
        return self.ok(program, program=program)

    def _missing(self, context: CheckContext, detail: str, fix: Fix) -> Outcome:
        if context.recipe is not None:
            recipe = context.recipe.recipe
            targets = recipe.arch or recipe.arch_upstream
            if recipe.target != "xpu" or targets == ["none"]:
                return self.ok(f"{detail}; the recipe {recipe.name} does not compile kernels ahead of time")
            return Outcome(
                "fail", f"{detail}; the recipe {recipe.name} compiles kernels ahead of time", {}, fix
            )
        return self.found(detail, fix)


class Headers(Check):
    """The headers that torch.compile and Triton need are installed."""

    id = "driver.headers"
    title = "The Level Zero and OpenCL headers for torch.compile are installed"
    severity = "warn"
    profiles = RUN
    families = ("N-run-time-jit-headers",)
    explanation = """
    torch.compile makes Triton compile a launcher at run time. It includes `level_zero/ze_api.h`, and
    the SYCL headers of newer oneAPI releases include `CL/cl.h`. Both are searched for in the compiler's
    default folders, in CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH, in ZE_PATH, and in the include
    folders of the active environment and oneAPI compiler.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Look for each header."""
        if not wants_driver(context):
            return self.skip("no Intel GPU to compile for")
        folders = _folders(context)
        missing = [
            name for name in _HEADERS if not any(exists(context.path(f"{at}/{name}")) for at in folders)
        ]
        if not missing:
            return self.ok(f"found {', '.join(_HEADERS)}")
        brings = {_LEVEL_ZERO: install_headers(context), _OPENCL: ("opencl-headers",) * 3}
        packages = {
            system: tuple(brings[header][index] for header in missing)
            for index, system in enumerate(("debian", "rhel", "suse"))
        }
        return self.found(
            f"no {' and no '.join(missing)}: torch.compile will fail at its first kernel",
            Fix("install the headers", install_command(context, **packages)),
            missing=missing,
            looked=folders,
        )


def _folders(context: CheckContext) -> list[str]:
    environ = context.environ
    found = [
        entry for name in _SEARCHED for entry in environ.get(name, "").split(":") if entry.startswith("/")
    ]
    roots = (environ.get(name, "") for name in _ROOTS)
    found += [f"{root}/include" for root in roots if root.startswith("/")]
    return [*dict.fromkeys((*found, *_INCLUDE))]
