"""Types of the public functions. A task that is named by a literal gives the class of its predictor."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from regard.inspection.senses import senses as senses
from regard.metrics.score import Scores
from regard.nn.hooks import capture as capture
from regard.nn.hooks import edit as edit
from regard.nn.quantized import Precision
from regard.spec import Architecture, TaskSpec
from regard.tasks.answer.predictor import QuestionAnswerer
from regard.tasks.base import Notify, Predictor
from regard.tasks.choose.predictor import MultipleChoice
from regard.tasks.classify.predictor import Classifier
from regard.tasks.embed.predictor import Embedder
from regard.tasks.fill.predictor import MaskFiller
from regard.tasks.generate.predictor import TextGenerator
from regard.tasks.pair.predictor import PairClassifier
from regard.tasks.score.predictor import TextScorer
from regard.tasks.suggest.predictor import Suggester
from regard.tasks.tag.predictor import Tagger
from regard.tasks.translate.predictor import Translator
from regard.training.plan import Plan
from regard.views.view import View

__version__: str

PathLike = str | Path
Files = PathLike | Sequence[PathLike] | None

@overload
def train(
    task: Literal["translate"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> Translator: ...
@overload
def train(
    task: Literal["generate"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> TextGenerator: ...
@overload
def train(
    task: Literal["fill"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> MaskFiller: ...
@overload
def train(
    task: Literal["classify"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> Classifier: ...
@overload
def train(
    task: Literal["pair"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> PairClassifier: ...
@overload
def train(
    task: Literal["choose"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> MultipleChoice: ...
@overload
def train(
    task: Literal["tag"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> Tagger: ...
@overload
def train(
    task: Literal["answer"],
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> QuestionAnswerer: ...
@overload
def train(
    task: str,
    data: Files = ...,
    *,
    out: PathLike | None = ...,
    validation: Files = ...,
    progress: bool = ...,
    **settings: Any,
) -> Predictor[Any]: ...
@overload
def load(folder: PathLike, *, task: Literal["translate"], precision: Precision = ...) -> Translator: ...
@overload
def load(folder: PathLike, *, task: Literal["generate"], precision: Precision = ...) -> TextGenerator: ...
@overload
def load(folder: PathLike, *, task: Literal["fill"], precision: Precision = ...) -> MaskFiller: ...
@overload
def load(folder: PathLike, *, task: Literal["classify"], precision: Precision = ...) -> Classifier: ...
@overload
def load(folder: PathLike, *, task: Literal["pair"], precision: Precision = ...) -> PairClassifier: ...
@overload
def load(folder: PathLike, *, task: Literal["choose"], precision: Precision = ...) -> MultipleChoice: ...
@overload
def load(folder: PathLike, *, task: Literal["tag"], precision: Precision = ...) -> Tagger: ...
@overload
def load(folder: PathLike, *, task: Literal["answer"], precision: Precision = ...) -> QuestionAnswerer: ...
@overload
def load(folder: PathLike, *, task: Literal["embed"], precision: Precision = ...) -> Embedder: ...
@overload
def load(folder: PathLike, *, task: Literal["suggest"], precision: Precision = ...) -> Suggester: ...
@overload
def load(folder: PathLike, *, task: Literal["score"], precision: Precision = ...) -> TextScorer: ...
@overload
def load(folder: PathLike, *, task: str | None = ..., precision: Precision = ...) -> Predictor[Any]: ...
def predict(model: Predictor[Any] | PathLike, *inputs: Any, notify: Notify | None = ..., **options: Any) -> Any: ...
def evaluate(
    model: Predictor[Any] | PathLike,
    data: PathLike | Sequence[PathLike],
    *,
    notify: Notify | None = ...,
    **options: Any,
) -> Scores: ...
def look(model: Predictor[Any] | PathLike, *inputs: Any, view: str | None = ..., **options: Any) -> View: ...
def views_of(model: Predictor[Any] | PathLike) -> dict[str, str]: ...
def import_model(folder: PathLike, out: PathLike, *, force: bool = ...) -> Predictor[Any]: ...
def export_model(folder: PathLike, out: PathLike, *, force: bool = ...) -> list[str]: ...
def plan(
    preset: str,
    *,
    model: str | None = ...,
    vocab_size: int | None = ...,
    recipe: str | None = ...,
    batch_tokens: int = ...,
) -> Plan: ...
def tasks() -> Mapping[str, TaskSpec]: ...
def models() -> Mapping[str, Architecture]: ...
