"""The base environment of every command: built from an allow-list, not inherited.

PyTorch's CMake enables features that it happens to find (``CPATH``, ``CMAKE_PREFIX_PATH``, compiler flags of
a module system). So a build only gets variables that the plan sets, and those that the machine needs to reach
the network and to find its programs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

#: The variable that names the file where a child xpubuild leaves its error document.
ERROR_FILE = "XPUBUILD_ERROR_FILE"
_EXACT = frozenset({
    "HOME", "USER", "LOGNAME", "PATH", "TMPDIR", "TZ", "TERM", "SSH_AUTH_SOCK", "KRB5CCNAME",
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
    # Which devices a batch system gave this job: what is run on them must not take others.
    "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR", "CUDA_VISIBLE_DEVICES",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NETRC",
})  # fmt: skip
_PREFIXES = ("PIP_", "XDG_", "GIT_CONFIG_", "CCACHE_")
# These would let pip or git do something other than what the plan shows.
_NEVER = frozenset({
    "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN",
    "PIP_NO_DEPS", "PIP_CONSTRAINT", "PIP_EDITABLE", "PIP_REQUIREMENT",
    # pip hands these on to the backend that builds a wheel.
    "PIP_CONFIG_SETTINGS", "PIP_GLOBAL_OPTION", "PIP_BUILD_OPTION",
})  # fmt: skip


def usable_path(path: str) -> tuple[str, tuple[str, ...]]:
    """Return a PATH without the elements that depend on the current folder, and these.

    ``.``, an empty element and ``bin`` would run a program that an unpacked archive or somebody else has put
    into the folder where xpubuild is called, under the name of a compiler or of git.
    """
    elements = path.split(os.pathsep) if path else []
    kept = [element for element in elements if os.path.isabs(element)]  # noqa: PTH117 - text, not a path yet
    ignored = tuple(element for element in elements if element not in kept)
    return (os.pathsep.join(kept) or os.defpath if ignored else path), ignored


def base_environment(caller: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the allow-listed part of the caller's environment, with a fixed locale.

    Messages are matched by gates and by the explainer, hence ``LC_ALL=C.UTF-8``.
    """
    source = os.environ if caller is None else caller
    allowed = (name for name in source if name in _EXACT or name.startswith(_PREFIXES))
    kept = {name: source[name] for name in allowed if name not in _NEVER}
    kept["PATH"], _ = usable_path(kept.get("PATH", os.defpath))
    kept["LC_ALL"] = "C.UTF-8"
    kept["PYTHONUNBUFFERED"] = "1"
    kept["PYTHONNOUSERSITE"] = "1"
    return kept
