"""Choices that are made for the user, each with its reason."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

from regard.utils.errors import UsageError, unknown

DEVICES = ("cpu", "cuda", "mps")

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST = 2**31 - 1
HUGE_BLOCK = 1 << 30  # blocks from 1 GB on still go back to the system
PAD = 64 << 20


@dataclass(frozen=True)
class Decision:
    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value} ({self.why})"


def choose_device(asked: str) -> Decision:
    """Where the tensors live. `auto` takes an accelerator if there is one."""
    if asked != "auto" and (asked.partition(":")[0] not in DEVICES or asked.startswith("cpu:")):
        raise unknown("device", asked, ("auto", *DEVICES))
    if asked == "cpu":
        return Decision("device", asked, "asked for")
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return Decision("device", "cuda", f"found {torch.cuda.get_device_name()}")
        if torch.backends.mps.is_available():
            return Decision("device", "mps", "found Apple's GPU")
        return Decision("device", "cpu", "no accelerator found")
    try:
        torch.empty(1, device=asked)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--device {asked} cannot be used here: {reason}. Try --device cpu or auto.", argument="device", value=asked
        ) from None
    return Decision("device", asked, "asked for")


def choose_compile() -> Decision:
    """Whether `torch.compile` is used."""
    return Decision("compile", "off", "eager kernels give the same numbers whatever shapes came before")


def choose_threads() -> Decision:
    """How many threads compute."""
    import torch

    asked = "OMP_NUM_THREADS" in os.environ
    why = "set by OMP_NUM_THREADS" if asked else "chosen by torch; OMP_NUM_THREADS sets another number"
    return Decision("threads", str(torch.get_num_threads()), why)


def choose_decoder() -> Decision:
    """The backend that generates token by token: the compiled kernels, where they run."""
    if find_spec("numba") is None:
        return Decision("decoding", "torch", "numba is not installed, so there are no compiled kernels")
    from regard.generation.backend import VARIABLE, kernel_error

    if os.environ.get(VARIABLE) == "torch":
        return Decision("decoding", "torch", f"set by {VARIABLE}")
    why = kernel_error()
    if why is not None:
        return Decision("decoding", "torch", f"the compiled kernels do not run here: {why}")
    from regard.generation.compiled.intrinsics import HAS_AVX2

    instructions = "with AVX2 for 4 bits" if HAS_AVX2 else "without AVX2, so 4 bits are slower"
    return Decision("decoding", "compiled kernels", f"numba {version('numba')}, {instructions}; torch for short work")


def keep_freed_memory() -> Decision:
    """Let the allocator keep freed memory, where it is that of glibc.

    A training step allocates and frees the same large tensors each time. glibc returns such blocks to the system, which
    must clear every page of them again: that took the small models measured here a tenth to a third of their time. The
    process stays as large as its largest step.
    """
    if platform.libc_ver()[0] != "glibc":
        return Decision("memory", "system default", "keeping freed memory is known for glibc only")
    libc = ctypes.CDLL(None)
    settings = ((M_MMAP_THRESHOLD, HUGE_BLOCK), (M_TRIM_THRESHOLD, LARGEST), (M_TOP_PAD, PAD))
    if not all(libc.mallopt(name, value) for name, value in settings):
        return Decision("memory", "system default", "the allocator refused the settings")
    return Decision("memory", "freed blocks are kept", "clearing them again at each step would cost time")


def survey() -> list[Decision]:
    """What was found on this machine and what follows from it."""
    import torch

    python = f"{platform.python_implementation()} {platform.python_version()}"
    from regard.views.view import find_browser

    browser = find_browser()
    free = shutil.disk_usage(".").free / 1e9
    return [
        Decision("python", python, f"on {platform.system()} {platform.machine()}, {sys.executable}"),
        Decision("regard", version("regard"), f"torch {torch.__version__}, tokenizers {version('tokenizers')}"),
        choose_device("auto"),
        Decision("cores", str(os.cpu_count()), "as the operating system counts them"),
        choose_threads(),
        Decision("vectors", torch.backends.cpu.get_cpu_capability(), "the widest instructions torch uses here"),
        Decision("precision", "fp32", "trains exactly and repeatably on a CPU"),
        choose_compile(),
        choose_decoder(),
        Decision("pictures", "html, svg, png" if browser else "html, svg", browser or "no Chromium or Chrome for png"),
        Decision("disk", f"{free:.0f} GB free", "in this folder"),
    ]
