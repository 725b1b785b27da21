"""The tokenizers of a translator: a joint one for both languages, or one for each. Does not import torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from regard.data.pairs import Pair
from regard.tasks.data import new_tokenizer
from regard.tasks.translate.spec import TranslateTraining
from regard.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.checkpoint.folder import ModelFolder

TOKENIZER = "tokenizer.json"
SOURCE_TOKENIZER = "tokenizer.source.json"
TARGET_TOKENIZER = "tokenizer.target.json"


class TokenizerPair(NamedTuple):
    """The tokenizers of both sides; a joint one is the same object twice."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @classmethod
    def train(cls, pairs: Sequence[Pair], config: TranslateTraining) -> Self:
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        texts = [sources, targets] if config.separate_vocabularies else [sources + targets]
        found = [new_tokenizer(side, kind=config.tokenizer, vocab_size=config.vocab_size) for side in texts]
        return cls(found[0], found[-1])

    @classmethod
    def load(cls, folder: ModelFolder) -> Self:
        if folder.has_text(SOURCE_TOKENIZER):
            return cls(folder.tokenizer(SOURCE_TOKENIZER), folder.tokenizer(TARGET_TOKENIZER))
        joint = folder.tokenizer(TOKENIZER)
        return cls(joint, joint)

    def files(self) -> dict[str, str]:
        """The files of a model folder."""
        if self.joint:
            return {TOKENIZER: self.source.to_json()}
        return {SOURCE_TOKENIZER: self.source.to_json(), TARGET_TOKENIZER: self.target.to_json()}

    def model_settings(self) -> dict[str, int | None]:
        """Settings of a model that fits these vocabularies."""
        source = None if self.joint else self.source.vocab_size
        return {"vocab_size": self.target.vocab_size, "source_vocab_size": source}
