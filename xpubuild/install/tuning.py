"""The variables that tell a build how fast to be, and not what to make. Pure."""

from __future__ import annotations

#: How build tools are told the number of jobs: setup.py and torch's extensions, and ``cmake --build``.
JOBS_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
#: Tells of a jobserver instead.
JOBSERVER_VARIABLE = "MAKEFLAGS"
#: Names the file that the launcher reads; without it every compiler starts at once.
VARIABLE = "XPUBUILD_ADMIT"


def jobs_environment(jobs: int) -> dict[str, str]:
    """Return the environment that gives a build its number of jobs."""
    return dict.fromkeys(JOBS_VARIABLES, str(jobs))
