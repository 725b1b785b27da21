"""Read plain text for pretraining an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.corpus import Corpus
from regard.data.documents import Documents, read_documents
from regard.data.files import ReadResult
from regard.data.pretraining import longest_sentence
from regard.tasks.corpus import MAX_VALIDATION_TOKENS, CorpusReader
from regard.tasks.encoder.config import ROW_TOKENS


class FillReader(CorpusReader):
    """Reads text as documents of sentences."""

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Documents]:
        """Return the test text as one `Documents` object, tokenized for the predictor."""
        longest, limit = longest_sentence(min(ROW_TOKENS, predictor.model.config.context_length)), MAX_VALIDATION_TOKENS
        documents = read_documents(Corpus.find(data), predictor.tokenizer, longest=longest)
        remarks = []
        if len(documents.ids) > limit:
            remarks.append(f"scored on the last {limit:,} of {len(documents.ids):,} tokens")
            documents = documents.split(fraction=limit / len(documents.ids), max_tokens=limit)[1]
        return ReadResult([documents], remarks=remarks)
