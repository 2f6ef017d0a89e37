#!/usr/bin/env python3
"""Makes docs/performance.md and its plots of the figures that scripts/bench.sh has written.

  performance_page.py            writes them
  performance_page.py --check    fails when they are not what the figures make
"""
import csv
import json
import math
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "performance"
PAGE = ROOT / "docs" / "performance.md"
ISAS = {"avx2": "AVX2", "avx512": "AVX-512"}


class Case:
    """The figures of one file: by (series, x, figure) the median, first and third quartile."""

    def __init__(self, name, isa):
        path = DATA / f"{name}-{isa}.csv"
        self.command, self.machine, self.values = "", "", {}
        if not path.exists():
            return
        lines = path.read_text().splitlines()
        self.command = lines[0].removeprefix("# ")
        self.machine = lines[1].removeprefix("# machine: ")
        for row in csv.DictReader(lines[2:]):
            key = (row["series"], float(row["x"]), row["figure"])
            self.values[key] = tuple(float(row[part]) for part in ("median", "first", "third"))

    def get(self, series, x, figure):
        return self.values.get((series, float(x), figure))

    def series(self):
        return list(dict.fromkeys(series for series, _, _ in self.values))

    def points(self, series, figure):
        return [(x, *value) for (s, x, f), value in self.values.items()
                if s == series and f == figure]


def digits(value):
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.1f}" if abs(value) >= 4 else f"{value:.2f}"


def cell(value, unit="", figure=""):
    """A median with its quartiles."""
    if value is None:
        return "-"
    exact = figure == "to the first"  # a hundredth matters
    median, first, third = (f"{v:.3f}" if exact else digits(v) for v in value)
    spread = "" if first == third else f" [{first} {third}]"
    return f"{median}{unit}{spread}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def both(name):
    return {isa: Case(name, isa) for isa in ISAS}


def by_isa(rows):
    """Rows (label, aim of AVX2, aim of AVX-512, case, [(isa's series, x, figure, unit)...])."""
    out = []
    for label, aims, name, picks in rows:
        cells = [label]
        for isa, aim in zip(ISAS, aims):
            case = Case(name, isa)
            found = [cell(case.get(*pick[:3]), pick[3], pick[2]) for pick in picks(isa)]
            cells += [aim, " / ".join(found)]
        out.append(cells)
    return table(["case", "AVX2: aim", "measured", "AVX-512: aim", "measured"], out)


