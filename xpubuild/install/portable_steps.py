"""The step that makes a built wheel portable (``install --portable``). Pure."""

from __future__ import annotations

from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.engine.model import XPUBUILD, Command, Publish, Step
from xpubuild.install.context import Context

_NOT_WITHOUT = (
    "echo 'portable wheels are made by xpubuild: plan without --portable, or install with it' >&2; exit 1",
)


def portable_step(context: Context, name: str) -> Step:
    """Return the step between building a wheel and installing it.

    What it publishes is audited as if it lay in the environment that its requirements were taken from.
    """
    layout, dist = context.layout, context.component(name).dist
    stage = layout.portable / f".stage-{name}"
    runtime = context.request.runtime or context.site_packages
    audit = context.component(name).audit
    policy = AuditPolicy(
        cxx11_abi=context.choice.cxx11_abi if audit.cxx11_abi else None,
        forbid_needed=tuple(audit.forbid_needed),
        allow_missing=tuple(audit.allow_missing),
        absolute_rpath="error",
    )
    argv = (
        XPUBUILD, "plumbing", "make-portable", str(layout.wheels), dist, str(stage),
        "--runtime", str(runtime), "--builder", str(layout.root),
    )  # fmt: skip
    torch = (str(context.site_packages / "torch" / "lib"),)
    return Step(
        id=f"{name}.portable",
        title=f"make the {dist} wheel portable",
        needs=(f"{name}.wheel",),
        commands=(Command(argv=argv, portable=_NOT_WITHOUT),),
        proofs=(WheelProof(str(stage), "*.whl", policy, torch, str(runtime)),),
        inputs=(str(layout.wheels),),
        fresh=(str(stage),),
        publish=Publish(stage=str(stage), folder=str(layout.portable), pattern="*.whl"),
    )
