"""The few public verbs. They tie the rooms together; each imports what it needs when it is called."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError, unknown

if TYPE_CHECKING:
    from regard.metrics.translation import Score
    from regard.tasks.translate import Translator
    from regard.views.view import View

TASKS = ("translate",)
PathLike = str | Path


def train(
    task: str,
    data: PathLike | Sequence[PathLike] | None = None,
    *,
    out: PathLike | None = None,
    validation: PathLike | Sequence[PathLike] | None = None,
    progress: bool = False,
    **settings: Any,
) -> Translator:
    """Train a model for `task` and return the object that answers text.

    `data` is a table, or two line-aligned files; without it the built-in world is used. `settings` are those of
    `regard train <task> --help`: `minutes`, `steps`, `size`, `recipe`, `seed`, `width` … Without `out` the run
    folder is a temporary one.
    """
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    from regard.training.progress import Silent, for_terminal
    from regard.training.runs import train_translation

    own = ("columns", "reverse", "skip_bad_rows", "size", "recipe", "device", "save_every", "resume", "force")
    asked = {name: settings.pop(name) for name in own if name in settings}
    shown = for_terminal() if progress else Silent()
    try:
        run = train_translation(
            _paths(data),
            Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="regard-")),
            validation=_paths(validation),
            progress=shown,
            settings=settings,
            **asked,
        )
    finally:
        shown.close()
    return run.translator


def load(folder: PathLike) -> Translator:
    """The model in a folder: one of regard's, or a Marian folder as `transformers` writes it."""
    from regard.checkpoint.folder import read_config
    from regard.tasks import folders

    path = Path(folder)
    config = read_config(path)
    return folders.load_translator(path, config)


def look(model: Translator, text: str, *, target: str | None = None, steps: bool | str = False) -> View:
    """What a model attends to while it translates `text`: a page to show, save or serve.

    With `target` the model reads that translation instead of its own. With `steps` the page shows how one attention
    is computed, in five steps: that at the given address (`decoder.2.cross`), or the encoder's first for True.
    """
    if steps is not False:
        from regard.inspection.steps import translation_steps
        from regard.views.steps import steps_view

        address = None if steps is True else steps
        return steps_view(translation_steps(model, text, target=target, address=address), title=text)
    from regard.views.attention import attention_view
    from regard.views.traces import last_cross, trace_maps

    output = model(text) if target is None else target
    maps = trace_maps(model.trace(text, output))
    return attention_view(maps, title=text, note=f"→ {output}", initial=last_cross(maps))


def evaluate(
    model: Translator,
    data: PathLike | Sequence[PathLike],
    *,
    columns: tuple[str, str] | None = None,
    reverse: bool = False,
    skip_bad_rows: bool = False,
    progress: bool = False,
    **search: Any,
) -> list[Score]:
    """BLEU and chrF of a translator on pairs from files, read as `train` reads them, with their signatures.

    With `progress`, rows that are left out are listed on stderr.
    """
    from regard.data.pairs import read_pairs
    from regard.metrics.translation import bleu, chrf

    paths = _paths(data)
    if not paths:
        raise UsageError("evaluate needs a file of pairs.")
    reading = read_pairs(paths, columns=columns, skip_bad_rows=skip_bad_rows)
    if progress and reading.bad:
        from regard.training.progress import Lines
        from regard.training.runs import skipped_rows

        Lines().say("\n".join(skipped_rows(reading.bad)))
    pairs = [pair.reversed() for pair in reading.pairs] if reverse else reading.pairs
    outputs = [translation.text for translation in model([pair.source for pair in pairs], **search)]
    references = [pair.target for pair in pairs]
    return [bleu(outputs, references), chrf(outputs, references)]


def _paths(given: PathLike | Sequence[PathLike] | None) -> list[Path] | None:
    if given is None:
        return None
    return [Path(given)] if isinstance(given, str | Path) else [Path(path) for path in given]
