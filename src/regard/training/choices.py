"""Choices that are made for the user, each with its reason."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

from regard.errors import UsageError, unknown
from regard.views.view import find_browser

DEVICES = ("cpu", "cuda", "mps")


@dataclass(frozen=True)
class Choice:
    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value} ({self.why})"


def choose_device(asked: str) -> Choice:
    """Where the tensors live. `auto` takes an accelerator if there is one."""
    if asked != "auto" and (asked.partition(":")[0] not in DEVICES or asked.startswith("cpu:")):
        raise unknown("device", asked, ("auto", *DEVICES))
    if asked == "cpu":
        return Choice("device", asked, "asked for")
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return Choice("device", "cuda", f"found {torch.cuda.get_device_name()}")
        if torch.backends.mps.is_available():
            return Choice("device", "mps", "found Apple's GPU")
        return Choice("device", "cpu", "no accelerator found")
    try:
        torch.empty(1, device=asked)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"--device {asked} cannot be used here: {reason}. Try --device cpu or auto.") from None
    return Choice("device", asked, "asked for")


def choose_compile() -> Choice:
    """Whether `torch.compile` is used."""
    return Choice("compile", "off", "eager kernels give the same numbers whatever shapes came before")


def choose_threads() -> Choice:
    """How many threads compute."""
    import torch

    asked = "OMP_NUM_THREADS" in os.environ
    why = "as OMP_NUM_THREADS says" if asked else "torch's choice; OMP_NUM_THREADS sets another number"
    return Choice("threads", str(torch.get_num_threads()), why)


def choose_decoder() -> Choice:
    """Who writes token after token: the compiled kernels, where they run."""
    if find_spec("numba") is None:
        return Choice("writing", "torch", "numba is not installed, so there are no compiled kernels")
    from regard.generation.backend import VARIABLE, trouble

    if os.environ.get(VARIABLE) == "torch":
        return Choice("writing", "torch", f"as {VARIABLE} says")
    why = trouble()
    if why is not None:
        return Choice("writing", "torch", f"the compiled kernels do not run here: {why}")
    from regard.generation.intrinsics import HAS_AVX2

    instructions = "with AVX2 for 4 bits" if HAS_AVX2 else "without AVX2, so 4 bits are slower"
    return Choice("writing", "compiled kernels", f"numba {version('numba')}, {instructions}; torch for short work")


def survey() -> list[Choice]:
    """What was found on this machine and what follows from it."""
    import torch

    python = f"{platform.python_implementation()} {platform.python_version()}"
    browser = find_browser()
    free = shutil.disk_usage(".").free / 1e9
    return [
        Choice("python", python, f"on {platform.system()} {platform.machine()}, {sys.executable}"),
        Choice("regard", version("regard"), f"torch {torch.__version__}, tokenizers {version('tokenizers')}"),
        choose_device("auto"),
        Choice("cores", str(os.cpu_count()), "as the operating system counts them"),
        choose_threads(),
        Choice("vectors", torch.backends.cpu.get_cpu_capability(), "the widest instructions torch uses here"),
        Choice("precision", "fp32", "trains exactly and repeatably on a CPU"),
        choose_compile(),
        choose_decoder(),
        Choice("pictures", "html, svg, png" if browser else "html, svg", browser or "no Chromium or Chrome for png"),
        Choice("disk", f"{free:.0f} GB free", "in this folder"),
    ]
