"""The singular values of value matrices and the loss by rank → a View with two charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture
from regard.views.report import draw_chart
from regard.views.view import View


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Singular values of each head's W^V · W^O at every attention, and the loss after truncating them."""

    d_model: int  # D: the full matrix is D × D
    head_dim: int  # Dh: the rank is Dh at most
    spectra: Mapping[str, npt.NDArray[Any]]  # address → (H, Dh), the largest first
    ranks: Mapping[str, Sequence[int]]  # address → the rank of each head's product
    losses: Mapping[int, float]  # rank → loss of the text, or of its translation

    def __post_init__(self) -> None:
        if not self.spectra or not self.losses:
            raise UsageError("a view of ranks needs the spectrum of at least one attention and at least one loss.")
        for address, spectrum in self.spectra.items():
            if np.ndim(spectrum) != 2 or not np.isfinite(spectrum).all():
                raise UsageError(f"the spectrum of {address!r} must be finite numbers of shape (heads, head width).")

    @property
    def counts(self) -> dict[str, int]:
        """Parameters of a head's value matrix: as one matrix, and as two factors."""
        return {"full": self.d_model**2, "factored": 2 * self.d_model * self.head_dim}

    def numbers(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "head_dim": self.head_dim,
            "parameters_of_a_head": self.counts,
            "attentions": [
                {"address": address, "ranks": list(self.ranks[address]), "singular_values": spectrum.tolist()}
                for address, spectrum in self.spectra.items()
            ],
            "losses": [{"rank": rank, "loss": loss} for rank, loss in self.losses.items()],
        }

    def lines(self) -> list[str]:
        """The loss by rank as text."""
        return [f"rank {rank:>4}  loss {loss:.4f}" for rank, loss in self.losses.items()]


def ranks_view(ranks: Ranks, *, title: str, note: str = "") -> View:
    """A view of the spectra, one attention at a time, and of the loss by rank."""
    data = {
        "title": title,
        "note": note or _note(ranks),
        "spectra": [_spectrum(ranks, address) for address in ranks.spectra],
        "losses": _losses(ranks),
    }
    return View("ranks", data, title, partial(_draw, ranks, title))


def _note(ranks: Ranks) -> str:
    counts, d_model, head_dim = ranks.counts, ranks.d_model, ranks.head_dim
    highest = max(rank for found in ranks.ranks.values() for rank in found)
    return (
        f"A head's value matrix is {d_model} × {d_model}, the product of {d_model} × {head_dim} (W^V) and "
        f"{head_dim} × {d_model} (W^O): {counts['factored']:,} numbers instead of {counts['full']:,}, and a rank of "
        f"at most {head_dim}. The highest rank here is {highest}."
    )


def _spectrum(ranks: Ranks, address: str) -> dict[str, Any]:
    series = [
        {"name": f"head {head}", "points": [[place + 1, float(value)] for place, value in enumerate(values)]}
        for head, values in enumerate(ranks.spectra[address])
    ]
    return {"address": address, "title": f"singular values of W^V · W^O, {address}", "series": series}


def _losses(ranks: Ranks) -> dict[str, Any]:
    points = [[rank, loss] for rank, loss in sorted(ranks.losses.items())]
    return {
        "title": "loss with all value matrices truncated to a rank",
        "series": [{"name": "loss", "points": points}],
    }


def _draw(ranks: Ranks, title: str) -> Picture:
    picture = Picture(900, 400, title)
    picture.text(28, 40, title, size=18, weight=600)
    half = _note(ranks).split(": ", 1)
    picture.text(28, 62, f"{half[0]}:", size=12, fill=MUTED)
    picture.text(28, 78, half[1], size=12, fill=MUTED)
    for chart, x in ((_spectrum(ranks, next(iter(ranks.spectra))), 28), (_losses(ranks), 478)):
        draw_chart(picture, chart, x, 96, 394, 270)
    for x in (422, 872):
        picture.text(x, 384, "rank", size=11, fill=MUTED, anchor="end")
    return picture
