"""Beam search with n-best lists, and greedy streaming. Beam search with one beam is greedy search.

| here | in papers | meaning |
|---|---|---|
| log_prob | log P(y given x) | sum of the log-probabilities of all tokens of a sequence, including the end token |
| length | \\|y\\| | number of these tokens, including the end token |
| score | s(y, x) | log_prob / length ** length_penalty |
| num_beams | k | number of unfinished hypotheses at each step |

Probabilities come from the model unchanged: forbidden tokens are skipped without renormalizing the others. Ties are
broken by the better beam, then by the lower id. The functions take any `Decoder`; tokenization and batching happen
elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.generation.config import SearchConfig
from regard.generation.decoder import Decoder
from regard.utils.errors import RegardError, UsageError

NEG_INF = float("-inf")  # the log-probability of an impossible token


@dataclass(frozen=True)
class Hypothesis:
    """One output sequence with its log-probabilities."""

    ids: tuple[int, ...]  # without start and end token
    token_log_probs: tuple[float, ...]  # one for each id, and for the end token if it was reached
    log_prob: float  # sum of token_log_probs
    score: float  # log_prob after the length penalty
    ended: bool  # False if the length limit came before an end token
    end_id: int | None = None  # the end token that was reached


def stream(
    decoder: Decoder,
    ids: Tensor,
    lengths: Tensor,
    *,
    end_id: int,
    forbidden_ids: Collection[int] = (),
    config: SearchConfig | None = None,
) -> Iterator[tuple[int, float]]:
    """Greedy search for one row, ids (1, S): yields each id with its log-probability as soon as it is chosen.

    Uses only the length limits of `config`.
    """
    if ids.dim() == 2 and len(ids) != 1:
        message = f"stream takes one sequence, got {len(ids)}. Use beam_search with num_beams=1 for several."
        raise UsageError(message, argument="ids", value=tuple(ids.shape))
    _check_rows(ids, lengths)
    run = _Run(decoder, ids, lengths, (end_id,), forbidden_ids, config)

    def tokens() -> Iterator[tuple[int, float]]:
        while True:
            log_prob, best = run.log_probs.max(dim=-1)  # the lowest id in case of a tie
            run.length += 1
            if not math.isfinite(log_prob.item()):
                raise no_probabilities()
            if best.item() in run.ends:
                return
            yield int(best.item()), log_prob.item()
            if run.limits[0] <= run.length:
                return
            run.advance(torch.zeros_like(best), best)

    return tokens()


def beam_search(
    decoder: Decoder,
    ids: Tensor,
    lengths: Tensor,
    *,
    end_id: int,
    other_ends: Collection[int] = (),
    forbidden_ids: Collection[int] = (),
    config: SearchConfig | None = None,
    prefer_ends: bool = True,
) -> list[list[Hypothesis]]:
    """Beam search: return the `n_best` hypotheses for each row of ids (B, S) with lengths (B,), best first.

    Each step ranks the continuations of a sentence's beams. Of the best `num_beams` continuations, those with an end
    token are finished. The best `num_beams` without an end token become the next beams. A sentence is done when it has
    `n_best` finished hypotheses and no beam can reach a better score than the worst of them, even if all further tokens
    had probability 1. With one beam, the search is greedy and stops at the first end token.

    If the length limit comes before `n_best` hypotheses are finished, unfinished hypotheses fill the list, after the
    finished ones. Without `prefer_ends`, finished and unfinished hypotheses are ranked together by score: a translation
    should end, a text continuation need not. `other_ends` are further end tokens.
    """
    _check_rows(ids, lengths)
    if not len(ids):
        return []
    run = _Run(decoder, ids, lengths, (end_id, *other_ends), forbidden_ids, config)
    beams = _Beams(run, prefer_ends=prefer_ends)
    while beams.advance():
        pass
    if not all(beams.finished):
        raise no_probabilities()
    return beams.finished


class _Run:
    """A running decoder and the log-probabilities of the next tokens; forbidden tokens have -inf."""

    def __init__(
        self,
        decoder: Decoder,
        ids: Tensor,
        lengths: Tensor,
        ends: Collection[int],
        forbidden_ids: Collection[int],
        config: SearchConfig | None,
    ) -> None:
        self.config, self.ends, self._decoder = config or SearchConfig(), frozenset(ends), decoder
        self.length = 0  # tokens generated for each row, including the newest
        logits = decoder.prefill(ids, lengths)
        _check_ids(logits.shape[-1], self.ends, forbidden_ids, can_end_at_once=not self.config.min_new_tokens)
        self.limits = self._limits(lengths.tolist())
        self._forbidden = torch.tensor(sorted(set(forbidden_ids)), dtype=torch.long, device=logits.device)
        self._forbidden_at_first = torch.tensor(sorted({*forbidden_ids, *self.ends}), device=logits.device)
        self.log_probs = self._allowed(logits)  # (rows, V) of the next token

    def _limits(self, lengths: list[int]) -> list[int]:
        """Return the length limit of each sentence, including its end token."""
        config = self.config
        longest = min(n for n in (config.max_new_tokens, self._decoder.max_new_tokens) if n is not None)
        if config.max_len_a is None:
            return [longest] * len(lengths)
        least = config.min_new_tokens + 1
        return [min(longest, max(least, int(config.max_len_a * n) + config.max_len_b)) for n in lengths]

    def _allowed(self, logits: Tensor) -> Tensor:
        forbidden = self._forbidden if self.length >= self.config.min_new_tokens else self._forbidden_at_first
        return logits.log_softmax(dim=-1).index_fill_(-1, forbidden, NEG_INF)

    def advance(self, rows: Tensor, ids: Tensor) -> None:
        """Continue with these rows of the decoder (rows′,) and add `ids` (rows′,) as their newest tokens."""
        rows, ids = rows.to(self.log_probs.device), ids.to(self.log_probs.device)
        if not torch.equal(rows, torch.arange(len(self.log_probs), device=rows.device)):
            self._decoder.reorder(rows)
        self.log_probs = self._allowed(self._decoder.step(ids))

    def hypothesis(self, ids: list[int], token_log_probs: list[float]) -> Hypothesis:
        log_prob = math.fsum(token_log_probs)
        score, log_probs = self.config.score(log_prob, len(ids)), tuple(token_log_probs)
        if ids[-1] in self.ends:
            return Hypothesis(tuple(ids[:-1]), log_probs, log_prob, score, ended=True, end_id=ids[-1])
        return Hypothesis(tuple(ids), log_probs, log_prob, score, ended=False)


class _Beams:
    """The beams of A unfinished sentences: row a · beam_size + b of the decoder is beam b of sentence a."""

    def __init__(self, run: _Run, *, prefer_ends: bool) -> None:
        batch = len(run.log_probs)
        self.run, self.config, self.prefer_ends = run, run.config, prefer_ends
        self.finished: list[list[Hypothesis]] = [[] for _ in range(batch)]
        self.sentences = list(range(batch))  # indices of the unfinished sentences
        self.beam_size = 1  # beams of a sentence: 1 before the first step
        # In float64, so that rounding does not affect the ranking of long sums.
        self.totals = torch.zeros(batch, 1, dtype=torch.float64)  # (A, beam_size), best first
        self.history: list[tuple[list[int], list[int], list[float]]] = []  # per step: parent rows, ids, log-probs

    def advance(self) -> bool:
        """Add one token to every beam; returns False when all sentences are done."""
        totals, parents, ids, log_probs = self._candidates()
        ends = torch.isin(ids, torch.tensor(sorted(self.run.ends)))
        self._finish(totals, parents, ids, log_probs, ends)
        # The best candidates that do not end: a stable sort puts False before True and preserves the ranking.
        order = ends.to(torch.uint8).sort(dim=1, stable=True).indices[:, : self.config.num_beams]
        totals = totals.masked_fill(ends, NEG_INF).gather(1, order)  # (A, beam_size)
        unfinished = self._unfinished(totals[:, 0].tolist())
        if not unfinished:
            return False
        order = order[unfinished]
        self.sentences = [self.sentences[a] for a in unfinished]
        self.totals, self.beam_size = totals[unfinished], order.shape[1]
        rows, ids, log_probs = (x[unfinished].gather(1, order).flatten() for x in (parents, ids, log_probs))
        self.history.append((rows.tolist(), ids.tolist(), log_probs.tolist()))
        self.run.advance(rows, ids)
        return True

    def _candidates(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the best continuations of each sentence, best first: totals, parent rows, ids and log-probabilities.

        Each is (A, C) with C ≤ (1 + number of end tokens) · num_beams, so that num_beams candidates remain even if
        every beam contributes all of its end tokens. Ranking runs on the CPU, because not every accelerator supports
        float64.
        """
        run, sentences = self.run, len(self.sentences)
        count = (1 + len(run.ends)) * self.config.num_beams
        values, ids = (x.cpu() for x in top_of_rows(run.log_probs, min(count, run.log_probs.shape[-1])))
        run.length += 1
        choices = values.shape[1]
        values, ids = values.reshape(sentences, -1), ids.reshape(sentences, -1)  # (A, beam_size · C)
        before = self.totals.repeat_interleave(choices, dim=1)
        totals = (before + values).masked_fill(before == NEG_INF, NEG_INF)  # where a sentence has fewer beams
        if bool(totals.isnan().any()):
            raise no_probabilities()
        totals, order = (x[:, :count] for x in totals.sort(dim=1, descending=True, stable=True))
        first_row = torch.arange(0, sentences * self.beam_size, self.beam_size)[:, None]
        return totals, first_row + order // choices, ids.gather(1, order), values.gather(1, order)

    def _finish(self, totals: Tensor, parents: Tensor, ids: Tensor, log_probs: Tensor, ends: Tensor) -> None:
        """Store candidates that end, or reach the length limit, if they are among the `n_best` of their sentence."""
        num_beams, n_best, length = self.config.num_beams, self.config.n_best, self.run.length

        def hypothesis(a: int, rank: int) -> Hypothesis:
            return self._trace(int(parents[a, rank]), int(ids[a, rank]), float(log_probs[a, rank]))

        for a, rank in (ends[:, :num_beams] & (totals[:, :num_beams] > NEG_INF)).nonzero().tolist():
            hypotheses = self.finished[self.sentences[a]]
            if self.config.score(float(totals[a, rank]), length) > self._score_to_beat(hypotheses):
                self._rank([*hypotheses, hypothesis(a, rank)], self.sentences[a])
        for a, sentence in enumerate(self.sentences):
            if self.run.limits[sentence] > length:
                continue
            hypotheses = self.finished[sentence]
            missing = n_best - (len(hypotheses) if self.prefer_ends else 0)
            truncated = (~ends[a] & (totals[a] > NEG_INF)).nonzero().flatten().tolist()
            hypotheses += [hypothesis(a, rank) for rank in truncated[:missing]]
            if not self.prefer_ends:
                self._rank(hypotheses, sentence)

    def _rank(self, hypotheses: list[Hypothesis], sentence: int) -> None:
        """Store the `n_best` best of `hypotheses` as the finished ones of a sentence (ties keep their order)."""
        self.finished[sentence] = sorted(hypotheses, key=lambda h: -h.score)[: self.config.n_best]

    def _unfinished(self, best_totals: list[float]) -> list[int]:
        """Return the indices of the sentences to continue, given the log-probability of their best beam."""
        config, length = self.config, self.run.length
        unfinished = []
        for a, (sentence, total) in enumerate(zip(self.sentences, best_totals, strict=True)):
            hypotheses, limit = self.finished[sentence], self.run.limits[sentence]
            if length >= limit or total == NEG_INF or (config.num_beams == 1 and hypotheses):
                continue
            # A total can only decrease. Its length-normalized score is highest at the length limit, or, for a negative
            # penalty, which favors short outputs, at the next step.
            reachable = config.score(total, limit if config.length_penalty > 0 else length + 1)
            if reachable > self._score_to_beat(hypotheses):
                unfinished.append(a)
        return unfinished

    def _score_to_beat(self, hypotheses: list[Hypothesis]) -> float:
        return hypotheses[-1].score if len(hypotheses) == self.config.n_best else NEG_INF

    def _trace(self, row: int, last_id: int, last_log_prob: float) -> Hypothesis:
        """Return the full hypothesis of a candidate by following the parent rows back to the first token."""
        ids, log_probs = [last_id], [last_log_prob]
        for step_rows, step_ids, step_log_probs in reversed(self.history):
            ids.append(step_ids[row])
            log_probs.append(step_log_probs[row])
            row = step_rows[row]
        return self.run.hypothesis(ids[::-1], log_probs[::-1])


