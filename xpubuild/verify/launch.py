"""What starts the ranks of ``verify --nodes N`` on the nodes of a job, and the variables that it needs."""

from __future__ import annotations

from collections.abc import Mapping

from xpubuild.errors import UsageError

#: Variable of a job -> how its batch system starts ranks. Of Slurm: https://slurm.schedmd.com/srun.html, with
#: --overcommit, since a job may have fewer cores than ranks. Of PBS, what MPI brings:
#: https://docs.alcf.anl.gov/aurora/running-jobs-aurora
LAUNCHERS = {
    "SLURM_JOB_ID": "srun --nodes={nodes} --ntasks={ranks} --ntasks-per-node={ppn} --overcommit"
    " --kill-on-bad-exit",
    "PBS_JOBID": "mpiexec -n {ranks} -ppn {ppn}",
}
#: What launchers, MPI, libfabric and gloo read.
_READ = ("SLURM_", "PBS_", "PALS_", "PMI", "MPI", "HYDRA_", "FI_", "GLOO_", "MASTER_ADDR", "LD_LIBRARY_PATH")


def launched(nodes: float | None, launcher: str | None, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the check ``distributed.nodes``; none where it is not asked for.

    Raises:
        UsageError: there are no two nodes, the launcher has an unknown placeholder, or this is no job.
    """
    if nodes is None:
        return {}
    if nodes < 2 or nodes != int(nodes):  # noqa: PLR2004
        raise UsageError(f"--nodes cannot be {nodes:g}", fix="use a whole number, 2 or more")
    found = launcher or next((text for name, text in LAUNCHERS.items() if name in caller), "")
    if not found:
        raise UsageError(
            "--nodes needs a job of a batch system",
            why=f"none of {', '.join(LAUNCHERS)} is set",
            fix="run it in a job of Slurm or PBS, or say with --launcher what starts ranks on other nodes",
        )
    try:
        found.format(nodes=1, ranks=1, ppn=1)
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(
            f"--launcher cannot be '{found}'", why=f"{error} is no placeholder",
            fix="use {nodes}, {ppn} (ranks on each node) and {ranks}",
        ) from error  # fmt: skip
    return {"nodes": str(int(nodes)), "launcher": found}


def of_the_job(caller: Mapping[str, str]) -> dict[str, str]:
    """Return what the launcher and the ranks need of the caller's environment."""
    return {name: value for name, value in caller.items() if name.startswith(_READ)}
