"""From a model folder to the object that answers text, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.checkpoint.atomic import locate
from regard.checkpoint.card import Card, model_card
from regard.checkpoint.convert.marian import ForeignTranslator, is_marian, read_marian, write_marian
from regard.checkpoint.folder import (
    CARD,
    CONFIG,
    load_into,
    model_files,
    own_tensors,
    read_config,
    read_model,
    steadily,
    write_model,
)
from regard.config import from_dict, to_dict
from regard.errors import FolderError, UsageError
from regard.generation.search import SearchConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translate import (
    NAME,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    TOKENIZER,
    Translator,
    Vocabularies,
    check_fit,
)
from regard.text.tokenizer import Tokenizer


def load_translator(path: Path, config: Mapping[str, Any]) -> Translator:
    """A translator from a folder of regard's or of Marian's, whose config has been read already."""
    if is_marian(config):
        return from_foreign(read_marian(path))
    _check_ours(path, config)
    folder, vocabularies = steadily(path, lambda path: (read_model(path), read_vocabularies(path)))
    config = folder.config
    try:
        shape = from_dict(TransformerConfig, config["model"])
        search = from_dict(SearchConfig, config.get("search", {}))
    except UsageError as error:
        raise _unusable(path, str(error)) from None
    except KeyError as error:
        raise _unusable(path, f"{error} is missing.") from None
    except (TypeError, AttributeError) as error:
        raise _unusable(path, f"a value is of the wrong type ({error}).") from None
    model = Transformer(shape)
    load_into(model, folder.tensors)
    check_fit(model, vocabularies)
    return Translator(
        model,
        vocabularies,
        search=search,
        start_id=config.get("start_id"),
        forbidden_ids=config.get("forbidden_ids", ()),
    )


def read_tokenizers(path: Path, config: Mapping[str, Any]) -> Vocabularies:
    """The tokenizers alone. Those of Marian's are only known together with the rest of its folder."""
    if is_marian(config):
        foreign = read_marian(path)
        return Vocabularies(foreign.source_tokenizer, foreign.target_tokenizer)
    _check_ours(path, config)
    return steadily(path, read_vocabularies)


def import_folder(path: Path, out: Path, *, force: bool = False) -> Translator:
    """Read a foreign folder and write it as one of regard's."""
    _check_apart(path, out, "an import")
    config = read_config(path)
    if not is_marian(config):
        known = "marian"
        raise FolderError(f"{path} has model_type {config.get('model_type')!r}; what can be imported: {known}.")
    translator = from_foreign(read_marian(path))
    card = Card(
        title=out.name,
        summary=f"Translates sentences: text of one language in, text of the other out. Read from the Marian folder "
        f"{path.name}, which tells what it was trained on.",
        task=NAME,
        num_parameters=sum(param.numel() for param in translator.model.parameters()),
        settings={**to_dict(translator.model.config), **to_dict(translator.search)},
        command=f'regard translate {out} "…"\nregard look {out} "…" --out look.html',
        python=f'import regard\n\ntranslator = regard.load("{out.as_posix()}")\ntranslator("…").text',
        pipeline="translation",
    )
    contents = translator.contents()
    texts = {**contents.texts, CARD: model_card(card)}
    write_model(out, config=contents.config, tensors=own_tensors(translator.model), texts=texts, force=force)
    return translator


def export_folder(path: Path, out: Path, *, force: bool = False) -> Sequence[str]:
    """Write a translator as a Marian folder, which `transformers` loads; returns what it became, and what was lost."""
    _check_apart(path, out, "an export")
    translator = load_translator(path, read_config(path))
    search = translator.search
    notes = write_marian(
        out,
        config=translator.model.config,
        tensors=own_tensors(translator.model),
        source_tokenizer=translator.vocabularies.source,
        target_tokenizer=translator.vocabularies.target,
        start_id=translator.start_id,
        generation={
            "beams": search.beams,
            "length_penalty": search.length_penalty,
            "max_new_tokens": search.max_new_tokens,
            "never": translator.forbidden_ids,
        },
        force=force,
    )
    return ["MarianMTModel for transformers", *notes]


def from_foreign(foreign: ForeignTranslator) -> Translator:
    model = Transformer(foreign.config)
    load_into(model, foreign.tensors)
    known = ("beams", "length_penalty", "max_new_tokens")
    search = {name: foreign.generation[name] for name in known if foreign.generation.get(name) is not None}
    vocabularies = Vocabularies(foreign.source_tokenizer, foreign.target_tokenizer)
    return Translator(
        model,
        vocabularies,
        search=SearchConfig(**search),
        start_id=foreign.start_id,
        forbidden_ids=foreign.generation.get("never", ()),
    )


def _check_apart(path: Path, out: Path, what: str) -> None:
    if out.exists() and out.resolve() == path.resolve():
        raise UsageError(f"{what} would replace the model in {path} itself: choose another --out.")


def _unusable(path: Path, what: str) -> FolderError:
    return FolderError(f"{path / CONFIG} cannot be used: {what} Correct it, or take the folder from where it came.")


def _check_ours(path: Path, config: Mapping[str, Any]) -> None:
    ours = config.get("regard")
    if not isinstance(ours, dict) or ours.get("task") != NAME:
        kind = config.get("model_type", "unknown")
        raise FolderError(f"{path} holds a model of type {kind!r}; regard reads its own folders and marian's.")


def read_vocabularies(path: Path) -> Vocabularies:
    files = model_files(path, TOKENIZER, SOURCE_TOKENIZER, TARGET_TOKENIZER)
    if TOKENIZER in files:
        joint = Tokenizer.load(files[TOKENIZER])
        return Vocabularies(joint, joint)
    return Vocabularies(*(Tokenizer.load(locate(path, name)) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)))
