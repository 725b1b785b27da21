"""Writing with a GPT-2-sized model on a CPU, beside the tools that people use for it.

    python benchmarks/decoding.py [--rounds 5] [--context 32]

A GPT-2 of 124 M random weights, the same for all; a prompt of `--context` tokens, 64 new tokens, greedy, one text. The
time of 65 new tokens less that of one is the time of 64, so that reading the prompt does not count. Each tool runs in
a process of its own, and all take turns; printed are tokens a second, and the median of the rounds' ratios.

    python benchmarks/decoding.py --contexts    # a token after 900 others beside one after 32
    python benchmarks/decoding.py --prompt      # reading a prompt of 500 tokens, beside transformers
    python benchmarks/decoding.py --memory      # what 8 bits add to the memory of a process with torch in it

Peers that are not installed are left out. `pip install ctranslate2 gguf llama-cpp-python` brings them; the last is
built from source, which takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import Tool

NEW = 64
SIZE = 50_257
Run = Callable[[list[int], int], list[int]]  # goes on with a prompt, greedily, by so many tokens


def make_folder(path: Path) -> None:
    """A GPT-2 of random weights as `transformers` stores it, with a vocabulary of made-up words."""
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


# The tools ---------------------------------------------------------------------------------------------------------


def regard_writer(folder: Path, precision: Any) -> Run:
    from regard.checkpoint.convert.decoders import FORMATS
    from regard.checkpoint.folder import load_into, read_model
    from regard.generation.backend import gpt_decoder
    from regard.generation.settings import SamplingConfig
    from regard.generation.writing import write
    from regard.models.gpt import GPT
    from regard.models.gpt_settings import PRESETS, GPTConfig
    from regard.nn.packed import pack_weights

    config = GPTConfig(**PRESETS["gpt2"])
    with torch.device("meta"):
        model = GPT(config)
    load_into(model, FORMATS["gpt2"].ours_of(read_model(folder).tensors, config))
    pack_weights(model.eval(), precision)
    decoder = gpt_decoder(model, backend="kernels")

    def run(prompt: list[int], count: int) -> list[int]:
        sampling = SamplingConfig(temperature=0.0, max_new_tokens=count)
        return [written.id for written in write(decoder, [prompt], config=sampling, context=config.context)]

    return run


def transformers_writer(folder: Path) -> Run:
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def run(prompt: list[int], count: int) -> list[int]:
        ids = torch.tensor([prompt])
        settings: Any = dict(do_sample=False, max_new_tokens=count, min_new_tokens=count, pad_token_id=0)
        found = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        return found[0, len(prompt) :].tolist()  # type: ignore[no-any-return]

    return run


def ctranslate2_writer(folder: Path, kind: str) -> Run:
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


def llama_writer(folder: Path, kind: str) -> Run:
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
            # The newest token's logits where llama.cpp has them, which is quicker than its Python sampler.
            found.append(int(np.argmax(np.ctypeslib.as_array(model._ctx.get_logits(), shape=(SIZE,)))))
            if len(found) < count:
                model.eval(found[-1:])
        return found

    return run


def write_gguf(folder: Path, path: Path, kind: str) -> None:
    """The same weights in llama.cpp's format: matrices in `kind`, the rest in fp32."""
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
    quantised = getattr(gguf.GGMLQuantizationType, kind)

    def add(name: str, array: Any, *, packed: bool) -> None:
        array = np.ascontiguousarray(array.astype(np.float32))
        if packed:
            writer.add_tensor(name, quantize(array, quantised), raw_dtype=quantised)
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
    "regard fp32": lambda folder: regard_writer(folder, "fp32"),
    "regard int8": lambda folder: regard_writer(folder, "int8"),
    "regard int4": lambda folder: regard_writer(folder, "int4"),
    "transformers fp32": transformers_writer,
    "CTranslate2 fp32": lambda folder: ctranslate2_writer(folder, "float32"),
    "CTranslate2 int8": lambda folder: ctranslate2_writer(folder, "int8"),
    "llama.cpp Q8_0": lambda folder: llama_writer(folder, "Q8_0"),
    "llama.cpp Q4_0": lambda folder: llama_writer(folder, "Q4_0"),
}
MODULES = {"regard": "regard", "transformers": "transformers", "CTranslate2": "ctranslate2", "llama.cpp": "llama_cpp"}


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
    tools = {name: Tool(make_run, name, folder) for name in TOOLS if importlib.util.find_spec(MODULES[name.split()[0]])}
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
            print(f"{ours} / {theirs}: {ratio:.2f} (mark {mark})")
    for tool in tools.values():
        tool.close()


def random_prompt(length: int) -> list[int]:
    return np.random.default_rng(1).integers(0, SIZE - 1, length).tolist()  # type: ignore[no-any-return]


def seconds_of_new(tool: Tool, prompt: list[int]) -> float:
    """The time of NEW tokens: that of one more, less that of the first, which reads the prompt."""
    return tool.run(prompt, NEW + 1)[1] - tool.run(prompt, 1)[1]


def compare_contexts(folder: Path, rounds: int) -> None:
    """How much slower a token is after 900 than after 32."""
    long = random_prompt(900)
    for precision in ("fp32", "int8", "int4"):
        tool = Tool(make_run, f"regard {precision}", folder)
        tool.run(long, 2)
        ratios = [seconds_of_new(tool, long) / seconds_of_new(tool, long[:32]) for _ in range(rounds)]
        print(f"regard {precision}: a token at 900 takes {statistics.median(ratios):.2f} × that at 32 (mark 1.5)")
        tool.close()


def compare_prompts(folder: Path, rounds: int) -> None:
    """Reading 500 tokens: the time to the first new one."""
    prompt, theirs = random_prompt(500), Tool(make_run, "transformers fp32", folder)
    for precision in ("fp32", "int8", "int4"):
        ours = Tool(make_run, f"regard {precision}", folder)
        for tool in (ours, theirs):
            tool.run(prompt, 1)
        ratios = [theirs.run(prompt, 1)[1] / ours.run(prompt, 1)[1] for _ in range(rounds)]
        print(f"500-token prompt, regard {precision}: {statistics.median(ratios):.2f} × transformers' speed (mark 0.9)")
        ours.close()
    theirs.close()


def resident() -> float:
    """Memory of this process that lies in RAM, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_memory(folder: str, precision: str) -> None:
    """In a process of its own: what loading and writing add to torch."""
    import resource

    torch.ones(1).add(1)
    before = resident()
    run = regard_writer(Path(folder), precision)
    run(list(range(32)), NEW)
    gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"regard {precision}: {resident() - before:.0f} MB added to `import torch`, {peak - before:.0f} at the peak")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="where the random model is kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--contexts", action="store_true", help="900 tokens beside 32")
    parser.add_argument("--prompt", action="store_true", help="reading a prompt of 500 tokens")
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        if not (folder / "config.json").exists():
            make_folder(folder)
        if asked.memory:
            for precision in ("int8", "int4", "fp32"):
                process = multiprocessing.get_context("spawn").Process(
                    target=measure_memory, args=(str(folder), precision)
                )
                process.start()
                process.join()
        elif asked.prompt:
            compare_prompts(folder, asked.rounds)
        elif asked.contexts:
            compare_contexts(folder, asked.rounds)
        else:
            compare(folder, asked.context, asked.rounds)


if __name__ == "__main__":
    main()
