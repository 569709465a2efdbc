"""The oneAPI environment of a plan: find, choose, capture, validate, cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.fingerprint import digest
from xpubuild.errors import ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine import oneapi_advice as advice
from xpubuild.machine import oneapi_cache as cache
from xpubuild.machine.envdiff import EnvDiff
from xpubuild.machine.oneapi_capture import DEADLINE_S, Capture, Request, capture, clean_environment
from xpubuild.machine.oneapi_components import Component, list_components
from xpubuild.machine.oneapi_constraint import specifier
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_paths import is_file
from xpubuild.machine.oneapi_report import installed
from xpubuild.machine.oneapi_roots import SETVARS, UNIFIED_ENTRY, Root, candidates, find_roots
from xpubuild.machine.oneapi_selection import Mode, OneapiNeeds, Selection, select
from xpubuild.machine.oneapi_trust import OWNERS_VARIABLE, owners
from xpubuild.machine.oneapi_validate import Validation, validate

__all__ = ["OneapiEnvironment", "OneapiNeeds", "installed", "oneapi_environment"]


@frozen
class OneapiEnvironment:
    """A oneAPI environment that was proved usable.

    ``diff`` is applied to the environment of build steps with ``envdiff.apply``. ``digest`` changes with the
    chosen versions, the compiler's own version and everything that is set; it is meant for fingerprints.
    """

    root: Path
    components: tuple[Component, ...]
    diff: EnvDiff
    warnings: tuple[Finding, ...]
    digest: str
    compiler_version: str | None = None
    mode: Mode = "components"


def _select(roots: tuple[Root, ...], needs: OneapiNeeds, mode: Mode) -> Selection:
    """Return the first installation that has all; a wrong version tells more than a missing component."""
    failures: list[XpuBuildError] = []
    for root in roots:
        try:
            return select(root, list_components(root), needs, mode)
        except (ToolchainError, UnsatisfiableError) as error:
            failures.append(error)
    best = next((error for error in failures if isinstance(error, UnsatisfiableError)), failures[0])
    if len(roots) > 1:
        best.evidence["also_tried"] = [error.what for error in failures if error is not best]
    raise best


def _request(selection: Selection, caller_env: Mapping[str, str]) -> Request:
    root = selection.root.real
    own = [component.script for component in selection.components if component.layout == "component"]
    hashed: list[Path] = []
    if selection.mode == "setvars":
        scripts = [root / SETVARS]
        hashed = [
            c.script for c in list_components(selection.root) if c.layout == "component" and c.is_latest
        ]
    elif selection.mode == "unified":
        toolkits = dict.fromkeys(c.path for c in selection.components if c.layout == "unified")
        scripts = [*(path / UNIFIED_ENTRY for path in toolkits), *own]
        hashed = [c.script for c in list_components(selection.root) if c.path in toolkits]
    else:
        scripts = own
    return Request(
        root=root,
        mode=selection.mode,
        scripts=tuple(scripts),
        environment=clean_environment(caller_env),
        hashed=tuple(hashed),
        owners=owners(caller_env.get(OWNERS_VARIABLE, "")),
    )


def _require_entry_scripts(request: Request) -> None:
    for script in request.scripts:
        if not is_file(script):
            raise ToolchainError(
                f"{script} does not exist",
                why=f"--oneapi-mode {request.mode} runs it to set up the environment",
                fix="use --oneapi-mode components, which is the default, or reinstall oneAPI",
            )


def _captured(
    request: Request, selection: Selection, cache_dir: Path | None, deadline_s: float
) -> tuple[Capture, tuple[Finding, ...]]:
    if cache_dir is None:
        return capture(request, deadline_s=deadline_s), ()
    # A remembered capture of scripts that somebody else has got at since is not used either.
    request.require_trusted()
    key = cache.cache_key(request, selection.components)
    remembered = cache.load(cache_dir, key, request)
    if remembered is not None:
        return remembered, ()
    fresh = capture(request, deadline_s=deadline_s)
    return fresh, cache.store(cache_dir, key, fresh)


def _several_roots(roots: tuple[Root, ...], used: Root) -> tuple[Finding, ...]:
    others = [str(root.path) for root in roots if root is not used]
    if not others:
        return ()
    return (
        Finding(
            "oneapi-several-roots",
            f"using oneAPI of {used.path} ({used.origin}); also found: {', '.join(others)}",
            {"used": str(used.path), "others": others},
        ),
    )


def _digest(selection: Selection, captured: Capture, validation: Validation) -> str:
    return digest(
        {
            "root": str(selection.root.real),
            "mode": selection.mode,
            "compiler_version": validation.compiler_version,
            "components": [[item.name, item.version, str(item.path)] for item in selection.components],
            "diff": captured.diff.to_json(),
        }
    )


def oneapi_environment(
    needs: OneapiNeeds,
    *,
    explicit_root: Path | None,
    caller_env: Mapping[str, str],
    cache_dir: Path | None,
    mode: Mode = "components",
    deadline_s: float = DEADLINE_S,
) -> OneapiEnvironment:
    """Return the environment that a recipe needs, captured from an installation of this machine.

    ``mode``: "components" sources the components' own scripts in the order of the needs (the default, and
    what PyTorch's maintainers do), "setvars" the whole setvars.sh, "unified" a toolkit's oneapi-vars.sh. An
    installation that has the compiler in the unified layout alone is always sourced that way.

    Raises:
        UsageError: ``explicit_root`` is not an installation.
        RecipeError: a specifier of the needs cannot be read.
        UnsatisfiableError: what is installed breaks the recipe's constraint.
        ToolchainError: nothing is installed, a component is missing, or the scripts do not do their work.
    """
    wanted = specifier(needs.versions)
    roots = find_roots(explicit_root, caller_env)
    if not roots:
        raise advice.nothing_found([(str(path), origin) for path, origin in candidates(caller_env)], wanted)
    selection = _select(roots, needs, mode)
    request = _request(selection, caller_env)
    _require_entry_scripts(request)
    captured, cache_findings = _captured(request, selection, cache_dir, deadline_s)
    validation = validate(captured, selection, needs.versions)
    return OneapiEnvironment(
        root=selection.root.path,
        components=selection.components,
        diff=captured.diff,
        warnings=(
            *_several_roots(roots, selection.root),
            *selection.findings,
            *captured.warnings,
            *validation.findings,
            *cache_findings,
        ),
        digest=_digest(selection, captured, validation),
        compiler_version=validation.compiler_version,
        mode=selection.mode,
    )
