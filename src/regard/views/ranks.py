"""The singular values of value matrices and the loss by rank → a View with two charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture, draw_chart
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
        for name, values in (("spectra", self.spectra), ("losses", self.losses)):
            if not values:
                raise UsageError(f"a view of ranks needs {name}; there are none.", argument=name)
        for address, spectrum in self.spectra.items():
            if np.ndim(spectrum) != 2 or not np.isfinite(spectrum).all():
                message = f"the spectrum of {address!r} must be finite numbers of shape (heads, head_dim)."
                raise UsageError(message, argument="spectra", value=np.shape(spectrum))

    @property
    def parameter_counts(self) -> dict[str, int]:
        """Parameters of a head's value matrix: as one matrix, and as two factors."""
        return {"full": self.d_model**2, "factored": 2 * self.d_model * self.head_dim}

    def numbers(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "head_dim": self.head_dim,
            "parameters_of_a_head": self.parameter_counts,
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
    counts, d_model, head_dim = ranks.parameter_counts, ranks.d_model, ranks.head_dim
    highest = max(max(by_head) for by_head in ranks.ranks.values())
    explanation = (
        f"A head's value matrix is {d_model} × {d_model}, the product of {d_model} × {head_dim} (W^V) and "
        f"{head_dim} × {d_model} (W^O): {counts['factored']:,} numbers instead of {counts['full']:,}, and a rank of "
        f"at most {head_dim}. The highest rank here is {highest}."
    )
    losses = {
        "title": "loss with all value matrices truncated to a rank",
        "series": [{"name": "loss", "points": [[rank, loss] for rank, loss in sorted(ranks.losses.items())]}],
    }
    spectra = [_spectrum(address, spectrum) for address, spectrum in ranks.spectra.items()]
    data = {"spectra": spectra, "losses": losses}
    return View("ranks", data, title, _draw, ranks.lines(), ranks.numbers, note or explanation)


def _spectrum(address: str, spectrum: npt.NDArray[Any]) -> dict[str, Any]:
    series = [
        {"name": f"head {head}", "points": [[rank, float(value)] for rank, value in enumerate(values, 1)]}
        for head, values in enumerate(spectrum)
    ]
    return {"address": address, "title": f"singular values of W^V · W^O, {address}", "series": series}


def _draw(data: dict[str, Any]) -> Picture:
    picture = Picture(900, 400, data["title"])
    picture.heading(28)
    for number, sentence in enumerate(data["note"].split(": ", 1)):
        picture.text(28, 62 + 16 * number, sentence, size=12, fill=MUTED)
    for x, chart in ((28, data["spectra"][0]), (478, data["losses"])):
        draw_chart(picture, chart, x, 96, 394, 270)
        picture.text(x + 394, 384, "rank", size=11, fill=MUTED, anchor="end")
    return picture