def top_of_rows(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Top-k of each row of scores (rows, V): values and indices (rows, count), ties to the lowest index.

    `topk` does not specify which of several equal scores it returns. So this function requests one more score than
    needed; a row with two equal scores, which is rare, is sorted in full.
    """
    values, places = scores.topk(min(count + 1, scores.shape[1]), dim=1)
    equal = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > NEG_INF)
    tied = equal.any(dim=1).nonzero().flatten()
    if len(tied):
        in_order = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], places[tied] = (x[:, : values.shape[1]] for x in in_order)
    return values[:, :count], places[:, :count]


def no_probabilities() -> RegardError:
    return RegardError(
        "the model gives no usable probabilities (NaN or infinite logits): its weights are damaged or its training "
        "diverged. Use an earlier checkpoint.",
        argument="model",
    )


def _check_rows(ids: Tensor, lengths: Tensor) -> None:
    shapes = tuple(ids.shape), tuple(lengths.shape)
    if ids.dim() != 2 or lengths.shape != ids.shape[:1]:
        message = f"ids must have shape (B, S) and lengths (B,), but have {shapes[0]} and {shapes[1]}."
        raise UsageError(message, argument="ids", value=shapes)
    for row, length in enumerate(lengths.tolist()):
        if not 1 <= length <= ids.shape[1]:
            message = f"row {row} has length {length}, but lengths must be from 1 to {ids.shape[1]}, the padded length."
            raise UsageError(message, argument="lengths", value=length, allowed=range(1, ids.shape[1] + 1))


def _check_ids(vocab_size: int, ends: Collection[int], forbidden: Collection[int], *, can_end_at_once: bool) -> None:
    for name, ids in (("end_id", ends), ("forbidden_ids", forbidden)):
        for i in ids:
            if not 0 <= i < vocab_size:
                message = f"{name} must be in the vocabulary, 0 to {vocab_size - 1}, got {i}."
                raise UsageError(message, argument=name, value=i)
    if both := sorted({*ends} & {*forbidden}):
        message = f"the end token {both[0]} is among forbidden_ids, so no sequence could end. Remove it."
        raise UsageError(message, argument="forbidden_ids", value=both[0])
    if len({*forbidden, *ends}) == vocab_size and not can_end_at_once:
        message = "forbidden_ids leave only end tokens, which min_new_tokens forbids at first. Allow other tokens."
        raise UsageError(message, argument="forbidden_ids", value=tuple(forbidden))
