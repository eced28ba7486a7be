"""Functions of programs that run with a limit of private memory."""

LIMITED = """
import contextlib, json, os, resource, sys


@contextlib.contextmanager
def limited(megabytes):
    # Private writable memory is limited. Mapped files, which the system may drop at any time, do not count.
    with open("/proc/self/status") as file:
        used = next(int(line.split()[1]) for line in file if line.startswith("VmData")) << 10
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (used + (megabytes << 20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def outcome(work, megabytes):
    try:
        with limited(megabytes):
            work()
        return "ok"
    except (MemoryError, RuntimeError) as error:  # torch raises RuntimeError
        return "memory" if isinstance(error, MemoryError) or "memory" in str(error) else repr(error)
"""
"""Source of ``limited(megabytes)`` and ``outcome(work, megabytes)``, which returns "ok", "memory" or the error."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
"""Environment of such a program. Freed arrays are given back at once, so that a later one cannot use their memory beyond the limit."""
