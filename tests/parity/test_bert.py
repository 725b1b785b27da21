"""BERT compared with `transformers`: the same hidden states and logits for every head, after import and export.

Also compares all-MiniLM-L6-v2 with sentence-transformers if both are installed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from tokenizers.processors import BertProcessing

import regard
from regard.cli.main import main
from regard.data.labelled import MultipleChoiceExample
from regard.data.squad import Question
from regard.nn.hooks import observe
from regard.tasks.answer.objective import AnswerObjective
from regard.tasks.answer.predictor import QuestionAnswerer
from regard.tasks.base import Splits
from regard.tasks.choose.objective import ChooseObjective
from regard.tasks.choose.predictor import MultipleChoice
from regard.tasks.classify.predictor import Classifier
from regard.tasks.embed.predictor import Embedder
from regard.tasks.encoder.objective import EncoderInit
from regard.tasks.fill.predictor import MaskFiller
from regard.tasks.tag.predictor import Tagger
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.training.run import TrainRequest
from regard.utils.errors import FolderError, UsageError

transformers = pytest.importorskip("transformers")

TEXT = "To be, or not to be, that is the question: whether it is nobler in the mind to suffer."
OTHER = "The slings and arrows of outrageous fortune."
BERT_SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
TOKENIZER = train_tokenizer([TEXT, OTHER] * 3, kind="wordpiece", vocab_size=97, special_tokens=BERT_SPECIAL_TOKENS)
SHAPE: dict[str, Any] = dict(
    vocab_size=TOKENIZER.vocab_size,
    hidden_size=22,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=31,
    max_position_embeddings=61,
)
LABELS = {0: "bad", 1: "so-so", 2: "good"}
NAMED = dict(id2label=LABELS, label2id={label: i for i, label in LABELS.items()})

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "encoder": ("BertModel", {}),
    "encoder-relu": ("BertModel", {"hidden_act": "relu", "type_vocab_size": 3, "layer_norm_eps": 1e-5}),
    "mlm": ("BertForMaskedLM", {}),
    "pretraining": ("BertForPreTraining", {"hidden_act": "gelu_new"}),
    "nsp": ("BertForNextSentencePrediction", {}),
    "single-label": ("BertForSequenceClassification", NAMED | {"problem_type": "single_label_classification"}),
    "multi-label": ("BertForSequenceClassification", NAMED | {"problem_type": "multi_label_classification"}),
    "regression": ("BertForSequenceClassification", {"num_labels": 1, "problem_type": "regression"}),
    "token-classification": ("BertForTokenClassification", NAMED | {"classifier_dropout": 0.3}),
    "question-answering": ("BertForQuestionAnswering", {}),
    "multiple-choice": ("BertForMultipleChoice", {}),
}


def make(name: str) -> Any:
    torch.manual_seed(1)
    class_name, settings = MODELS[name]
    model = getattr(transformers, class_name)(transformers.BertConfig(**SHAPE | settings)).eval()
    with torch.no_grad():
        for param in model.parameters():
            param.normal_(mean=float(param.dim() == 1), std=0.3)
    return model


def save(model: Any, folder: Path, **settings: Any) -> Path:
    model.save_pretrained(folder, **settings)
    (folder / "tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    return folder


def their_tokenizer(folder: Path) -> Any:
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", unk_token="[UNK]",
    )  # fmt: skip
    fast._tokenizer.post_processor = BertProcessing(("[SEP]", TOKENIZER.end_id), ("[CLS]", TOKENIZER.start_id))
    return fast


@pytest.fixture(scope="module", params=list(MODELS))
def theirs(request: pytest.FixtureRequest) -> Any:
    return make(request.param)


@pytest.fixture
def folder(theirs: Any, tmp_path: Path) -> Path:
    return save(theirs, tmp_path / "theirs")


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, lengths and token types of a pair of texts and of a shorter single text."""
    start, end = TOKENIZER.start_id, TOKENIZER.end_id
    first, second = TOKENIZER.encode(TEXT)[:20], TOKENIZER.encode(OTHER)[:11]
    rows = [[start, *first, end, *second, end], [start, *second, end]]
    longest = len(rows[0])
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    segments = torch.zeros_like(ids)
    segments[0, len(first) + 2 :] = 1
    return ids, torch.tensor([len(row) for row in rows]), segments