def aims():
    one = lambda *picks: (lambda isa: picks)
    share = lambda series, *xs: one(*((series, x, "share", " %") for x in xs))
    dot = lambda isa: "f32" if isa == "avx2" else "bf16 dot"
    rows = [
        ("bf16 4096² linear, share of the floor, M = 1 / 2 / 4", ("80 %", "90 %"), "linear",
         lambda isa: [(dot(isa), x, "share", " %") for x in (1, 2, 4)]),
        ("the same, M = 8 / 14", ("55 %", "80 %"), "linear",
         lambda isa: [(dot(isa), x, "share", " %") for x in (8, 14)]),
        ("the same, M = 16 / 32 / 64", ("70 %", "88 %"), "linear",
         lambda isa: [(dot(isa), x, "share", " %") for x in (16, 32, 64)]),
        ("the same by f32 multiply-adds, M = 1 / 8 / 64", ("", "90, 80, 88 %"), "linear",
         lambda isa: [] if isa == "avx2" else [("f32", x, "share", " %") for x in (1, 8, 64)]),
        ("32 tokens over 20 adapters: added to the base product, f32 / dot", ("5 %", "6 / 11 %"),
         "lora", lambda isa: [(s, 32, "added to the base product", " %")
                              for s in (["f32"] if isa == "avx2" else ["f32", "bf16 dot"])]),
        ("the same, added time / (bytes / read rate)", ("", "1.2"), "lora",
         lambda isa: [(s, 32, "added to bytes / read rate", "")
                      for s in (["f32"] if isa == "avx2" else ["f32", "bf16 dot"])]),
        ("OpenBLAS on the same work, to our added time: sgemm / sgemv pair a request",
         ("3.5 ×", "3.5 ×"), "lora",
         one(("sgemm pair a request", 32, "to our added time", " ×"),
             ("sgemv pair a request", 32, "to our added time", " ×"))),
        ("the same, sgemm pair an adapter", ("4 ×", "4 ×"), "lora",
         one(("sgemm pair an adapter", 32, "to our added time", " ×"))),
        ("int8 against the better bf16, M = 1 / 8 / 32", ("1.8 / 1.6 / 1.4 ×", "1.8 / 1.7 / 1.6 ×"),
         "int8", one(*(("int8", x, "faster than bf16", " ×") for x in (1, 8, 32)))),
        ("4-bit against the same", ("3.2 / 1.6 / 1.35 ×", "3.0 / 1.8 / 1.5 ×"), "q4",
         one(*(("q4", x, "faster than bf16", " ×") for x in (1, 8, 32)))),
        ("decode step, SmolLM2's shape, share of the floor, 1 / 8 / 20 / 64 sequences",
         ("70 / 50 / 60 / 65 %", "70 / 65 / 65 / 75 %"), "step-smollm2",
         share("base alone", 1, 8, 20, 64)),
        ("the same, synthetic 1.2B", ("80 / 52 / 62 / 68 %", "80 / 70 / 70 / 80 %"), "step-1.2b",
         share("base alone", 1, 8, 20, 64)),
        ("prefill of 512 tokens, share of the floor: SmolLM2's shape", ("65 %", "74 %"),
         "prefill-smollm2", share("base alone", 512)),
        ("the same, 1.2B", ("65 %", "74 %"), "prefill-1.2b", share("base alone", 512)),
        ("attention, decode, one sequence of 8k, bf16 K/V, share of the read rate: 1.2B / SmolLM2",
         ("70 %", "70 %"), "attention",
         one(("1.2B BF16", 1, "share", " %"), ("SmolLM2 BF16", 1, "share", " %"))),
        ("the same, int8 K/V against bf16", ("1.4 ×", "1.4 ×"), "attention",
         one(("1.2B I8", 1, "faster than bf16", " ×"), ("SmolLM2 I8", 1, "faster than bf16", " ×"))),
        ("1.2B, 20 on 20 adapters (ranks 8, 16, 32) against 20 on base, tokens per second",
         ("85 %", "85 %"), "step-1.2b", one(("an adapter a sequence", 20, "kept", " %"))),
        ("SmolLM2, 20 on 20 adapters of 235 MB, share of the floor of both together",
         ("60 %", "60 %"), "smollm2-peers", share("an adapter a sequence", 20)),
        ("adapters loaded, 10 → 10,000 (r 8 on q and v), one thread: step time",
         ("≤ 1.02 ×", "≤ 1.02 ×"), "loaded",
         one(("16 sequences on 8 of them", 10000, "to the first", " ×"))),
        ("distinct adapters in the batch, 1 → 64: slope against bytes / read rate, SmolLM2's shape",
         ("≤ 1.2", "≤ 1.2"), "distinct-smollm2", one(("64 sequences", 0, "slope", ""))),
        ("the same, 1.2B", ("≤ 1.2", "≤ 1.2"), "distinct-1.2b",
         one(("64 sequences", 0, "slope", ""))),
    ]
    return by_isa(rows)


