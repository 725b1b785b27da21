"""Questions about passages from SQuAD files, or from the built-in dataset; questions to answer from tables, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.qa_inputs import read_asked, read_piped
from regard.data.splits import split_validation
from regard.data.squad import Question, read_questions
from regard.data.synthetic.passages import questions
from regard.tasks.base import Reader, Splits
from regard.tasks.encoder.labels import builtin_splits, data_sources, held_out_note, overlap_note, single_file
from regard.utils.errors import number_of

MAX_HELD_OUT = 400  # passages; more take time from training and hardly change the scores


class AnswerReader(Reader[Question]):
    """Questions with passages and gold answers."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[Question]:
        found = self.read_file(single_file(data, "training"))
        notes, sources = found.notes(), data_sources(found, "training")
        if validation:
            other = self.read_file(single_file(validation, "validation"))
            notes += [*other.notes(), *overlap_note(_passages(found.examples), _passages(other.examples))]
            sources += data_sources(other, "validation")
            return Splits(found.examples, other.examples, sources, tuple(notes))
        train, held_out = hold_out_passages(found.examples, fraction=self.config.val_fraction)
        detail = f" about {number_of(len(set(_passages(held_out))), 'passage')}"
        return Splits(train, held_out, sources, (*notes, held_out_note(len(held_out), "question", detail)))

    def builtin(self) -> Splits[Question]:
        self.refuse_without_files(("skip_bad_rows",))
        return builtin_splits("built-in passages", questions)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Question]:
        return self.read_file(single_file(data, "test"))

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """(question, passage, id) of each question in SQuAD's JSON, a table or JSON lines; stdin also takes tabs."""
        skip = self.config.skip_bad_rows
        found = read_asked(path, skip_bad_rows=skip) if data is None else read_piped(data, skip_bad_rows=skip)
        self.notes += found.notes()
        return [(question.question, question.passage, question.id) for question in found.examples]

    def read_file(self, path: Path) -> ReadResult[Question]:
        return read_questions(path, skip_bad_rows=self.config.skip_bad_rows)


def hold_out_passages(examples: Sequence[Question], *, fraction: float) -> tuple[list[Question], list[Question]]:
    """Questions for training and for validation, about different passages where there is more than one."""
    passages = list(dict.fromkeys(_passages(examples)))
    if len(passages) < 2:
        parts = split_validation(len(examples), fraction=fraction)
        train, held_out = ([examples[index] for index in part] for part in parts)
        return train, held_out
    _, drawn = split_validation(len(passages), fraction=fraction, maximum=MAX_HELD_OUT)
    chosen = {passages[index] for index in drawn}
    train = [question for question in examples if question.passage not in chosen]
    return train, [question for question in examples if question.passage in chosen]


def _passages(examples: Sequence[Question]) -> list[str]:
    return [question.passage for question in examples]
