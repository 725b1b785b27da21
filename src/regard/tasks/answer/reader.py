"""Read questions about passages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.inputs import TableInputs
from regard.data.squad import Question, read_qa_inputs, read_questions
from regard.data.synthetic.labelled import questions
from regard.models.heads import HeadConfig
from regard.tasks.readers import SingleFileReader, split_by
from regard.utils.errors import number_of

MAX_HELD_OUT = 400  # passages; more would take time from training and hardly change the scores


class AnswerReader(SingleFileReader[Question]):
    """Questions with passages and gold answers."""

    dataset = "built-in passages"
    noun = "question"

    def read_file(self, path: Path) -> ReadResult[Question]:
        return read_questions(path, skip_bad_rows=self.config.skip_bad_rows)

    def synthetic(self, split: str) -> list[Question]:
        return questions(split)

    def head_for(self, examples: Sequence[Question]) -> HeadConfig:
        return HeadConfig(kind="question_answering")

    def key(self, example: Question) -> str:
        return example.passage

    def hold_out(self, examples: Sequence[Question]) -> tuple[list[Question], list[Question]]:
        """Split the questions into training and validation; if there are several passages, no passage is in both."""
        fraction, several = self.config.val_fraction, len({question.passage for question in examples}) > 1
        if several:
            return split_by(self.key, examples, fraction=fraction, maximum=MAX_HELD_OUT)
        return split_by(id, examples, fraction=fraction)

    def held_out_note(self, examples: Sequence[Question], detail: str = "") -> str:
        passages = number_of(len({question.passage for question in examples}), "passage")
        return super().held_out_note(examples, f" about {passages}")

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """Return (question, passage, id) tuples from SQuAD's JSON, a table or JSON lines; stdin may have tabs."""
        found = read_qa_inputs(path, data, skip_bad_rows=self.config.skip_bad_rows)
        self.notes += found.notes()
        inputs = ((question.question, question.passage, question.id) for question in found.examples)
        return TableInputs(inputs, found.lines, found.header)
