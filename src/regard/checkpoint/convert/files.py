"""The small files of a folder that `transformers` writes: settings in JSON, and the tokenizer with its symbols."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regard.checkpoint.folder import ModelFolder
from regard.errors import FolderError
from regard.text.tokenizer import Tokenizer

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"


def read_json(folder: ModelFolder, name: str) -> dict[str, Any]:
    """The settings in a file; none if there is no such file."""
    values = read_json_value(folder, name)
    return values if isinstance(values, dict) else {}


def read_json_value(folder: ModelFolder, name: str) -> Any:
    if not (folder.path / name).is_file():
        return None
    try:
        return json.loads(folder.text(name))
    except (ValueError, RecursionError) as problem:
        raise FolderError(f"{folder.path}: {name} is not JSON ({problem}). Copy or download it again.") from None


def json_text(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def has(folder: ModelFolder, name: str) -> bool:
    return (folder.path / name).is_file() or name in (folder.manifest.files if folder.manifest else ())


def symbol(value: Any) -> str | None:
    """The name of a symbol as tokenizer_config.json gives it: plain, or with its properties."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def token_of(tokenizer: Tokenizer, number: Any) -> str | None:
    """The token of an id, or of the first of several, if there is such an id."""
    if isinstance(number, list):
        number = number[0] if number else None
    if not isinstance(number, int) or not 0 <= number < tokenizer.vocab_size:
        return None
    return tokenizer.tokens([number])[0]


def tokenizer_config(context: int, symbols: Mapping[str, str | None], *, segments: bool = False) -> dict[str, Any]:
    """What `AutoTokenizer` asks for beside tokenizer.json; with `segments` it tells two texts apart by numbers."""
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return {
        **({"model_input_names": inputs} if segments else {}),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        **{name: value for name, value in symbols.items() if value is not None},
    }
