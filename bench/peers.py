"""torch.compile on the networks of `precast_bench jit-*`: steady state and time to the N-th call, beside eager Python.

    python bench/peers.py [row...]

Each row runs in a process of its own with an empty inductor cache. Prints a table; sizes and shapes are those of demo/models.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.out = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        return self.out(F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2).flatten(1))


class Block(nn.Module):
    def __init__(self, width=256, heads=8):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)
        x = x + self.project(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, words=512, tokens=64, width=256, layers=4):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.blocks, self.norm = nn.ModuleList(Block(width) for _ in range(layers)), nn.LayerNorm(width)

    def forward(self, x):
        y = self.words(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y)
        return F.linear(self.norm(y), self.words.weight)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.skip = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.skip(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        blocks = [b for n, m, stride in stages for b in (Residual(n, m, stride), Residual(m, m, 1))]
        self.blocks, self.out = nn.Sequential(*blocks), nn.Linear(512, 1000)

    def forward(self, x):
        return self.out(self.blocks(self.stem(x)).mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(256, 256, num_layers=2), nn.Linear(256, 256)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.out(y), h, c


def digits_step(compiled):
    net = Digits()
    loss = lambda x, y: F.cross_entropy(net(x), y)
    if compiled:
        loss = torch.compile(loss)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    x, y = torch.randn(64, 1, 8, 8), torch.randint(10, (64,))

    def step():
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()

    return step


def step_of(make, x, training=False):
    def make_step(compiled):
        net = make().train(training)
        f = torch.compile(net) if compiled else net

        def step():
            if training:
                net.zero_grad()
                f(x).square().mean().backward()
            else:
                with torch.no_grad():
                    f(x)

        return step

    return make_step


ROWS = {
    "digits-train": digits_step,
    "gpt": step_of(Gpt, torch.randint(512, (8, 64))),
    "gpt-train": step_of(Gpt, torch.randint(512, (8, 64)), training=True),
    "resnet18": step_of(ResNet18, torch.randn(1, 3, 224, 224)),
    "lstm": step_of(Lstm, torch.randn(64, 8, 256)),
}


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def first_calls(row, compiled):
    step = ROWS[row](compiled == "compiled")
    return [timed(step) for _ in range(100)]


def steady(row):
    """Medians of calls that take turns, in seconds: eager, compiled."""
    steps = [ROWS[row](False), ROWS[row](True)]
    for step in 3 * steps:
        step()
    start, times = time.perf_counter(), ([], [])
    while len(times[0]) < 20 or time.perf_counter() - start < 1:
        for step, list_of in zip(steps, times):
            list_of.append(timed(step))
    return [statistics.median(t) for t in times]


def in_fresh_process(*arguments):
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache}
        command = [sys.executable, __file__, *arguments]
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(line) for line in out.stdout.split()]


def main(arguments):
    if arguments[:1] == ["--first-calls"]:
        print(*first_calls(*arguments[1:]), sep="\n")
        return
    if arguments[:1] == ["--steady"]:
        print(*steady(*arguments[1:]), sep="\n")
        return
    print(f"\ntorch.compile of PyTorch {torch.__version__} (Python), the same networks")
    print(f"{'':17} {'eager':>9} {'steady':>7} {'nothing on disk, calls:':>23}")
    print(f"{'':17} {'ms':>9} {'':7} {1:7} {10:7} {100:7}")
    for row in arguments or ROWS:
        eager, compiled = (in_fresh_process("--first-calls", row, how) for how in ("eager", "compiled"))
        calls = " ".join(f"{sum(compiled[:n]) / sum(eager[:n]):7.2f}" for n in (1, 10, 100))
        plain, fast = in_fresh_process("--steady", row)
        print(f"{row:17} {1e3 * plain:9.3f} {plain / fast:6.2f}x {calls}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
