"""Choose settings for this machine automatically, each with a reason."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from regard.utils.errors import UsageError, unknown

DEVICES = ("cpu", "cuda", "mps")

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST = 2**31 - 1
HUGE_BLOCK = 1 << 30  # blocks of 1 GiB or more are still returned to the system
PAD = 64 << 20


class Decision(NamedTuple):
    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value} ({self.why})"


def choose_device(device: str) -> Decision:
    """Check that a device can be used; `auto` selects an accelerator if there is one, otherwise the CPU."""
    if device != "auto" and (device.partition(":")[0] not in DEVICES or device.startswith("cpu:")):
        raise unknown("device", device, ("auto", *DEVICES))
    if device == "cpu":
        return Decision("device", device, "set by --device")
    import torch

    if device == "auto":
        if torch.cuda.is_available():
            return Decision("device", "cuda", f"found {torch.cuda.get_device_name()}")
        if torch.backends.mps.is_available():
            return Decision("device", "mps", "found Apple's GPU")
        return Decision("device", "cpu", "no accelerator found")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--device {device} is not available on this machine: {reason}. Use --device cpu or --device auto.",
            argument="device",
            value=device,
        ) from None
    return Decision("device", device, "set by --device")


def choose_threads() -> Decision:
    """Return the number of threads that torch uses."""
    import torch

    is_set = "OMP_NUM_THREADS" in os.environ
    why = "set by OMP_NUM_THREADS" if is_set else "set by torch; change it with OMP_NUM_THREADS"
    return Decision("threads", str(torch.get_num_threads()), why)


def choose_decoder() -> Decision:
    """Choose the backend for generation: the compiled kernels if they run on this machine, otherwise torch."""
    if find_spec("numba") is None:
        return Decision("decoding", "torch", "numba is not installed, so there are no compiled kernels")
    from regard.generation.backend import VARIABLE, kernel_error

    if os.environ.get(VARIABLE) == "torch":
        return Decision("decoding", "torch", f"set by {VARIABLE}")
    error = kernel_error()
    if error is not None:
        return Decision("decoding", "torch", f"the compiled kernels do not run on this machine: {error}")
    from regard.generation.compiled.intrinsics import HAS_AVX2

    instructions = "with AVX2 for int4" if HAS_AVX2 else "without AVX2, so int4 is slower"
    return Decision("decoding", "compiled kernels", f"numba {version('numba')}, {instructions}; torch for short tasks")


def keep_freed_memory() -> Decision:
    """Configure glibc to keep freed memory.

    A training step allocates and frees the same large tensors each time. glibc returns such blocks to the system, which
    must clear all their pages again: for small models this took a tenth to a third of the time. In return, the memory
    use of the process stays at its peak.
    """
    if platform.libc_ver()[0] != "glibc":
        return Decision("memory", "system default", "freed memory can only be kept with glibc")
    libc = ctypes.CDLL(None)
    settings = ((M_MMAP_THRESHOLD, HUGE_BLOCK), (M_TRIM_THRESHOLD, LARGEST), (M_TOP_PAD, PAD))
    if not all(libc.mallopt(name, value) for name, value in settings):
        return Decision("memory", "system default", "glibc rejected the settings")
    return Decision("memory", "freed blocks are kept", "returning memory to the system at each step is slow")


def survey() -> list[Decision]:
    """Return everything that `regard doctor` shows about this machine."""
    import torch

    from regard.views.view import find_browser

    python = f"{platform.python_implementation()} {platform.python_version()}"
    browser = find_browser()
    free = shutil.disk_usage(".").free / 1e9
    return [
        Decision("python", python, f"on {platform.system()} {platform.machine()}, {sys.executable}"),
        Decision("regard", version("regard"), f"torch {torch.__version__}, tokenizers {version('tokenizers')}"),
        choose_device("auto"),
        Decision("cores", str(os.cpu_count()), "reported by the operating system"),
        choose_threads(),
        Decision("vectors", torch.backends.cpu.get_cpu_capability(), "the widest instruction set that torch uses here"),
        Decision("precision", "fp32", "training on a CPU is exactly reproducible"),
        Decision("compile", "off", "results of eager kernels do not depend on earlier input shapes"),
        choose_decoder(),
        Decision("pictures", "html, svg, png" if browser else "html, svg", browser or "no Chromium or Chrome for png"),
        Decision("disk", f"{free:.0f} GB free", "in this folder"),
    ]
