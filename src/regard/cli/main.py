"""`regard`: runs one command, and turns errors into messages and exit codes.

Commands are the generic verbs listed here and every registered task.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from pathlib import Path

from regard.utils.errors import RegardError, unknown

VERBS = {  # verb: (module, summary)
    "demo": ("demo", "Train a translator on the built-in dataset, translate, and show its attention."),
    "train": ("train", "Train a model: `regard train TASK DATA --out RUN`."),
    "evaluate": ("evaluate", "Score a model on a test file by the official metrics of its task."),
    "look": ("look", "Show what a model attends to, as one offline page."),
    "tasks": ("listing", "List every task: inputs, outputs, architectures."),
    "models": ("listing", "List every architecture: presets and capabilities."),
    "tokens": ("tokens", "Show the tokens of a text, with ids and merges."),
    "senses": ("senses", "Measure which layer of an encoder separates the senses of a word."),
    "transfer": ("transfer", "Compare pretrained and random weights by number of labels."),
    "import": ("convert", "Convert a Hugging Face folder into a regard folder."),
    "export": ("convert", "Convert a model into a folder that `transformers` loads."),
    "plan": ("plan", "Count parameters, memory and compute of a model without building it."),
    "doctor": ("doctor", "Show what was found on this machine, what was chosen, and why."),
}
EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 success, 1 failure, 2 wrong usage, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _use_utf8()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except RegardError as error:
        _print_error(f"regard: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _print_error("regard: interrupted.")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has ended, as in `regard … | head`
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            _print_error(f"regard: {error.filename}: {error.strerror or error}.")
            return 1
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _discard_output()
        _print_error(f"regard: cannot write the output: {error.strerror}. Free some space, or write it elsewhere.")
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        from regard import __version__

        sys.stdout.write(f"regard {__version__}\n")
        return 0
    verb, *rest = arguments
    module = VERBS[verb][0] if verb in VERBS else _task_module(verb)
    code: int = importlib.import_module(f"regard.cli.{module}").main(verb, rest)
    return code


def _task_module(verb: str) -> str:
    from regard.registry import tasks

    if verb not in tasks:
        raise unknown("command", verb, [*VERBS, *tasks])
    return "predict"


def _help() -> str:
    from regard.registry import tasks

    specs = tasks.usable()
    width = max(map(len, [*VERBS, *specs]))
    verbs = "\n".join(f"  {verb:<{width}}  {summary}" for verb, (_, summary) in VERBS.items())
    rows = "\n".join(f"  {name:<{width}}  {spec.summary}" for name, spec in specs.items())
    return (
        "regard: build a Transformer, train it, use it, look inside it.\n\n"
        f"usage: regard COMMAND …\n\ncommands:\n{verbs}\n\ntasks (`regard TASK MODEL INPUT…`):\n{rows}\n\n"
        "`regard COMMAND --help` shows its options.\n"
    )


def _use_utf8() -> None:
    """Print UTF-8 everywhere, print file names byte for byte, and replace closed streams by the null device."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  (until the process ends)
        elif isinstance(stream, io.TextIOWrapper) and name == "stdout":
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
        elif isinstance(stream, io.TextIOWrapper) and name == "stderr":
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _print_error(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def _discard_output() -> None:
    """Send what is still buffered nowhere, so that flushing it at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