def their_outputs(model: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Hidden states before the first and after every block, and the outputs of the head."""
    ids, lengths, segments = inputs()
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    if type(model).__name__ == "BertForMultipleChoice":  # takes several rows per example; here one
        ids, mask, segments = ids[:, None], mask[:, None], segments[:, None]
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True)
    if hasattr(out, "prediction_logits"):
        answers = [out.prediction_logits, out.seq_relationship_logits]
    elif hasattr(out, "start_logits"):
        answers = [torch.stack((out.start_logits, out.end_logits), dim=-1)]
    else:
        answers = [out.logits if hasattr(out, "logits") else out.last_hidden_state]
    return list(out.hidden_states), answers


def our_outputs(model: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    addresses = ["embedding", *(f"encoder.{i}" for i in range(model.config.num_layers))]
    with torch.no_grad(), observe(model, *addresses) as seen:
        out = model(*inputs())
    parts = [out] if isinstance(out, torch.Tensor) else [part for part in out if part is not None]
    return [seen[address] for address in addresses], parts


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare within 1e-5 of the largest absolute value. Padding is ignored."""
    assert found.shape == expected.shape
    if found.dim() == 3:
        lengths = inputs()[1]
        real = torch.arange(found.shape[1]) < lengths[:, None]
        found, expected = found[real], expected[real]
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_m151_the_same_hidden_states_and_logits(theirs: Any, folder: Path) -> None:
    ours = regard.load(folder).model
    for theirs_part, our_part in zip(their_outputs(theirs), our_outputs(ours), strict=True):
        assert len(theirs_part) == len(our_part)
        for expected, found in zip(theirs_part, our_part, strict=True):
            assert_near(found, expected)


def test_m158_windows_and_losses_equal_those_of_transformers(tmp_path: Path) -> None:
    """Their tokenizer makes the same windows, and their model has the same loss in each."""
    theirs = make("question-answering")
    model: Any = regard.load(save(theirs, tmp_path / "theirs"))
    model.max_seq_len = 24
    where = TEXT.index("the question")
    asked = [Question("1", "what is it", TEXT, ((where, "the question"),))]
    request = TrainRequest.parse("answer", {"max_seq_len": 24, "stride": 7}, out=tmp_path / "out")
    task = AnswerObjective(EncoderInit(model.model, model.tokenizer, model.head, 24), request, Splits(asked, asked))
    fast = their_tokenizer(tmp_path / "theirs")
    cut = fast("what is it", TEXT, truncation="only_second", max_length=24, stride=7, return_overflowing_tokens=True,
               return_offsets_mapping=True, return_token_type_ids=True)  # fmt: skip
    assert [row.ids for row in task.train] == cut["input_ids"]
    assert len(task.train) > 2
    for number, (ids, kinds) in enumerate(zip(cut["input_ids"], cut["token_type_ids"], strict=True)):
        places = [
            n for n, (span, kind) in enumerate(zip(cut["offset_mapping"][number], kinds, strict=True))
            if kind == 1 and span[1] > span[0] and where <= span[0] < where + len("the question")
        ]  # fmt: skip
        whole = "".join(TEXT[slice(*cut["offset_mapping"][number][n])] for n in places) == "thequestion"
        begin, end = (places[0], places[-1]) if whole else (0, 0)
        out = theirs(
            input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([kinds]),
            start_positions=torch.tensor([begin]), end_positions=torch.tensor([end]),
        )  # fmt: skip
        assert task.loss([number]).train.item() == pytest.approx(out.loss.item(), rel=1e-5)


def test_the_pooler_is_imported(tmp_path: Path) -> None:
    theirs = make("encoder")
    ours = regard.load(save(theirs, tmp_path / "theirs")).bert
    ids, lengths, segments = inputs()
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask, token_type_ids=segments).pooler_output
        assert_near(ours.pool(ours(ids, lengths, segments)), expected)


