"""PyTorch programs on our pool, beside PyTorch's own allocators, in turn.

    train.py                                             # every allocator, three runs of each
    train.py --allocators native,ours --programs gpt2

Each run is a process of its own. The table has the spread of the runs: median time of a step, the last loss, the most bytes reserved and live
at once. The exit status is 1 if a run failed, or if a loss or a step time of ours is outside the spread of PyTorch's own allocators by more than
that spread's width (at least 2 % of the value).

Needs PyTorch with CUDA, the wheels `rmm-rs` and `rmm-rs-torch`, and `transformers` for all but `resnet50`, `tiny` and `streams`; no weights and no data: models begin with random numbers, and so do batches.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

# Name: environment of the run. Ours are those with a resource.
ALLOCATORS = {
    "native": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "ours": {"RMM_RESOURCE": "pool"},
    "ours-cuda": {"RMM_RESOURCE": "pool(cuda)"},
}
MIB = 1 << 20


def is_ours(allocator):
    return "RMM_RESOURCE" in ALLOCATORS[allocator]


def steps_of(torch, count, uncounted, step):
    """Seconds of each step after the first ones, and what the last step returned."""
    times = []
    for number in range(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        value = step(number)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return times[uncounted:], float(value)


def gpt2_of(layers):
    """A GPT-2 with so many layers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=768, n_head=12))


