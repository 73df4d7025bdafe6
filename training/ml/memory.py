"""Memory of a training process: how much it took, and keeping the allocator from giving back what it needs again."""

import ctypes
import resource
import sys

import torch

# glibc's mallopt: blocks up to this size come from the heap, and the heap's end is not given back below the next
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
KEPT = 2**30  # bytes; a training step frees and takes tens of MB again and again


def reuse_freed_memory() -> None:
    """Let large tensors reuse freed memory: else each step has the kernel clear fresh pages (a tenth of the time).

    Does nothing where the C library is not glibc.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def peak_memory_mb() -> float:
    """The most memory held so far: the accelerator's, or this process's."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, KiB on Linux
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