def test_import_and_export_restore_the_model(theirs: Any, folder: Path, tmp_path: Path) -> None:
    assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    settings = json.loads((tmp_path / "back" / "config.json").read_text(encoding="utf-8"))
    assert settings["architectures"] == [type(theirs).__name__]
    back, report = type(theirs).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for name in ("id2label", "num_labels", "problem_type", "classifier_dropout", "hidden_act", "layer_norm_eps"):
        if name != "problem_type" or "Sequence" in type(theirs).__name__:
            assert getattr(back.config, name) == getattr(theirs.config, name), name
    expected, found = theirs.state_dict(), back.state_dict()
    assert list(expected) == list(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    for before, after in zip(their_outputs(theirs)[1], their_outputs(back.eval())[1], strict=True):
        assert_near(after, before)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    ids, lengths, _ = inputs()
    alone = TOKENIZER.decode(ids[1, 1 : int(lengths[1]) - 1].tolist())
    assert tokenizer(alone)["input_ids"] == ids[1, : int(lengths[1])].tolist()
    pair = tokenizer(TEXT, OTHER)
    first, second = TOKENIZER.encode(TEXT), TOKENIZER.encode(OTHER)
    assert pair["input_ids"] == [TOKENIZER.start_id, *first, TOKENIZER.end_id, *second, TOKENIZER.end_id]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


@pytest.mark.parametrize(
    ("name", "kind", "labels", "answers"),
    [
        ("encoder", "none", (), "single_label_classification"),
        ("mlm", "mlm", (), "single_label_classification"),
        ("nsp", "nsp", (), "single_label_classification"),
        ("pretraining", "pretraining", (), "single_label_classification"),
        ("single-label", "sequence_classification", ("bad", "so-so", "good"), "single_label_classification"),
        ("multi-label", "sequence_classification", ("bad", "so-so", "good"), "multi_label_classification"),
        ("regression", "sequence_classification", ("LABEL_0",), "regression"),
        ("token-classification", "token_classification", ("bad", "so-so", "good"), "single_label_classification"),
        ("question-answering", "question_answering", (), "single_label_classification"),
        ("multiple-choice", "multiple_choice", (), "single_label_classification"),
    ],
)
def test_head_config_of_an_imported_folder(name: str, kind: str, labels: Any, answers: str, tmp_path: Path) -> None:
    head = regard.load(save(make(name), tmp_path / "theirs")).head
    assert (head.kind, head.labels, head.problem_type) == (kind, labels, answers)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("encoder", Embedder),
        ("mlm", MaskFiller),
        ("nsp", Embedder),
        ("single-label", Classifier),
        ("multi-label", Classifier),
        ("regression", Classifier),
        ("token-classification", Tagger),
        ("question-answering", QuestionAnswerer),
        ("multiple-choice", MultipleChoice),
    ],
)
def test_predictor_class_of_an_imported_folder(name: str, kind: type, tmp_path: Path) -> None:
    folder = save(make(name), tmp_path / "theirs")
    assert type(regard.load(folder)) is kind
    assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    assert type(regard.load(tmp_path / "ours")) is kind


def test_sequence_classification_accepts_texts_and_pairs(tmp_path: Path) -> None:
    """The folder does not say if it was trained on texts or pairs, so both work, also after an import."""
    theirs = make("single-label")
    folder = save(theirs, tmp_path / "theirs")
    assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    ids, lengths, _ = inputs()
    row = ids[:1, : int(lengths[0])]
    first, second = TOKENIZER.decode(row[0, 1:21].tolist()), TOKENIZER.decode(row[0, 22:-1].tolist())
    with torch.no_grad():
        logits = theirs(input_ids=row, token_type_ids=(torch.arange(row.shape[1]) > 21).long()[None]).logits
    for path in (folder, tmp_path / "ours"):
        model = regard.load(path)
        assert isinstance(model, Classifier)
        judge = regard.load(path, task="pair")
        found = judge(first, second).scores
        assert list(found.values()) == pytest.approx(logits.softmax(-1)[0].tolist(), rel=1e-4)
        assert regard.load(path, task="classify")(TEXT) == model(TEXT)
        for predictor in (model, judge):
            with pytest.raises(UsageError):
                predictor([TEXT, (first, second)])


def test_m154_multiple_choice_equals_transformers(tmp_path: Path) -> None:
    """Probabilities and training loss are the same."""
    theirs = make("multiple-choice")
    multiple_choice = regard.load(save(theirs, tmp_path / "theirs"))
    assert isinstance(multiple_choice, MultipleChoice)
    endings = ("to suffer the slings", OTHER, "that is it")
    tokenizer = their_tokenizer(tmp_path / "theirs")
    rows = tokenizer([TEXT] * 3, list(endings), padding=True, return_token_type_ids=True, return_tensors="pt")
    with torch.no_grad():
        out = theirs(**{name: part[None] for name, part in rows.items()}, labels=torch.tensor([2]))
    found = multiple_choice(TEXT, endings)
    assert list(found.scores) == pytest.approx(out.logits.softmax(-1)[0].tolist(), rel=1e-4)
    assert found.choice_index == int(out.logits.argmax())
    choice = MultipleChoiceExample(TEXT, endings, 2)
    request = TrainRequest.parse("choose", {"max_seq_len": 61}, out=tmp_path / "out")
    init = EncoderInit(multiple_choice.model, multiple_choice.tokenizer, multiple_choice.head, 61)
    task = ChooseObjective(init, request, Splits([choice], [choice]))
    assert task.loss([0]).train.item() == pytest.approx(out.loss.item(), rel=1e-4)


