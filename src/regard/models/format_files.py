"""Read and write the JSON settings and the tokenizer of a Hugging Face folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from regard.models.formats import Content, Folder
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.config import from_dict, to_dict
from regard.utils.errors import FolderError

TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
GENERATION_CONFIG = "generation_config.json"


def read_json(folder: Folder, name: str) -> dict[str, Any]:
    """Return the JSON object in a file; empty if the file is missing or holds another value."""
    values = read_json_value(folder, name)
    return values if isinstance(values, dict) else {}


def read_json_value(folder: Folder, name: str) -> Any:
    if not folder.has_text(name):
        return None
    try:
        return json.loads(folder.text(name))
    except (ValueError, RecursionError) as problem:
        raise FolderError(f"{folder.path}: {name} is not valid JSON ({problem}). Copy or download it again.") from None


def json_text(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def token_name(value: Any) -> str | None:
    """Return a special token of tokenizer_config.json, where it is a string or an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def token_of(tokenizer: Tokenizer, number: Any) -> str | None:
    """Return the token with this id, or with the first id of a list; None if no token has that id."""
    if isinstance(number, list):
        number = number[0] if number else None
    if not isinstance(number, int) or not 0 <= number < tokenizer.vocab_size:
        return None
    return tokenizer.tokens([number])[0]


def tokenizer_config(
    max_length: int, special_tokens: Mapping[str, str | None], *, token_types: bool = False
) -> dict[str, Any]:
    """Return a tokenizer_config.json for `AutoTokenizer`. With `token_types`, the tokenizer returns token type ids."""
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return {
        **({"model_input_names": inputs} if token_types else {}),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **{name: value for name, value in special_tokens.items() if value is not None},
    }


def special_token_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the special tokens in the form in which the config.json of a regard folder stores them."""
    return to_dict(tokenizer.special_tokens)


def tokenizer_of(content: Content, name: str = TOKENIZER) -> Tokenizer:
    """Load a tokenizer from the content of a regard folder, with its special tokens."""
    from pathlib import Path

    tokenizer = Tokenizer.from_json(str(content.texts[name]), Path(name))
    special_tokens = content.config.get("special_tokens")
    if special_tokens is None:
        return tokenizer
    return tokenizer.with_special_tokens(from_dict(SpecialTokens, special_tokens))


def replace_special_tokens(tokenizer: Tokenizer, **names: Any) -> Tokenizer:
    """Return the same tokenizer with some special tokens replaced."""
    return tokenizer.with_special_tokens(dataclasses.replace(tokenizer.special_tokens, **names))
