"""The host as one build sees it: with the interpreter, compiler and oneAPI that it will use. Pure."""

from __future__ import annotations

from dataclasses import replace

from xpubuild.install.request import Choice, Facts, Request
from xpubuild.recipe.compatible_host import CMAKE_ID, oneapi_versions
from xpubuild.recipe.situation import Situation


def of_request(request: Request, choice: Choice, facts: Facts) -> Situation:
    """Return the host as one build sees it."""
    known = facts.situation or Situation()
    if request.arch and known.gpu_targets and not set(request.arch) & set(known.gpu_targets):
        # Named targets that are not this machine's: it is built for another one, whose driver we do not see.
        known = replace(known, gpu=None, driver=None)
    oneapi = known.oneapi
    if facts.oneapi is not None:
        used = [(str(item.get("name")), str(item.get("version"))) for item in facts.oneapi.components]
        oneapi = oneapi_versions(used) or None
    return replace(
        known,
        target=choice.target,
        oneapi=oneapi,
        python=(facts.python_version,),
        gcc=facts.compilers.version if facts.compilers.kind in ("gcc", None) else None,
        host_compiler=CMAKE_ID.get(facts.compilers.kind or "gcc", facts.compilers.kind),
        cxx11_abi=request.cxx11_abi,
        arch=choice.arch or None,
        components=choice.components,
    )