# A plot: file, title, label of x, [(case, series, what the line is called, figure)].
PLOTS = [
    ("distinct", "64 sequences on ever more adapters of rank 16, SmolLM2's shape",
     "distinct adapters in the batch", "ms a step",
     [("distinct-smollm2", "64 sequences", "{isa}", "time"),
      ("distinct-smollm2", "64 sequences", "{isa} floor", "floor")]),
    ("rank", "16 sequences on 16 adapters, SmolLM2's shape", "rank", "ms a step",
     [("rank", "16 sequences", "{isa}", "time"), ("rank", "16 sequences", "{isa} floor", "floor")]),
    ("batch", "an adapter of rank 16 a sequence, and base alone, SmolLM2's shape", "sequences",
     "ms a step",
     [("batch", "an adapter a sequence", "{isa}, adapters", "time"),
      ("batch", "base alone", "{isa}, base", "time"),
      ("batch", "an adapter a sequence", "{isa}, adapters, floor", "floor")]),
    ("context", "8 sequences on 8 adapters of rank 16, SmolLM2's shape", "tokens of context",
     "ms a step",
     [("context", "8 sequences", "{isa}", "time"), ("context", "8 sequences", "{isa} floor", "floor")]),
    ("loaded", "16 sequences on 8 of the adapters loaded, one thread, SmolLM2's shape",
     "adapters loaded (rank 8 on q and v)", "step time, × that with 10",
     [("loaded", "16 sequences on 8 of them", "{isa}", "to the first")]),
    ("threads", "16 sequences, SmolLM2's shape", "threads", "ms a step",
     [("threads", "an adapter a sequence", "{isa}, adapters", "time"),
      ("threads", "base alone", "{isa}, base", "time"),
      ("threads", "base alone", "{isa}, base, floor", "floor")]),
]
COLOURS = {"avx2": ("#c8553d", "#e0a08f", "#999999"), "avx512": ("#1f5a92", "#7fb0d8", "#999999")}


class Axes:
    """Numbers to places on the paper."""
    LEFT, RIGHT, TOP, BOTTOM = 64, 500, 44, 300

    def __init__(self, xs, ys):
        self.logarithmic = min(xs) > 0 and max(xs) / min(xs) > 4
        self.x_low, self.x_high = self.x_place(min(xs)), self.x_place(max(xs))
        self.y_high = max(ys) * 1.08
        self.y_low = 0.0 if self.y_high > 1.5 * min(ys) else min(ys) * 0.98

    def x_place(self, x):
        return math.log2(x) if self.logarithmic else x

    def x(self, x):
        span = (self.x_high - self.x_low) or 1.0
        return self.LEFT + (self.x_place(x) - self.x_low) / span * (self.RIGHT - self.LEFT)

    def y(self, y):
        share = (y - self.y_low) / (self.y_high - self.y_low)
        return self.BOTTOM - share * (self.BOTTOM - self.TOP)

    def y_ticks(self):
        step = 10.0 ** math.floor(math.log10((self.y_high - self.y_low) / 4))
        step *= next(f for f in (1, 2, 5, 10) if (self.y_high - self.y_low) / (f * step) <= 6)
        first = math.ceil(self.y_low / step)
        return [step * i for i in range(first, int(self.y_high / step) + 1)]


