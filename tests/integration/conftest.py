"""Fixtures that several modules of this folder share."""

from __future__ import annotations

from integration.torch_env import ops_site, torch_env
from integration.verify_support import target

__all__ = ["ops_site", "target", "torch_env"]
