"""`regard`: which verb was asked for, and what to do when it fails.

The list of verbs is written out here so that `regard --help` need not import what the verbs need.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from pathlib import Path

from regard.errors import RegardError, unknown

VERBS = {  # verb: (module, what it does)
    "demo": ("demo", "train a translator on the built-in world, translate, and draw what it attended to"),
    "train": ("train", "train a model: `regard train translate pairs.tsv --out runs/mine`"),
    "translate": ("translate", "translate a sentence, or lines from stdin to stdout"),
    "generate": ("generate", 'go on with a text: `regard generate runs/book "To be, or"`'),
    "fill": ("fill", 'guess missing words: `regard fill runs/bert "Amazon [MASK] amazing"`'),
    "suggest": ("suggest", "the likeliest next words of a text, with their probabilities"),
    "score": ("score", "how surprising a text is to a model: perplexity and bits per byte"),
    "embed": ("embed", "texts to vectors, or how alike they are: `regard embed MODEL texts.txt --out vectors.npy`"),
    "classify": ("classify", 'the label of a text, or of each line: `regard classify runs/mine "A fine film."`'),
    "pair": ("pair", "the label of two texts, or how alike they are"),
    "tag": ("tag", "a label for every word of a text: names, parts of speech"),
    "answer": ("answer", 'find the answer in a passage: `regard answer runs/mine "Who sleeps?" "The cat sleeps."`'),
    "senses": ("senses", "same word, other meaning: which layer of a BERT tells the senses of a word apart"),
    "transfer": ("transfer", "what pre-training is worth: pre-trained or from scratch, by number of labels"),
    "evaluate": ("evaluate", "score a model on a test file by the official metric of its task"),
    "look": ("look", "draw what a model attends to, as one offline page"),
    "tokens": ("tokens", "show how a text is cut into pieces, with ids and merges"),
    "import": ("convert", "turn a folder of Marian, BERT, GPT-2, Llama, Qwen3 or NanoChat into one of regard's"),
    "export": ("convert", "turn a model into a folder that `transformers` reads"),
    "plan": ("plan", "parameters, memory and compute of a model, without building it"),
    "doctor": ("doctor", "what was found on this machine and what was chosen, with reasons"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 failure, 2 wrong use, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _speak_utf8()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except RegardError as error:
        _say(f"regard: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("regard: stopped by Ctrl-C.")
        return 130
    except BrokenPipeError:
        # Who read our output has gone (`regard … | head`): that is not a failure.
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            _say(f"regard: {error.filename}: {error.strerror or error}.")
            return 1
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _discard_output()
        _say(f"regard: the answer cannot be written: {error.strerror}. Free some space, or write it elsewhere.")
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        from importlib.metadata import version

        sys.stdout.write(f"regard {version('regard')}\n")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        raise unknown("command", verb, VERBS)
    module = importlib.import_module(f"regard.cli.{VERBS[verb][0]}")
    code: int = module.main(verb, rest)
    return code


def _help() -> str:
    width = max(map(len, VERBS))
    rows = "\n".join(f"  {verb:<{width}}  {what}" for verb, (_, what) in VERBS.items())
    return (
        "regard: build a Transformer, train it, use it, look inside it.\n\n"
        f"usage: regard <command> …\n\n{rows}\n\n"
        "`regard <command> --help` tells more. Every command that answers has --json.\n"
    )


def _speak_utf8() -> None:
    """Answers are UTF-8 wherever they go, names of files come out as they are, and a closed stream is an empty one."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  (until the process ends)
        elif isinstance(stream, io.TextIOWrapper) and name == "stdout":
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
        elif isinstance(stream, io.TextIOWrapper) and name == "stderr":
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def _discard_output() -> None:
    """What is left unwritten must not be flushed, and fail, a second time when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