def test_m154_imported_folders_are_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The columns of the file decide if sequence classification runs on texts or pairs."""
    folder = save(make("single-label"), tmp_path / "theirs")
    files = {
        "texts.tsv": "sentence\tlabel\nto be\tgood\nnot to be\tbad\nto suffer\tgood\n",
        "pairs.tsv": "sentence1\tsentence2\tlabel\nto be\tor not\tgood\nnot\tto be\tbad\n",
        "strange.csv": "q,r,label\nto be,or not,good\nnot,to be,bad\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    model = regard.load(folder)
    assert isinstance(model, Classifier)
    right = [model("to be").label == "good", model("not to be").label == "bad", model("to suffer").label == "good"]
    assert regard.evaluate(model, tmp_path / "texts.tsv")[0].value == pytest.approx(100 * sum(right) / 3)
    judge = regard.load(folder, task="pair")
    right = [judge("to be", "or not").label == "good", judge("not", "to be").label == "bad"]
    assert regard.evaluate(judge, tmp_path / "pairs.tsv")[0].value == 50 * sum(right)
    columns = ["--first-column", "q", "--second-column", "r"]
    assert main(["evaluate", str(folder), str(tmp_path / "strange.csv"), "--task", "pair", *columns]) == 0
    assert f"accuracy {50 * sum(right):.2f} (n:2)" in capsys.readouterr().out
    numbers = regard.load(save(make("regression"), tmp_path / "number"), task="pair")
    (tmp_path / "sts.tsv").write_text("first\tsecond\tscore\nto be\tor not\t1.5\nnot\tto be\t3\n", encoding="utf-8")
    names = [one.name for one in regard.evaluate(numbers, tmp_path / "sts.tsv")]  # type: ignore[arg-type]
    assert names == ["Pearson", "Spearman", "Pearson of word overlap", "Spearman of word overlap"]
    (tmp_path / "tags.conll").write_text("to\tgood\nbe\tbad\n", encoding="utf-8")
    tagger = regard.load(save(make("token-classification"), tmp_path / "tokens"))
    assert "accuracy" in {one.name for one in regard.evaluate(tagger, tmp_path / "tags.conll")}  # type: ignore[arg-type]


def change(folder: Path, **changes: Any) -> None:
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    changed = {name: value for name, value in (settings | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(changed), encoding="utf-8")


def test_a_missing_problem_type_follows_from_the_number_of_labels(tmp_path: Path) -> None:
    folder = save(make("regression"), tmp_path / "number")
    change(folder, problem_type=None)
    assert regard.load(folder).head.problem_type == "regression"
    folder = save(make("single-label"), tmp_path / "label")
    change(folder, problem_type=None)
    assert regard.load(folder).head.problem_type == "single_label_classification"


def test_sharded_weights_are_read(tmp_path: Path) -> None:
    theirs = make("pretraining")
    folder = save(theirs, tmp_path / "theirs", max_shard_size="9KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    for expected, found in zip(their_outputs(theirs)[1], our_outputs(regard.load(folder).model)[1], strict=True):
        assert_near(found, expected)


def test_tensor_names_of_old_files_are_converted(tmp_path: Path) -> None:
    """The first BERT files have gamma and beta, a duplicate table, and heads that the config does not name."""
    theirs = make("pretraining")
    folder = save(theirs, tmp_path / "theirs")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(61)[None]
    old["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = old.pop("cls.predictions.bias").clone()
    safetensors.torch.save_file(old, folder / "model.safetensors")
    change(folder, architectures=["BertForMaskedLM"])
    embedder = regard.load(folder)
    assert embedder.head.kind == "pretraining"
    for expected, found in zip(their_outputs(theirs)[1], our_outputs(embedder.model)[1], strict=True):
        assert_near(found, expected)


def test_an_unused_pooler_is_not_imported(tmp_path: Path) -> None:
    theirs = make("question-answering")
    folder = save(theirs, tmp_path / "theirs")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors |= {"bert.pooler.dense.weight": torch.zeros(22, 22), "bert.pooler.dense.bias": torch.zeros(22)}
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    assert_near(our_outputs(regard.load(folder).model)[1][0], their_outputs(theirs)[1][0])


def test_an_encoder_without_a_pooler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    theirs = transformers.BertModel(transformers.BertConfig(**SHAPE), add_pooling_layer=False).eval()
    embedder = regard.load(save(theirs, tmp_path / "theirs"))
    assert not embedder.bert.config.pooler
    assert_near(our_outputs(embedder.model)[1][0], their_outputs(theirs)[1][0])
    assert main(["export", str(tmp_path / "theirs"), "--out", str(tmp_path / "back")]) == 0
    assert "pooler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "changes", "argument", "value"),
    [
        ("encoder", {"position_embedding_type": "relative_key"}, "position_embedding_type", "relative_key"),
        ("encoder", {"is_decoder": True, "hidden_act": "tanh"}, "is_decoder", True),
        ("encoder", {"hidden_act": "tanh"}, "hidden_act", "tanh"),
        ("encoder", {"num_attention_heads": 3}, "num_attention_heads", 3),
        ("encoder", {"architectures": ["BertLMHeadModel"]}, "architectures", "BertLMHeadModel"),
        ("encoder", {"hidden_size": None}, "hidden_size", None),
        ("encoder", {"vocab_size": "30522"}, "vocab_size", "30522"),
        ("encoder", {"num_attention_heads": 0}, "num_attention_heads", 0),
        ("encoder", {"hidden_dropout_prob": "much"}, "hidden_dropout_prob", "much"),
        ("single-label", {"id2label": {"first": "a"}}, "id2label", "first"),
        ("single-label", {"problem_type": "poetry"}, "problem_type", "poetry"),
    ],
)
def test_unsupported_and_invalid_settings(
    name: str, changes: dict[str, Any], argument: str, value: Any, tmp_path: Path
) -> None:
    folder = save(make(name), tmp_path / "theirs")
    change(folder, **changes)
    with pytest.raises(FolderError) as caught:
        regard.load(folder)
    assert (caught.value.argument, caught.value.value) == (argument, value)
    assert caught.value.path == folder / "config.json"


@pytest.mark.parametrize(
    ("name", "changes", "reason", "tensor"),
    [
        ("encoder", {"num_hidden_layers": 2}, "surplus", "encoder.layer.2.output.dense.weight"),
        ("encoder", {"num_hidden_layers": 4}, "missing", "encoder.layer.3.output.dense.weight"),
        ("mlm", {"intermediate_size": 30}, "of another shape", "encoder.layer.0.intermediate.dense.weight"),
        ("question-answering", {"architectures": ["BertForTokenClassification"]}, "missing", "classifier.weight"),
        ("single-label", {"id2label": {"0": "a", "1": "b"}}, "of another shape", "classifier.weight"),
    ],
)
def test_tensors_that_do_not_fit_the_config(
    name: str, changes: dict[str, Any], reason: str, tensor: str, tmp_path: Path
) -> None:
    folder = save(make(name), tmp_path / "theirs")
    change(folder, **changes)
    with pytest.raises(FolderError) as caught:
        regard.load(folder)
    assert (caught.value.argument, caught.value.path) == ("tensors", folder)
    assert tensor in caught.value.value[reason]


def test_a_tokenizer_with_more_tokens_than_the_model_raises(tmp_path: Path) -> None:
    folder = save(make("encoder"), tmp_path / "theirs")
    change(folder, vocab_size=90)
    with pytest.raises(FolderError) as caught:
        regard.load(folder)
    assert caught.value.path == folder


@pytest.mark.parametrize(
    ("file", "content", "argument", "value"),
    [
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "type", "Dense"),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "pooling_mode", "lasttoken"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}, "pooling_mode", ["mean", "max"]),
    ],
)
def test_unsupported_sentence_transformers_modules(
    file: str, content: Any, argument: str, value: Any, tmp_path: Path
) -> None:
    folder = save(make("encoder"), tmp_path / "theirs")
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / file).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FolderError) as caught:
        regard.load(folder)
    assert (caught.value.argument, caught.value.value) == (argument, value)
    assert caught.value.path == folder / file


def test_pickled_weights_raise(tmp_path: Path) -> None:
    folder = save(make("encoder"), tmp_path / "theirs")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(FolderError) as caught:
        regard.load(folder)
    assert (caught.value.path, caught.value.value) == (folder, "pytorch_model.bin")


def test_a_folder_without_a_tokenizer_raises(tmp_path: Path) -> None:
    folder = save(make("encoder"), tmp_path / "theirs")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FolderError) as caught:
        regard.load(folder)
    assert (caught.value.argument, caught.value.path) == ("tokenizer", folder)
    assert caught.value.allowed == ("tokenizer.json", "vocab.txt")


def test_export_of_unsupported_settings_raises(tmp_path: Path) -> None:
    folder = save(make("encoder"), tmp_path / "theirs")
    assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    (tmp_path / "ours" / "regard-manifest.json").unlink()
    settings = json.loads((tmp_path / "ours" / "config.json").read_text(encoding="utf-8"))
    settings["model"] |= {"num_heads": 1, "num_heads_by_layer": {"encoder.0.self": 2}}
    tensors = safetensors.torch.load_file(tmp_path / "ours" / "model.safetensors")
    for name, tensor in tensors.items():
        if name.startswith("encoder.0."):
            continue  # this layer keeps its two heads
        if "qkv_proj" in name:
            tensors[name] = tensor[:33].contiguous()
        elif "self_attention.out_proj.weight" in name:
            tensors[name] = tensor[:, :11].contiguous()
    safetensors.torch.save_file(tensors, tmp_path / "ours" / "model.safetensors")
    (tmp_path / "ours" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        regard.export_model(tmp_path / "ours", tmp_path / "back")
    assert (caught.value.argument, caught.value.exit_code) == ("model", 2)
    assert caught.value.value == {"BertModel": ("num_heads_by_layer", "head_dim")}


# --- Real weights --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Path:
    return minilm_folder


SENTENCES = [
    "A man is eating food.",
    "A man is eating a token of bread.",
    "The girl is carrying a baby.",
    "Naïve café-goers — 42 of them! — said “hello”…",
    "東京 is a city. antidisestablishmentarianism zzzzqqq",
    "word " * 400,
    "",
]


def test_minilm_has_the_same_hidden_states(minilm: Path) -> None:
    theirs = transformers.BertModel.from_pretrained(minilm).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    embedder = regard.load(minilm)
    for text in SENTENCES[:5]:
        ids = tokenizer(text)["input_ids"]
        assert embedder.encode_input(text).ids == ids
        with torch.no_grad():
            expected = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for layer, states in enumerate(expected):
            found = torch.from_numpy(embedder.tokens(text, layer=layer).vectors)
            assert (found - states[0]).abs().max() <= 1e-5 * states.abs().max()


def test_m169_minilm_has_the_vectors_of_sentence_transformers(minilm: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.SentenceTransformer(str(minilm), device="cpu")
    embedder = regard.load(minilm)
    assert embedder.max_seq_len == theirs.max_seq_length == 256
    expected, found = theirs.encode(SENTENCES), embedder.embed(SENTENCES)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    one = embedder.embed(SENTENCES[0])
    assert np.abs(one - theirs.encode(SENTENCES[0])).max() <= 1e-6
    similar = embedder.similarity(SENTENCES[:3])
    assert np.abs(similar - theirs.similarity(expected[:3], expected[:3]).numpy()).max() <= 1e-5
    assert similar[0, 1] > similar[0, 2]


def test_minilm_import_and_export(minilm: Path, tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    assert main(["import", str(minilm), "--out", str(tmp_path / "ours")]) == 0
    ours = regard.load(tmp_path / "ours")
    assert ours.max_seq_len == 256
    assert np.array_equal(ours.embed(SENTENCES), regard.load(minilm).embed(SENTENCES))
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    back = sentence_transformers.SentenceTransformer(str(tmp_path / "back"), device="cpu")
    found = back.encode(SENTENCES, normalize_embeddings=True)
    assert np.abs(found - ours.embed(SENTENCES)).max() <= 1e-5


def test_minilm_with_only_vocab_txt(minilm: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(minilm / name, tmp_path / name)
    whole, plain = regard.load(minilm), regard.load(tmp_path)
    for text in SENTENCES[:5]:
        assert plain.encode_input(text) == whole.encode_input(text)
    assert isinstance(plain.tokenizer, Tokenizer)
    (tmp_path / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(FolderError) as caught:
        regard.load(tmp_path)
    assert caught.value.path == tmp_path / "vocab.txt"
