"""The quickstart as the tortured plan: it takes minutes, and packages from the network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.ordeal.world import World

_IMPORTS = ("import torch, xpubuild_ops; print(bool(torch.__version__))", "True")
_KEPT = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE",
         "REQUESTS_CA_BUNDLE", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_CACHE_DIR", "NETRC")  # fmt: skip
#: What is done to it.
KINDS = ("kill", "power", "signal")


@dataclass
class Quickstart(World):
    """The quickstart in the place of the small plan, whose servers it does not use."""

    def environment(self, place: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command: pip is configured as it is for the caller."""
        home = Path.home()
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        for path in (home / ".config/pip/pip.conf", home / ".pip/pip.conf"):
            if path.is_file():
                kept.setdefault("PIP_CONFIG_FILE", str(path))
        kept.setdefault("PIP_CACHE_DIR", str(home / ".cache/pip"))
        made = super().environment(place)
        for name in {"PIP_CONFIG_FILE", "PIP_INDEX_URL"} - kept.keys():
            del made[name]
        return {**made, **kept, **(more or {})}


def quickstart(small: World) -> Quickstart:
    return Quickstart(
        small.folder, small.recipe, small.git, small.index, small.commit, small.wheel,
        install=("install", "quickstart"), imports=_IMPORTS, megabytes=6000,
    )  # fmt: skip
