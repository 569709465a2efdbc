"""What of the driver a build or torch.compile needs: the offline compiler, and headers."""

from __future__ import annotations

import shutil

from xpubuild.doctor.checks.level_zero import first_names, install_headers
from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.model import Check, Fix, Outcome, Profile
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
    title = "ocloc, the offline compiler of the GPU driver, runs"
    severity = "warn"
    profiles = _BUILD
    families = ("P-missing-build-component",)
    deadline_s = CHECK_DEADLINE_S
    explanation = (
        "Looks for `ocloc` on PATH and runs `ocloc query NEO_REVISION`. Compiling kernels ahead of time"
        " (`TORCH_XPU_ARCH_LIST`, `--arch`) calls it through llvm-foreach, and without it the link ends"
        " after hours with `llvm-foreach: No such file or directory`. A machine that builds needs it, with"
        " or without a GPU. It is a failure with a recipe that compiles for a GPU, and a warning otherwise;"
        " recipes of 2.8 and later may build with `--arch none`.\n\nThe first LTS driver has it in"
        " `intel-opencl-icd`, all later ones in `intel-ocloc`; on clusters it is often in a module of its"
        " own."
    )

    def run(self, context: Context) -> Outcome:
        """Find it and run it."""
        debian = "intel-opencl-icd" if first_names(context) else "intel-ocloc"
        install = Fix(
            "install it, or load the module that has it",
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

    def _missing(self, context: Context, detail: str, fix: Fix) -> Outcome:
        if context.recipe is not None:
            recipe = context.recipe.recipe
            targets = recipe.arch or recipe.arch_upstream
            if recipe.target != "xpu" or targets == ["none"]:
                return self.ok(f"{detail}; the recipe {recipe.name} compiles nothing ahead of time")
            return Outcome(
                "fail", f"{detail}; the recipe {recipe.name} compiles kernels ahead of time", {}, fix
            )
        return self.found(detail, fix)


class Headers(Check):
    """The headers that torch.compile and Triton compile against are there."""

    id = "driver.headers"
    title = "torch.compile finds the headers of Level Zero and OpenCL"
    severity = "warn"
    profiles = RUN
    families = ("N-run-time-jit-headers",)
    explanation = (
        "torch.compile makes Triton compile a launcher at run time, which includes `level_zero/ze_api.h`,"
        " and the SYCL headers of newer oneAPI releases include `CL/cl.h`. Both are looked for in the"
        " compiler's usual folders, in CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH, below ZE_PATH, and in"
        " the include folders of the active environment and oneAPI compiler."
    )

    def run(self, context: Context) -> Outcome:
        """Look for each header."""
        if not wants_driver(context):
            return self.skip("no Intel GPU that something would be compiled for")
        folders = _folders(context)
        missing = [
            name for name in _HEADERS if not any(exists(context.path(f"{at}/{name}")) for at in folders)
        ]
        if not missing:
            return self.ok(f"{', '.join(_HEADERS)} are here")
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


def _folders(context: Context) -> list[str]:
    environ = context.environ
    found = [
        entry for name in _SEARCHED for entry in environ.get(name, "").split(":") if entry.startswith("/")
    ]
    roots = (environ.get(name, "") for name in _ROOTS)
    found += [f"{root}/include" for root in roots if root.startswith("/")]
    return [*dict.fromkeys((*found, *_INCLUDE))]