def loss_of(torch, model, shape):
    """The loss of a GPT-2 for random tokens, in mixed precision."""
    tokens = torch.randint(0, 50257, shape, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        return model(tokens, labels=tokens).loss


def generate(torch, model, shape, length):
    """Has a GPT-2 add `length` tokens to random prompts. Returns the last logits."""
    tokens, cache = torch.randint(0, 50257, shape, device="cuda"), None
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for _ in range(length):
            result = model(tokens, past_key_values=cache, use_cache=True)
            cache, logits = result.past_key_values, result.logits[:, -1:]
            tokens = logits.argmax(-1)
    return logits


def gpt2(torch):
    """Training of GPT-2 with six layers in mixed precision: batches and lengths change with each step."""
    sizes = random.Random(1)
    model = gpt2_of(6).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(_):
        loss = loss_of(torch, model, (sizes.randint(2, 8), sizes.randint(64, 1024)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return steps_of(torch, 60, 20, step)


def generation(torch):
    """Generation with GPT-2: a cache of keys and values that each token makes longer. Batches and prompts change with each step."""
    sizes = random.Random(3)
    model = gpt2_of(6).cuda().eval()

    def step(_):
        shape = sizes.randint(4, 32), sizes.randint(32, 512)
        return generate(torch, model, shape, 64).float().mean()

    return steps_of(torch, 20, 5, step)


def resnet50(torch):
    """Training of ResNet-50 (He et al., 2015) in mixed precision: batches and image sizes change with each step."""
    nn = torch.nn

    def convolution(before, after, size, stride=1):
        layer = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(after))

    class Bottleneck(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            relu = nn.ReLU(inplace=True)
            self.body = nn.Sequential(
                convolution(before, width, 1), relu, convolution(width, width, 3, stride), relu, convolution(width, 4 * width, 1)
            )
            keeps_shape = stride == 1 and before == 4 * width
            self.skip = nn.Identity() if keeps_shape else convolution(before, 4 * width, 1, stride)

        def forward(self, x):
            return torch.relu(self.body(x) + self.skip(x))

    layers, before = [convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            layers.append(Bottleneck(before, width, stride if number == 0 else 1))
            before = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    sizes = random.Random(2)

    def step(_):
        images, side = sizes.randint(16, 64), 32 * sizes.randint(4, 8)
        batch = torch.randn(images, 3, side, side, device="cuda")
        labels = torch.randint(0, 1000, (images,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return steps_of(torch, 60, 20, step)


def tiny(torch):
    """Many small layers: the host is slower than the device, and allocation is a part of its work."""
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(24))).cuda()
    batch = torch.randn(32, 64, device="cuda")

    def step(_):
        result = model(batch).sum()
        result.backward()
        model.zero_grad(set_to_none=True)
        return result.detach()

    return steps_of(torch, 300, 100, step)


def lora(torch):
    """Low-rank adapters (Hu et al., 2021) of a frozen GPT-2: batches and lengths change with each step, and every tenth evaluates without gradients."""
    class Adapted(torch.nn.Module):
        def __init__(self, frozen, rank=16):
            super().__init__()
            inputs, outputs = frozen.weight.shape
            self.frozen = frozen
            self.down = torch.nn.Linear(inputs, rank, bias=False)
            self.up = torch.nn.Linear(rank, outputs, bias=False)
            torch.nn.init.zeros_(self.up.weight)

        def forward(self, x):
            return self.frozen(x) + self.up(self.down(x))

    sizes = random.Random(4)
    model = gpt2_of(12).requires_grad_(False)
    for block in model.transformer.h:
        block.attn.c_attn, block.mlp.c_fc = Adapted(block.attn.c_attn), Adapted(block.mlp.c_fc)
    model.cuda()
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])

    def step(number):
        evaluates = number % 10 == 9
        with torch.set_grad_enabled(not evaluates):
            loss = loss_of(torch, model, (sizes.randint(1, 8), sizes.randint(64, 1024)))
        if not evaluates:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return steps_of(torch, 60, 20, step)


def serving(torch):
    """Eight threads, each with a stream, answer requests of changing lengths by one GPT-2: a prompt and 16 tokens."""
    from concurrent.futures import ThreadPoolExecutor

    model = gpt2_of(6).cuda().eval()

    def answer(side, seed):
        sizes = random.Random(seed)
        with torch.cuda.stream(side):
            for _ in range(2):
                generate(torch, model, (sizes.randint(1, 16), sizes.randint(32, 768)), 16)
            side.synchronize()

    sides = [torch.cuda.Stream() for _ in range(8)]
    torch.cuda.synchronize()
    with ThreadPoolExecutor(len(sides)) as threads:

        def step(number):
            list(threads.map(answer, sides, range(8 * number, 8 * number + 8)))
            return 0.0

        return steps_of(torch, 6, 2, step)


def streams(torch):
    """Four streams, each with temporaries of its own."""
    sizes = random.Random(5)
    sides = [torch.cuda.Stream() for _ in range(4)]

    def step(_):
        for side in sides:
            with torch.cuda.stream(side):
                values = torch.randn(sizes.randint(1_000, 400_000), device="cuda")
                (torch.sort(values)[0].cumsum(0) * 2).unique()
        return 0.0

    return steps_of(torch, 120, 40, step)


PROGRAMS = {"gpt2": gpt2, "generation": generation, "resnet50": resnet50, "lora": lora, "serving": serving, "tiny": tiny, "streams": streams}


def run_here(allocator, program):
    """One run in this process; the environment is the allocator's already."""
    import torch

    if is_ours(allocator):
        import rmm_rs.torch

        rmm_rs.torch.install(os.environ["RMM_RESOURCE"])
    torch.manual_seed(0)
    times, value = PROGRAMS[program](torch)
    reserved, live = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    return {"step": statistics.median(times) * 1e3, "loss": value, "reserved": reserved, "live": live}


def run_apart(allocator, program):
    """One run in a process of its own; None if it failed, whose messages are on the terminal."""
    environment = {**os.environ, **ALLOCATORS[allocator]}
    command = [sys.executable, __file__, "--allocators", allocator, "--programs", program, "--here"]
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = finished.stdout.splitlines()
    return json.loads(lines[-1]) if finished.returncode == 0 and lines else None


def is_within(value, others):
    """Whether a value is in the spread of others, widened by its own width or 2 %."""
    low, high = min(others), max(others)
    slack = max(high - low, 0.02 * abs(high))
    return low - slack <= value <= high + slack


def summarize(program, runs):
    """Prints a line for each allocator. Returns what is wrong, as lines."""
    wrong = []
    theirs = [run for name, all_of in runs.items() if not is_ours(name) for run in all_of]
    for name, all_of in runs.items():
        if not all_of:
            continue
        spread = {key: f"{min(run[key] for run in all_of):.4g}..{max(run[key] for run in all_of):.4g}" for key in ("step", "loss")}
        reserved, live = (max(run[key] for run in all_of) for key in ("reserved", "live"))
        print(
            f"{program:8} {name:11} step {spread['step']:>17} ms   loss {spread['loss']:>15}"
            f"   reserved {reserved / MIB:7.0f} MiB   live {live / MIB:7.0f} MiB   ratio {reserved / max(live, 1):.3f}",
            flush=True,
        )
        if is_ours(name) and theirs:
            loss_is_off = [run["loss"] for run in all_of if not is_within(run["loss"], [one["loss"] for one in theirs])]
            median = statistics.median(run["step"] for run in all_of)
            # A faster step is no fault.
            is_slow = median > max(one["step"] for one in theirs) and not is_within(median, [one["step"] for one in theirs])
            wrong += [f"{program} {name}: loss {loss:.4g}" for loss in loss_is_off]
            wrong += [f"{program} {name}: {median:.4g} ms a step"] * is_slow
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allocators", default=",".join(ALLOCATORS), type=lambda names: names.split(","))
    parser.add_argument("--programs", default=",".join(PROGRAMS), type=lambda names: names.split(","))
    parser.add_argument("--runs", default=3, type=int, help="of each allocator, in turn")
    parser.add_argument("--here", action="store_true", help="one run, in this process; prints a line of JSON")
    args = parser.parse_args()
    for names, known in ((args.allocators, ALLOCATORS), (args.programs, PROGRAMS)):
        unknown = [name for name in names if name not in known]
        if unknown:
            parser.error(f"{', '.join(unknown)}: not one of {', '.join(known)}")
    if args.here:
        print(json.dumps(run_here(args.allocators[0], args.programs[0])))
        return 0
    wrong = []
    for program in args.programs:
        runs = {name: [] for name in args.allocators}
        for number in range(args.runs):
            for name in args.allocators:
                run = run_apart(name, program)
                if run is None:
                    wrong.append(f"{program} {name}: run {number + 1} failed")
                else:
                    runs[name].append(run)
        wrong += summarize(program, runs)
    for line in wrong:
        print(f"OUTSIDE {line}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
