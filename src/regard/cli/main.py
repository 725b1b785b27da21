"""`regard`: runs one command and turns errors into messages and exit codes.

The commands are the verbs listed here and all registered tasks.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from pathlib import Path

from regard.utils.errors import RegardError, print_message, unknown

VERBS = {  # verb: (module, summary)
    "demo": ("demo", "Train a translator on the built-in dataset, translate, and show its attention."),
    "train": ("train", "Train a model: `regard train TASK DATA --out RUN`."),
    "evaluate": ("evaluate", "Score a model on a test file with the official metrics of its task."),
    "look": ("look", "Show what a model attends to, as one offline page."),
    "tasks": ("info", "List every task: inputs, outputs, architectures."),
    "models": ("info", "List every architecture: presets and capabilities."),
    "tokens": ("tokens", "Show the tokens of a text, with ids and merges."),
    "senses": ("studies", "Measure which layer of an encoder separates the senses of a word."),
    "transfer": ("studies", "Measure the benefit of pretraining for few and many labelled texts."),
    "import": ("convert", "Convert a Hugging Face folder into a regard folder."),
    "export": ("convert", "Convert a model into a folder that `transformers` loads."),
    "plan": ("info", "Count parameters, memory and compute of a model without building it."),
    "doctor": ("info", "Show the hardware and software found, the settings chosen, and why."),
}
EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit code: 0 success, 1 failure, 2 wrong usage, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _use_utf8()
    try:
        _run(arguments)
        sys.stdout.flush()
        return 0
    except RegardError as error:
        print_message(f"regard: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        print_message("regard: interrupted.")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of the output has exited, as in `regard … | head`
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            print_message(f"regard: {error.filename}: {error.strerror or error}.")
            return 1
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _discard_output()
        print_message(f"regard: cannot write the output: {error.strerror}. Free some space, or write to another disk.")
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))


def _run(arguments: list[str]) -> None:
    verb, *rest = arguments or ["--help"]
    if verb in ("-h", "--help", "help"):
        sys.stdout.write(_help())
    elif verb in ("-V", "--version"):
        from regard import __version__

        sys.stdout.write(f"regard {__version__}\n")
    elif verb in VERBS:
        importlib.import_module(f"regard.cli.{VERBS[verb][0]}").main(verb, rest)
    else:
        from regard.registry import tasks

        if verb not in tasks:
            raise unknown("command", verb, [*VERBS, *tasks])
        importlib.import_module("regard.cli.predict").main(verb, rest)


def _help() -> str:
    from regard.registry import task_summaries

    summaries = task_summaries()
    width = max(map(len, [*VERBS, *summaries]))
    commands = "\n".join(f"  {verb:<{width}}  {summary}" for verb, (_, summary) in VERBS.items())
    tasks = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in summaries.items())
    return (
        "regard: build a Transformer, train it, use it, look inside it.\n\n"
        f"usage: regard COMMAND …\n\ncommands:\n{commands}\n\ntasks (`regard TASK MODEL INPUT…`):\n{tasks}\n\n"
        "`regard COMMAND --help` shows the options of a command or task.\n"
    )


def _use_utf8() -> None:
    """Print UTF-8 on every system and file names byte for byte; replace closed streams with the null device."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  (until the process ends)
        elif isinstance(stream, io.TextIOWrapper) and name == "stdout":
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
        elif isinstance(stream, io.TextIOWrapper) and name == "stderr":
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """Discard buffered output, so that flushing it at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