def plot(title, x_label, y_label, picks):
    lines = []
    for isa, name in ISAS.items():
        for i, (case, series, label, figure) in enumerate(picks):
            points = sorted(Case(case, isa).points(series, figure))
            if points:
                lines.append((label.format(isa=name), COLOURS[isa][min(i, 2)], figure == "floor",
                              points))
    if not lines:
        return None
    axes = Axes([p[0] for line in lines for p in line[3]],
                [v for line in lines for p in line[3] for v in p[1:]])
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="700" height="350" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="700" height="350" fill="white"/>',
           f'<text x="{axes.LEFT}" y="22" font-size="14">{title}</text>']
    for y in axes.y_ticks():
        out.append(f'<line x1="{axes.LEFT}" x2="{axes.RIGHT}" y1="{axes.y(y):.1f}" '
                   f'y2="{axes.y(y):.1f}" stroke="#ddd"/>'
                   f'<text x="{axes.LEFT - 6}" y="{axes.y(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in sorted({p[0] for line in lines for p in line[3]}):
        out.append(f'<text x="{axes.x(x):.1f}" y="{axes.BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    middle = (axes.LEFT + axes.RIGHT) / 2
    out.append(f'<text x="{middle:.0f}" y="{axes.BOTTOM + 38}" text-anchor="middle">{x_label}</text>')
    out.append(f'<text transform="translate(16 {(axes.TOP + axes.BOTTOM) / 2:.0f}) rotate(-90)" '
               f'text-anchor="middle">{y_label}</text>')
    for i, (label, colour, dashed, points) in enumerate(lines):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        path = " ".join(f"{axes.x(p[0]):.1f},{axes.y(p[1]):.1f}" for p in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        if not dashed:
            for x, median, first, third in points:
                out.append(f'<line x1="{axes.x(x):.1f}" x2="{axes.x(x):.1f}" y1="{axes.y(first):.1f}" '
                           f'y2="{axes.y(third):.1f}" stroke="{colour}"/>'
                           f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(median):.1f}" r="3" '
                           f'fill="{colour}"/>')
        y = axes.TOP + 18 * i
        out.append(f'<line x1="514" x2="540" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>'
                   f'<text x="546" y="{y + 4}">{label}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def figures_of(name, title, columns):
    """One table: a line for each series and x, the columns of each instruction set."""
    cases = both(name)
    keys = list(dict.fromkeys((s, x) for case in cases.values() for s, x, _ in case.values
                              if x > 0))
    if not keys:
        return ""
    isas = [isa for isa in ISAS if cases[isa].values]
    head = [""] + [f"{ISAS[isa]}: {c[0]}" if len(isas) > 1 else c[0] for isa in isas for c in columns]
    rows = [[f"{series}, {x:g}"] + [cell(cases[isa].get(series, x, figure), unit, figure)
                                     for isa in isas for _, figure, unit in columns]
            for series, x in keys]
    commands = "".join(f"`{cases[isa].command}`  \n" for isa in isas)
    return f"### {title}\n\n{commands}\n{table(head, rows)}\n"


SHARE = [("floor, ms", "floor", ""), ("ms", "time", ""), ("share", "share", " %")]
GROWTH = SHARE + [("× the first", "to the first", "")]
TABLES = [
    ("linear", "A linear of 4096 × 4096 in bf16, by rows", SHARE),
    ("lora", "32 tokens over 20 adapters on that linear",
     [("added, %", "added to the base product", ""),
      ("added / (bytes / read rate)", "added to bytes / read rate", ""),
      ("to our added time, ×", "to our added time", "")]),
    ("int8", "int8 against bf16, by rows; the peak is that of products of bytes",
     SHARE + [("× bf16", "faster than bf16", "")]),
    ("q4", "4-bit against bf16, likewise", SHARE + [("× bf16", "faster than bf16", "")]),
    ("attention", "Attention, decode, by sequences (1 of 8,192 positions, 20 of 256)",
     SHARE + [("× bf16", "faster than bf16", "")]),
    ("step-smollm2", "Decode step, SmolLM2's shape, by sequences",
     SHARE + [("tokens/s kept", "kept", " %")]),
    ("step-1.2b", "Decode step, 1.2B, by sequences", SHARE + [("tokens/s kept", "kept", " %")]),
    ("smollm2-peers", "The same on adapters of 235 MB in all, SmolLM2's shape",
     SHARE + [("tokens/s kept", "kept", " %")]),
    ("prefill-smollm2", "Prefill, SmolLM2's shape, by tokens", SHARE),
    ("prefill-1.2b", "Prefill, 1.2B, by tokens", SHARE),
    ("distinct-smollm2", "Distinct adapters, SmolLM2's shape", GROWTH),
    ("distinct-1.2b", "Distinct adapters, 1.2B", GROWTH),
    ("rank", "Rank", GROWTH), ("batch", "Batch", GROWTH), ("context", "Context", GROWTH),
    ("loaded", "Adapters loaded", GROWTH), ("threads", "Threads", GROWTH),
]

METHOD = """# How fast, and how far from what the machine can do

`scripts/bench.sh [--isa ISA] [CASE...]` measures each case and writes `docs/performance/CASE-ISA.csv`;
`scripts/performance_page.py` makes this page and its plots of these files. No figure of a table is typed in by hand.

Measured on: {machines}.
`LORICA_ISA` forces an instruction set: AVX2 means this machine's AVX2, not an older processor.

**Floor.** The least time that the machine could take: the greater of all bytes (weights, K and V at that context,
adapters, head) over the rate at which memory is read, and all flops over the peak of the multiply-adds in use. Rate and
peak are measured in the same process, in turn with what is timed. Share = floor / time. The rate of this shared machine moves
between 50 and 78 GB/s from one minute to the next, so one share may be had from two floors; a share above 100 % says
that the rate was higher while the kernel ran than when it was measured. The floor stands beside each time below.

**Figures** are medians with the first and third quartile in brackets; ratios are of times taken in turn within one run. Two threads,
but where a case says otherwise. A "step" is `Engine::Step()` whole: choosing, batch, plan, model, sampling, answers. The
prompts of decode steps are not computed, as a step depends on how much K and V there is and not on what it is. 1.2B is
16 layers, 2048 wide, ffn 8192, 8 K/V heads, a vocabulary of 128k; SmolLM2's shape is that of SmolLM2-135M; weights are
random bf16, `--dtype bfloat16`, K and V in bf16, context 256. Adapters are random, on all seven linears.
"""


PEERS = """## Beside other servers

`bench/compare.py`, with each server started as `bench/peers/README.md` says: the same requests and adapters (`bench/make_adapters.py`: 20, of ranks 8 to 64) on SmolLM2-135M-Instruct in 16 bits
(mistral.rs: 32), in turn on one machine, each server alone at a time. W1: 20 requests at once on the base; W2: all on one adapter; W3: each on its own;
one: a single request; W4: the first token of 512 words. Tokens per second; of W4 milliseconds. Ratios are of turns.

"""


def spread(values):
    middle = statistics.median(values)
    if len(values) == 1:
        return middle, middle, middle
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return middle, first, third


def peers():
    """What each peers-*.json holds, a line a work and peer."""
    rows = []
    for path in sorted(DATA.glob("peers-*.json")):
        found = json.loads(path.read_text())
        for work, by_name in found["figures"].items():
            ours = by_name["lorica"]
            for name in (name for name in by_name if name != "lorica"):
                theirs = by_name[name]
                shown = [[1e3 / v for v in values] if work == "W4" else values
                         for values in (theirs, ours)]
                ratio = [a / b for a, b in zip(ours, theirs)]
                rows.append([found["about"][name], work, *(cell(spread(v)) for v in shown),
                             cell(spread(ratio), " ×"), str(len(ours))])
    if not rows:
        return ""
    return PEERS + table(["server", "work", "it", "Lorica", "Lorica is faster by", "turns"], rows)


def page():
    machines = sorted({case.machine.split("; ")[0] for name, *_ in TABLES
                       for case in both(name).values() if case.machine})
    parts = [METHOD.format(machines=" / ".join(machines)), "## Against what was aimed at\n", aims(),
             "## How a decode step grows\n"]
    files = {}
    for name, title, x_label, y_label, picks in PLOTS:
        drawing = plot(title, x_label, y_label, picks)
        if drawing is None:
            continue
        files[DATA / f"{name}.svg"] = drawing
        parts.append(f"![{title}](performance/{name}.svg)\n")
    parts.append(peers())
    parts.append("## All figures\n")
    parts += [figures_of(*entry) for entry in TABLES]
    files[PAGE] = "\n".join(part for part in parts if part).rstrip() + "\n"
    return files


def main():
    files = page()
    if sys.argv[1:] == ["--check"]:
        stale = [str(path.relative_to(ROOT)) for path, text in files.items()
                 if not path.exists() or path.read_text() != text]
        print("performance page: " + (f"stale, run {sys.argv[0]}: " + ", ".join(stale) if stale
                                       else f"{len(files)} files are what the figures make"))
        return 1 if stale else 0
    if sys.argv[1:]:
        raise SystemExit(__doc__)
    for path, text in files.items():
        path.write_text(text)
        print(f"{path.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
