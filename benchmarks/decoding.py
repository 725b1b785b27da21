"""Text generation with a model of the size of GPT-2 on a CPU, compared with other libraries.

    python benchmarks/decoding.py [--rounds 5] [--context 32]

All libraries run the same GPT-2 with 124 M random weights: a prompt of `--context` tokens, then 64 new tokens, greedy,
batch size 1. The time of 64 tokens is that of 65 minus that of 1, so the prompt does not count. Each library runs in
its own process, and the processes alternate. Prints tokens per second and the median of the ratios of all rounds.

    python benchmarks/decoding.py --contexts    # time per token after 900 tokens and after 32
    python benchmarks/decoding.py --prompt      # prefill of 500 tokens, compared with transformers
    python benchmarks/decoding.py --memory      # memory that a model adds to a process with torch
    python benchmarks/decoding.py --compile     # time to compile the kernels, and to load them from the cache

Libraries that are not installed are skipped, with a hint how to install them. The extra `bench` installs all but
llama-cpp-python, which takes about 15 minutes to build from source.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import Tool, memory

NEW = 64
SIZE = 50_257
Run = Callable[[list[int], int], list[int]]  # prompt, number of new tokens → new tokens, greedy


def make_folder(path: Path) -> None:
    """Save a GPT-2 with random weights and a vocabulary of invented words with `transformers`."""
    from tokenizers import Tokenizer, models
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config()).eval().save_pretrained(path)
    words = {word(i): i for i in range(SIZE)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token=word(0))),
        unk_token=word(0),
        bos_token=word(SIZE - 1),
        eos_token=word(SIZE - 1),
    )
    tokenizer.save_pretrained(path)


def word(number: int) -> str:
    return f"w{number}"


# Libraries ---------------------------------------------------------------------------------------------------------


def regard_decoder(folder: Path, precision: Any) -> Any:

    from regard.checkpoint.folder import read_model
    from regard.generation.backend import gpt_decoder
    from regard.models.gpt.config import PRESETS, GPTConfig
    from regard.models.gpt.convert import GPT2
    from regard.models.gpt.model import GPT
    from regard.nn.init import empty_weights
    from regard.nn.quantized import quantize_weights
    from regard.nn.state_dict import load_into

    config = GPTConfig(**PRESETS["gpt2"])
    with empty_weights():
        model = GPT(config)
    load_into(model, GPT2.read_tensors(read_model(folder).tensors, config))
    quantize_weights(model.eval(), precision)
    return gpt_decoder(model, backend="kernels")


def regard_generator(folder: Path, precision: Any) -> Run:
    from regard.generation.config import SamplingConfig
    from regard.generation.sampling import GenerationState

    decoder = regard_decoder(folder, precision)

    def run(prompt: list[int], count: int) -> list[int]:
        sampling = SamplingConfig(temperature=0.0, max_new_tokens=count)
        return [token.id for token in GenerationState(decoder, [prompt], config=sampling, context=1024)]

    return run


def transformers_generator(folder: Path) -> Run:
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def run(prompt: list[int], count: int) -> list[int]:
        ids = torch.tensor([prompt])
        settings: Any = dict(do_sample=False, max_new_tokens=count, min_new_tokens=count, pad_token_id=0)
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        return found[0, len(prompt) :].tolist()  # type: ignore[no-any-return]

    return run


def ctranslate2_generator(folder: Path, kind: str) -> Run:
    import ctranslate2

    out = folder / f"ctranslate2-{kind}"
    if not out.exists():
        converter = ctranslate2.converters.TransformersConverter(str(folder))
        converter.convert(str(out), quantization=None if kind == "float32" else kind)
    threads = torch.get_num_threads()
    generator = ctranslate2.Generator(str(out), device="cpu", compute_type=kind, intra_threads=threads)

    def run(prompt: list[int], count: int) -> list[int]:
        (found,) = generator.generate_batch(
            [[word(i) for i in prompt]],
            max_length=count,
            min_length=count,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return list(found.sequences_ids[0])

    return run


def llama_generator(folder: Path, kind: str) -> Run:
    from llama_cpp import Llama

    path = folder / f"{kind}.gguf"
    if not path.exists():
        write_gguf(folder, path, kind)
    threads = torch.get_num_threads()
    model = Llama(str(path), n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run(prompt: list[int], count: int) -> list[int]:
        model.reset()
        model.eval(prompt)
        found = []
        for _ in range(count):
            # Reads the logits from llama.cpp's memory, which is faster than its Python sampler.
            found.append(int(np.argmax(np.ctypeslib.as_array(model._ctx.get_logits(), shape=(SIZE,)))))
            if len(found) < count:
                model.eval(found[-1:])
        return found

    return run


def write_gguf(folder: Path, path: Path, kind: str) -> None:
    """Save the same weights in llama.cpp's format: matrices in `kind`, other tensors in fp32."""
    import gguf
    from gguf.quants import quantize
    from safetensors.numpy import load_file

    weights = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_block_count(12)
    writer.add_context_length(1024)
    writer.add_embedding_length(768)
    writer.add_feed_forward_length(3072)
    writer.add_head_count(12)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([word(i) for i in range(SIZE)])
    writer.add_token_merges(["w 0"])
    writer.add_bos_token_id(SIZE - 1)
    writer.add_eos_token_id(SIZE - 1)
    quantized = getattr(gguf.GGMLQuantizationType, kind)

    def add(name: str, array: Any, *, packed: bool) -> None:
        array = np.ascontiguousarray(array.astype(np.float32))
        if packed:
            writer.add_tensor(name, quantize(array, quantized), raw_dtype=quantized)
        else:
            writer.add_tensor(name, array)

    find = lambda name: weights.get(f"transformer.{name}", weights.get(name))  # noqa: E731
    add("token_embd.weight", find("wte.weight"), packed=True)
    add("output.weight", find("wte.weight"), packed=True)
    add("position_embd.weight", find("wpe.weight"), packed=False)
    for mine, theirs in (("output_norm", "ln_f"),):
        for part in ("weight", "bias"):
            add(f"{mine}.{part}", find(f"{theirs}.{part}"), packed=False)
    names = {
        "attn_norm": "ln_1",
        "attn_qkv": "attn.c_attn",
        "attn_output": "attn.c_proj",
        "ffn_norm": "ln_2",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    }
    for layer in range(12):
        for mine, theirs in names.items():
            matrix, is_norm = find(f"h.{layer}.{theirs}.weight"), mine.endswith("norm")
            add(f"blk.{layer}.{mine}.weight", matrix if is_norm else matrix.T, packed=not is_norm)
            add(f"blk.{layer}.{mine}.bias", find(f"h.{layer}.{theirs}.bias"), packed=False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


TOOLS: dict[str, Callable[[Path], Run]] = {
    "regard fp32": lambda folder: regard_generator(folder, "fp32"),
    "regard int8": lambda folder: regard_generator(folder, "int8"),
    "regard int4": lambda folder: regard_generator(folder, "int4"),
    "transformers fp32": transformers_generator,
    "CTranslate2 fp32": lambda folder: ctranslate2_generator(folder, "float32"),
    "CTranslate2 int8": lambda folder: ctranslate2_generator(folder, "int8"),
    "llama.cpp Q8_0": lambda folder: llama_generator(folder, "Q8_0"),
    "llama.cpp Q4_0": lambda folder: llama_generator(folder, "Q4_0"),
}
MODULES = {
    "regard": ("regard",),
    "transformers": ("transformers",),
    "CTranslate2": ("ctranslate2",),
    "llama.cpp": ("llama_cpp", "gguf"),  # gguf writes the model
}
INSTALL = {
    "llama_cpp": "pip install -c constraints.txt llama-cpp-python (needs a C++ compiler and about 15 minutes)",
    "": 'pip install -c constraints.txt -e ".[bench]"',
}


def installed() -> list[str]:
    """The libraries that are installed. Prints how to install the others."""
    found = []
    for name in TOOLS:
        missing = [module for module in MODULES[name.split()[0]] if importlib.util.find_spec(module) is None]
        for module in missing:
            print(f"{name} is skipped, {module} is not installed: {INSTALL.get(module, INSTALL[''])}")
        if not missing:
            found.append(name)
    return found


def make_run(name: str, folder: Path) -> Run:
    return TOOLS[name](folder)


PAIRS = (
    ("regard fp32", "transformers fp32", 1.7),
    ("regard fp32", "CTranslate2 fp32", 1.0),
    ("regard int8", "CTranslate2 int8", 3.0),
    ("regard int8", "llama.cpp Q8_0", 1.15),
    ("regard int4", "llama.cpp Q4_0", 1.1),
)


def compare(folder: Path, context: int, rounds: int) -> None:
    prompt = random_prompt(context)
    tools = {name: Tool(make_run, name, folder) for name in installed()}
    texts = {name: tool.run(prompt, NEW + 1)[0] for name, tool in tools.items()}
    for name, text in texts.items():
        same = sum(a == b for a, b in zip(text, texts["regard fp32"], strict=False))
        print(f"{name}: {same} of {NEW + 1} tokens as in fp32", flush=True)
    speeds: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, tool in tools.items():
            speeds[name].append(NEW / seconds_of_new(tool, prompt))
            time.sleep(0.5)
    for name, found in speeds.items():
        shown = f"{statistics.median(found):.1f} ({min(found):.1f}–{max(found):.1f})"
        print(f"{name}, context {context}: {shown} tokens/s, median of {rounds}")
    for ours, theirs, mark in PAIRS:
        if theirs in speeds:
            ratio = statistics.median(a / b for a, b in zip(speeds[ours], speeds[theirs], strict=True))
            print(f"{ours} / {theirs}: {ratio:.2f} (goal {mark})")
    for tool in tools.values():
        tool.close()


def random_prompt(length: int) -> list[int]:
    return np.random.default_rng(1).integers(0, SIZE - 1, length).tolist()  # type: ignore[no-any-return]


def seconds_of_new(tool: Tool, prompt: list[int]) -> float:
    """The time of NEW tokens without the prefill: the time of NEW + 1 tokens minus that of 1."""
    return tool.run(prompt, NEW + 1)[1] - tool.run(prompt, 1)[1]


def compare_contexts(folder: Path, rounds: int) -> None:
    """Compare the time per token after 900 tokens with that after 32."""
    for precision in ("fp32", "int8", "int4"):
        process = multiprocessing.get_context("spawn").Process(
            target=measure_contexts, args=(str(folder), precision, rounds)
        )
        process.start()
        process.join()


def measure_contexts(folder: str, precision: str, rounds: int) -> None:
    """Runs in its own process. The prefill does not count."""
    decoder = regard_decoder(Path(folder), precision)

    def milliseconds(length: int) -> float:
        decoder.prefill(torch.tensor([random_prompt(length)]), torch.tensor([length]))
        time.sleep(0.3)  # until torch's threads sleep
        start = time.perf_counter()
        for number in range(NEW):
            decoder.step(torch.tensor([number]))
        return (time.perf_counter() - start) / NEW * 1000

    milliseconds(900)
    found = [(milliseconds(900), milliseconds(32)) for _ in range(rounds)]
    late, soon = (statistics.median(times) for times in zip(*found, strict=True))
    ratio = statistics.median(long / short for long, short in found)
    print(f"regard {precision}: a token takes {late:.2f} ms at 900, {soon:.2f} at 32, {ratio:.2f} × as long (goal 1.5)")


def compare_prompts(folder: Path, rounds: int) -> None:
    """Compare the time to the first token after a prompt of 500 tokens."""
    prompt, theirs = random_prompt(500), Tool(make_run, "transformers fp32", folder)
    for precision in ("fp32", "int8", "int4"):
        ours = Tool(make_run, f"regard {precision}", folder)
        for tool in (ours, theirs):
            tool.run(prompt, 1)
        ratios = [theirs.run(prompt, 1)[1] / ours.run(prompt, 1)[1] for _ in range(rounds)]
        print(f"500-token prompt, regard {precision}: {statistics.median(ratios):.2f} × transformers' speed (goal 0.9)")
        ours.close()
    theirs.close()


def measure_memory(folder: str, precision: str) -> None:
    """Runs in its own process: the memory that loading and generation add to torch."""
    torch.ones(1).add(1)
    before = memory("VmRSS")
    run = regard_generator(Path(folder), precision)
    run(list(range(32)), NEW)
    gc.collect()
    now, peak = memory("VmRSS") - before, memory("VmHWM") - before
    print(f"regard {precision}: {now:.0f} MB added to `import torch`, {peak:.0f} at the peak")


def measure_compilation() -> None:
    """Load the kernels in two new processes: first with an empty cache, then with the cache of the first."""
    with tempfile.TemporaryDirectory() as cache:
        for what in ("compiling", "loading"):
            run = [sys.executable, "-c", COMPILE]
            found = subprocess.run(run, env={**os.environ, "NUMBA_CACHE_DIR": cache}, capture_output=True, text=True)
            if found.returncode:
                raise SystemExit(found.stderr)
            wall, busy = map(float, found.stdout.split())
            print(f"{what} the kernels: {wall:.1f} s, {busy:.1f} s of them computing" + " (goal 20)" * (what[0] == "c"))


COMPILE = """
import time, torch
wall, busy = time.perf_counter(), time.process_time()
from regard.generation.compiled.decoder import warm_up
warm_up(lambda: None)
print(time.perf_counter() - wall, time.process_time() - busy)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="folder of the random model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--contexts", action="store_true", help="compare 900 tokens with 32")
    parser.add_argument("--prompt", action="store_true", help="prefill of 500 tokens")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--compile", action="store_true", help="compiling and loading the kernels")
    args = parser.parse_args()
    if args.compile:
        measure_compilation()
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if not (folder / "config.json").exists():
            make_folder(folder)
        if args.memory:
            for precision in ("int8", "int4", "fp32"):
                process = multiprocessing.get_context("spawn").Process(
                    target=measure_memory, args=(str(folder), precision)
                )
                process.start()
                process.join()
        elif args.prompt:
            compare_prompts(folder, args.rounds)
        elif args.contexts:
            compare_contexts(folder, args.rounds)
        else:
            compare(folder, args.context, args.rounds)


if __name__ == "__main__":
    main()
