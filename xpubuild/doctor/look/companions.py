"""Which release of torchvision and torchaudio belongs to a torch, and which index has it."""

from __future__ import annotations

from xpubuild.doctor.look.sites import public
from xpubuild.doctor.look.torches import Torch
from xpubuild.errors import RecipeError
from xpubuild.machine.versions import parse

_INDEX = "https://download.pytorch.org/whl"
#: The first release with wheels for XPU (https://pytorch.org/blog/intel-gpu-support-pytorch-2-5/).
_FIRST_XPU = "2.5"


def index_of(torch: Torch) -> str:
    """Return upstream's index of wheels for what this torch was built for."""
    if torch.xpu:
        return f"{_INDEX}/xpu"
    if torch.cuda:
        return f"{_INDEX}/cu{''.join(torch.cuda.split('.')[:2])}"
    return f"{_INDEX}/rocm{'.'.join(torch.hip.split('.')[:2])}" if torch.hip else f"{_INDEX}/cpu"


def companion_version(torch: Torch, dist: str) -> str | None:
    """Return the release of a companion (``torchvision``) that upstream made for this torch.

    The recipes know it. None for a development version, for a release without a recipe, and where upstream
    has no wheels for XPU.
    """
    release, first = parse(public(torch.version)), parse(_FIRST_XPU)
    if release is None or first is None or release.is_prerelease or (torch.xpu and release < first):
        return None
    from xpubuild.recipe.load import load, release_of  # noqa: PLC0415 - pydantic takes its time

    try:
        loaded = load(f"{release.major}.{release.minor}")
        if str(release) in loaded.recipe.patches:
            loaded = release_of(loaded, str(release))
    except RecipeError:
        return None
    recipe = loaded.recipe
    if recipe.release != str(release):
        return None
    return next((item.version for item in recipe.components.values() if item.dist == dist), None)
