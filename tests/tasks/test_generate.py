"""Language models: options that conflict, scores of long texts, evaluation, and the loss of a training on samples."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.data.corpus import Ids
from regard.generation.decoder import TorchGPTDecoder
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.tasks.generate import objective as module
from regard.tasks.generate.objective import GenerateObjective
from regard.tasks.generate.predictor import TextGenerator, score_text
from regard.tasks.generate.spec import GenerateConfig
from regard.tasks.score.predictor import TextScorer
from regard.tasks.suggest.predictor import Suggester
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, UsageError

TEXT = "abcdefgh ijklm " * 40
TOKENIZER = train_tokenizer([TEXT], kind="char", vocab_size=100)
SMALL: dict[str, Any] = dict(num_layers=1, d_model=8, d_ff=8, num_heads=2, head_dim=4)


def make_generator(
    *, context: int = 16, tokenizer: Tokenizer = TOKENIZER, std: float = 0.1, **shape: Any
) -> TextGenerator:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, context_length=context, **SMALL | shape))
    for param in model.parameters():
        torch.nn.init.normal_(param, std=std)
    return TextGenerator(model, tokenizer)


# --- Options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (dict(num_beams=2, num_return_sequences=3), "num_return_sequences"),
        (dict(num_beams=2, top_k=3), "top_k"),
        (dict(num_beams=2, seed=1), "seed"),
        (dict(num_beams=2, lookup=True), "lookup"),
        (dict(lookup=True, num_return_sequences=2), "lookup"),
        (dict(length_penalty=2.0), "length_penalty"),
        (dict(num_beams=0, min_new_tokens=3), "min_new_tokens"),
        (dict(stop=("x", "")), "stop"),
        (dict(top_p=0), "top_p"),
    ],
)
def test_conflicting_options_are_refused(options: dict[str, Any], argument: str) -> None:
    generator = make_generator()
    for call in (lambda: GenerateConfig(**options), lambda: generator("abc", **options)):
        with pytest.raises(UsageError) as error:
            call()
        assert error.value.argument == argument


def test_sampling_options_of_a_folder_do_not_conflict_with_beams() -> None:
    kept = GenerateConfig(temperature=0.5, top_k=3, seed=1)
    assert kept.replace(num_beams=4).search().num_beams == 4
    assert GenerateConfig(**kept.replace(num_beams=4).to_dict()).num_beams == 4
    assert GenerateConfig(stop="end").stop == ("end",)


def test_only_one_sampled_text_can_be_streamed() -> None:
    generator = make_generator()
    assert generator.can_stream(GenerateConfig())
    for options, argument in ((dict(num_beams=2), "num_beams"), (dict(num_return_sequences=2), "num_return_sequences")):
        assert not generator.can_stream(GenerateConfig(**options))
        with pytest.raises(UsageError) as error:
            list(generator.stream("abc", **options))
        assert error.value.argument == argument


def test_several_sequences_of_several_prompts() -> None:
    generator = make_generator()
    options: dict[str, Any] = dict(temperature=1.0, seed=4, max_new_tokens=9)
    found = generator(["abc", "jkl"], num_return_sequences=2, **options)
    alone = generator(["abc", "abc", "jkl", "jkl"], **options)
    assert [g.text for result in found for g in (result, *result.alternatives)] == [g.text for g in alone]
    assert [result.prompt for result in found] == ["abc", "jkl"]
    assert generator([]) == []


# --- Generation ---------------------------------------------------------------------------------------------


def test_a_text_that_reached_a_stop_costs_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, prompts = make_generator(), ["abc", "jkl", "m a"]
    settings: dict[str, Any] = dict(temperature=1.0, seed=4, max_new_tokens=30)
    plain = [result.text for result in generator(prompts, **settings)]
    stop = plain[0][2]
    rows: list[int] = []
    step = TorchGPTDecoder.step
    monkeypatch.setenv("REGARD_BACKEND", "torch")
    monkeypatch.setattr(TorchGPTDecoder, "step", lambda self, ids: rows.append(len(ids)) or step(self, ids))
    found = generator(prompts, stop=stop, **settings)
    assert [result.text for result in found] == [text.partition(stop)[0] for text in plain]
    assert found[0].tokens[-1] == stop, "the token with the stop string is among the tokens"
    lengths = [len(result.tokens) for result in found]
    assert len(set(lengths)) == 3, "some continue after others have stopped"
    assert rows == [sum(length > count for length in lengths) for count in range(1, max(lengths))]


# --- Scores -------------------------------------------------------------------------------------------------


def sliding_windows(model: GPT, ids: list[int]) -> list[float]:
    context, start = model.config.context_length, 0
    found: list[float] = []
    while len(found) < len(ids) - 1:
        window = torch.tensor([ids[start : start + context + 1]])
        with torch.no_grad():
            log_probs = model(window[:, :-1]).log_softmax(-1).gather(-1, window[:, 1:, None])[0, :, 0]
        found += log_probs.tolist()[len(found) - start :]
        start += max(1, context // 2)
    return found


@pytest.mark.parametrize("context", [1, 2, 7, 8, 50])
def test_a_score_equals_that_of_sliding_windows(context: int) -> None:
    generator = make_generator(context=context, std=0.3, num_layers=2, d_model=16, d_ff=32, head_dim=8)
    for length in (2, 3, context + 1, context + 2, 2 * context + 1, 101, 600):
        found = score_text(generator.model, TOKENIZER, TEXT[:length])
        expected = sliding_windows(generator.model, TOKENIZER.encode(TEXT[:length]))
        assert list(found.log_probs) == pytest.approx(expected, abs=1e-5)
        assert len(found.tokens) == found.num_tokens == length - 1


def test_evaluating_a_language_model_gives_perplexity_and_bits_per_byte(tmp_path: Path) -> None:
    generator = make_generator(std=0.3)
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    perplexity, bits = regard.evaluate(generator, path)
    score = TextScorer.adapt(generator)(TEXT)  # type: ignore[misc]
    assert (perplexity.name, bits.name) == ("perplexity", "bits per byte")
    assert perplexity.value == pytest.approx(score.perplexity)
    assert bits.value == pytest.approx(score.bits_per_byte)
    # Each line of a .jsonl is a document: nothing before it is seen, and its first token is not scored.
    lines = tmp_path / "texts.jsonl"
    lines.write_text('{"text": "abcd"}\n{"text": "a"}\n{"text": "ijk l"}\n', encoding="utf-8")
    parts = [score_text(generator.model, TOKENIZER, text) for text in ("abcd", "ijk l")]
    nats = -math.fsum(value for part in parts for value in part.log_probs)
    perplexity, bits = regard.evaluate(generator, lines)
    assert perplexity.value == pytest.approx(math.exp(nats / 7))
    assert bits.value == pytest.approx(nats / math.log(2) / 7)
    lines.write_text('{"text": "a"}\n', encoding="utf-8")
    with pytest.raises(DataError):
        regard.evaluate(generator, lines)


def test_a_text_of_one_token_has_no_score() -> None:
    with pytest.raises(UsageError) as error:
        score_text(make_generator().model, TOKENIZER, "a")
    assert error.value.argument == "inputs"


def test_other_tasks_use_the_same_model() -> None:
    generator = make_generator()
    for task in (Suggester, TextScorer):
        other = task.adapt(generator)
        assert other is not None
        assert other.model is generator.model
        back = TextGenerator.adapt(other)
        assert back is not None and back.model is generator.model


# --- Training -----------------------------------------------------------------------------------------------


def make_objective(generator: TextGenerator, ids: Ids) -> GenerateObjective:
    return GenerateObjective(generator, ids, ids)


def test_bytes_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "äbcdefgh ijklm " * 40
    tokenizer = train_tokenizer([text], kind="char", vocab_size=100)
    ids = tokenizer.encode_array(text)
    objective = make_objective(make_generator(context=9, tokenizer=tokenizer), ids)
    monkeypatch.setattr(module, "COUNTED_TOKENS", 64)
    longest, decode = 0, tokenizer.decode

    def watched(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return decode(ids)

    monkeypatch.setattr(tokenizer, "decode", watched)
    perplexity, bits = objective.evaluate()[0]
    assert longest <= 64
    assert bits.value == pytest.approx(math.log2(perplexity.value) * len(ids) / len(text.encode()))


@pytest.mark.parametrize(
    ("max_tokens", "apart"), [(None, 1), (10**6, 1), (84, 1), (83, 2), (42, 2), (41, 3), (7, 12), (1, 84)]
)
def test_the_loss_of_a_sample_is_that_of_windows_at_even_distances(max_tokens: int | None, apart: int) -> None:
    generator = make_generator(context=7, std=0.3)
    ids = TOKENIZER.encode_array(TEXT)
    objective = make_objective(generator, ids)
    windows = torch.from_numpy(ids[: 12 * 7].astype("int64")).view(12, 7)[::apart]
    following = torch.from_numpy(ids[1 : 12 * 7 + 1].astype("int64")).view(12, 7)[::apart]
    expected = F.cross_entropy(generator.model(windows).flatten(0, 1), following.flatten())
    assert objective.text_loss(ids[: 12 * 7 + 1], max_tokens=max_tokens) == pytest.approx(expected.item(), abs=1e-5)


@pytest.mark.parametrize(("window", "argument"), [(17, "window"), (None, "context_length")])
def test_windows_must_fit_context_and_text(window: int | None, argument: str) -> None:
    ids = TOKENIZER.encode_array(TEXT[:16])
    with pytest.raises((UsageError, DataError)) as error:
        GenerateObjective(make_generator(), ids, ids, window=window)
    assert error.value.argument == argument


def test_validation_targets_are_those_of_the_sampled_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.generate.objective.EVAL_TOKENS", 40)
    learner = make_objective(make_generator(context=8), TOKENIZER.encode_array(TEXT))
    counted = []
    monkeypatch.setattr(learner, "_loss", lambda ids, targets: (counted.append(targets.numel()), torch.tensor(0.0))[1])
    learner.validation_loss()
    assert learner.num_validation_targets == sum(counted) <= 40


def test_the_repr_of_a_score_shows_its_perplexity() -> None:
    generator = make_generator()
    score = score_text(generator.model, TOKENIZER, TEXT)
    assert repr(score).startswith(f"TextScore(perplexity={score.perplexity:.4g}, ")
    assert repr(generator("a", max_new_tokens=2)).count("None") == 0
