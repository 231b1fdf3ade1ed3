# SPDX-License-Identifier: Apache-2.0
"""make bench: ours, the peers and the limits of the machine, in one table and one run.

Every command of a row is run RUNS times in turn (ours, peer, ours, peer …) and the medians are shown: wall seconds and, in
brackets, the processor seconds of all its threads and processes; rates and ratios (the peer's time by ours) likewise. A peer counts at its best: of several
ways to do the work the fastest one. What a filter writes is read by a consumer, as in use. Nothing here fails on time; a
peer that is absent is left out with a note, and a result that differs from the peer's is an error.

history.tsv keeps a line a row and commit: with --keep lines are added. A row whose ratio by processor time (without a peer: whose processor seconds) moved by
more than a tenth against its last line is named at the end."""
import argparse
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["numpy", "vowpalwabbit", "duckdb", "polars", "pyspark", "pandas", "sklearn", "pyarrow", "onnx", "onnxruntime", "uvicorn"]
PACKAGES = "vowpalwabbit duckdb polars pandas scikit-learn scipy pyarrow onnx onnxruntime uvicorn[standard]"
COLUMNS = "click:int8,I[1..13]:int32,C[1..26]:utf8"
PLAN = "label click\nfeature I[1..13] = square_log_bucket(I[1..13])\nfeature C[1..26]\n"
FLAT = "label click\nfeature F[1..39]\n"
VW = "--ftrl --ftrl_alpha 0.1 --ftrl_beta 1"
SINK = "| cat >/dev/null"


def sh(command):
    """(wall, cpu, stdout, stderr) of a shell command; cpu counts every process that it waits for."""
    start = time.perf_counter()
    p = subprocess.Popen(["bash", "-c", "set -eo pipefail; " + command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.stdout.read(), p.stderr.read()
    _, status, used = os.wait4(p.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"bench: failed: {command}\n{err.decode()}")
    return wall, used.ru_utime + used.ru_stime, out.decode(), err.decode()


# 100 features, of numbers, of texts and of pieces of texts, of the log's columns.
TEXT_PLAN = "label click\n" + "".join(f"feature n{i} = log_bucket(I{i})\nfeature s{i} = square_log_bucket(I{i})\n" for i in range(1, 14)) + "".join(
    f"feature c{i} = lower(C{i})\nfeature p{i} = substr(C{i}, 0, 3)\n" for i in range(1, 27)) + "".join(
    f"feature w{i} = split(concat(C{i}, \"|\", C{i + 1}, \"|\", I1), \"|\")\n" for i in range(1, 12)) + "".join(
    f"feature x{i} = cross(C{i}, C{i + 1})\n" for i in range(1, 12))


class Bench:
    def __init__(self, a):
        self.a = a
        self.only = set(a.only.split(",")) if a.only else None
        self.bin = os.path.join(a.build, "bin")
        self.tool = os.path.join(a.build, "bench")
        self.dir = "build/bench"
        self.runs = a.runs or 3
        self.million = 1 if a.quick else 4
        self.notes, self.lines, self.moved = [], [], []
        self.version = sh("git describe --always --dirty 2>/dev/null || echo unknown")[2].strip()
        self.kept = self.read_history()
        self.printed = []
        os.environ["PATH"] = os.path.abspath(self.bin) + ":" + os.environ["PATH"]
        os.environ.update(LC_ALL="C", TZ="UTC")
        os.environ.pop("OPENBLAS_CORETYPE", None)  # its kernels for this processor, not those that someone asked for
        os.makedirs(self.dir, exist_ok=True)
        self.python = self.make_venv()
        self.have = json.loads(sh(f"{self.python} {HERE}/peers.py versions {' '.join(PEERS)}")[2].splitlines()[-1])
        for name, version in self.have.items():
            if not version:
                self.notes.append(f"{name} is absent: its rows are left out.")

    # ---- inputs ----

    def make_venv(self):
        given = os.environ.get("CTR_BENCH_PYTHON")
        venv = os.path.join(self.dir, "venv")
        python = given or os.path.join(venv, "bin/python")
        if not given and not os.path.exists(os.path.join(venv, "ready")):
            try:
                sh(f"python3 -m venv {venv}")
                for p in PACKAGES.split():
                    try:
                        sh(f"{python} -m pip install -q {p}")
                    except SystemExit as e:
                        print(f"bench: {p} cannot be installed", file=sys.stderr)
                open(os.path.join(venv, "ready"), "w").close()
            except SystemExit:
                print("bench: no virtual environment (Debian: python3-venv): peers from PyPI are left out", file=sys.stderr)
                return sys.executable
        return python

    def made(self, path, command):
        """A file of the benchmark, made once. `command` writes to {out}."""
        if not os.path.exists(path):
            print(f"bench: making {path}", file=sys.stderr)
            sh(command.format(out=path + ".part"))
            os.rename(path + ".part", path)
        return path

    def data(self, million, kind):
        """The folder of files that bench-log made."""
        d = os.path.join(self.dir, f"{million}m")
        os.makedirs(d, exist_ok=True)
        rows = million * 1000000
        self.made(f"{d}/{kind}.done", f"{self.tool}/bench-log {kind} {rows} {d} && touch {{out}}")
        return d

    def plan(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def log(self, million):
        d = self.data(million, "ads")
        return self.made(f"{d}/log.arrows", f"ctr-import -q --columns '{COLUMNS}' -f tsv {d}/log.tsv -o {{out}}")

    def features(self, million):
        plan = self.plan("criteo.plan", PLAN)
        return self.made(os.path.join(self.dir, f"{million}m/features.arrows"), f"ctr-extract -q {plan} {self.log(million)} -o {{out}}")

    def scores(self, million):
        d = self.data(million, "scores")
        return self.made(f"{d}/scores.arrows", "ctr-import -q --header --columns click:int8,user:int32,score:float64 --label click "
                         f"--user user --score score {d}/scores.csv -o {{out}}")

    # ---- measuring ----

    def wants(self, group):
        if self.only is not None and group not in self.only:
            return False
        print(f"bench: {time.strftime('%H:%M:%S')} {group}", file=sys.stderr)
        return True

    def peer(self, task, *args):
        return [task, *args]

    def once(self, command):
        if isinstance(command, str):
            wall, cpu, out, err = sh(command)
            return {"wall": wall, "cpu": cpu, "out": out, "err": err}
        args = " ".join("'%s'" % a for a in command)
        wall, _, out, _ = sh(f"{self.python} {HERE}/peers.py {args}")
        m = json.loads(out.splitlines()[-1])
        return {"start": wall - m["wall"], **m}

    def medians(self, commands, runs=None):
        """Commands in turn, `runs` times each: the medians of wall and cpu, and the last of what they said. A dictionary has several ways to do the same,
        by name: the fastest one counts, and its name is `way`."""
        ways = [list(c.items()) if isinstance(c, dict) else [(None, c)] for c in commands]
        flat = iter(self.in_turn([c for w in ways for _, c in w], runs))
        return [min(({**next(flat), "way": name} for name, _ in w), key=lambda m: m["wall"]) for w in ways]

    def in_turn(self, commands, runs):
        all_ = [[] for _ in commands]
        for r in range(runs or self.runs):
            for i, c in enumerate(commands):
                all_[i].append(self.once(c))
        return [{**rs[-1], "wall": statistics.median(x["wall"] for x in rs), "cpu": statistics.median(x["cpu"] for x in rs)}
                for rs in all_]

    def print(self, line=""):
        print(line, flush=True)
        self.printed.append(line)

    def row(self, what, ours, peer="", ratio="", goal="", limit=""):
        self.print(f"| {what} | {ours} | {peer} | {ratio} | {goal} | {limit} |")

    def cell(self, m, rate=None):
        """rate: (amount, unit): amount a second of wall time is shown too."""
        def number(x):
            return f"{x:.2f}" if x < 20 else f"{x:.0f}"
        speed = f", {number(rate[0] / m['wall'])} {rate[1]} ({number(rate[0] / m['cpu'])})" if rate else ""
        return f"{m['wall']:.2f} s ({m['cpu']:.2f}){speed}"

    def ratio(self, peer, ours):
        return f"{peer['wall'] / ours['wall']:.1f} ({peer['cpu'] / ours['cpu']:.1f})"

    def compare(self, what, ours, peers=(), goal="", limit="", rate=None, peer_runs=None):
        """peers: (name, module or program needed, command or ways by name). Returns measurements, ours first; absent peers are None."""
        here = [p for p in peers if (self.have.get(p[1]) if p[1] in self.have else shutil.which(p[1]))]
        for p in peers:
            if p not in here and p[1] not in self.have:
                self.notes.append(f"{p[1]} is absent: '{what}' goes without it.")
        ms = self.medians([ours] + [p[2] for p in here], peer_runs)
        for i, (p, m) in enumerate(zip(here, ms[1:])):
            self.row(what if not i else "", self.cell(ms[0], rate) if not i else "", f"{p[0]} {m['way'] + ' ' if m['way'] else ''}{self.cell(m, rate)}",
                     self.ratio(m, ms[0]), goal if not i else "", limit if not i else "")
            self.keep(what, ms[0], p[0], m)
        if not here:
            self.row(what, self.cell(ms[0], rate), goal=goal, limit=limit)
            self.keep(what, ms[0])
        found = {p[0]: m for p, m in zip(here, ms[1:])}
        return ms[0], found

    def versus(self, what, ours, name, base, rate=None, goal="", times=False):
        """A row of what another command of ours takes, `base`. times: as a multiple of its time."""
        ratio = f"{ours['wall'] / base['wall']:.2f} ({ours['cpu'] / base['cpu']:.2f}) times the time" if times else self.ratio(base, ours)
        self.row(what, self.cell(ours, rate), f"{name} {self.cell(base, rate)}", ratio, goal)
        self.keep(what, ours, name, base)

    def keep(self, what, ours, name="", peer=None):
        """A line of history.tsv, and whether it moved since the last one. "the same, -j 2" has the name of the row above it in front."""
        if what.startswith("the same"):
            what = f"{self.above}: {what}"
        else:
            self.above = what
        number = peer["cpu"] / ours["cpu"] if peer else ours["cpu"]
        line = [self.version, time.strftime("%Y-%m-%d"), what.replace("\\", ""), f"{ours['wall']:.3f}", f"{ours['cpu']:.3f}", name,
                f"{peer['wall'] / ours['wall']:.3f}" if peer else "", f"{number:.3f}" if peer else ""]
        before = self.kept.get((line[2], name))
        if before and not 1 / 1.1 < number / before < 1.1:
            self.moved.append(f"{line[2]}{', ' + name if name else ''}: {'ratio' if peer else 'processor seconds'} {before:.2f} -> {number:.2f}")
        self.lines.append(line)

    def read_history(self):
        """The last number of each row: the ratio by processor time, or, without a peer, the processor seconds."""
        path = os.path.join(HERE, "history.tsv")
        rows = [line.rstrip("\n").split("\t") for line in open(path)][1:] if os.path.exists(path) else []
        return {(r[2], r[5]): float(r[7] or r[4]) for r in rows}

    def same(self, what, ours, peer, tolerance=0.0):
        if peer is not None and not abs(ours - peer) <= tolerance * max(1, abs(peer)):
            raise SystemExit(f"bench: {what}: ours says {ours}, the peer {peer}")

    # ---- the groups ----

    def limits(self):
        def number(args):
            return float(sh(f"{self.tool}/bench-limit {args}")[2])
        f = self.log(1)
        size = os.path.getsize(f) / 1e9
        m, = self.medians([f"cat {f} | cat >/dev/null"])
        self.cat = size / m["wall"]
        self.xxh3 = number("xxh3")
        self.print(f"Limits: cat \\| cat {self.cat:.2f} GB/s, XXH3 {self.xxh3:.1f} GB/s, triad {number('triad'):.1f} GB/s, one thread each.")

    def control(self):
        spin = f"{self.tool}/bench-limit spin"
        one, two = self.medians([f"{spin} >/dev/null", f"{spin} >/dev/null & {spin} >/dev/null; wait"])
        self.row("control: the same arithmetic in one process, and in two at once", f"{one['wall']:.2f} s", f"{two['wall']:.2f} s",
                 f"{2 * one['wall'] / two['wall']:.2f}", "2.00", "two free cores")

    def sizes(self):
        return sorted({1, self.million})

    def vw(self, text):
        """vw at its best, from text and from its cache: weights of 2^22 or 2^24, of those whose log loss is within 1e-4 of the least."""
        ways = {bits: f"{VW} -b {bits}" for bits in (22, 24)}
        if self.have["vowpalwabbit"]:
            losses = f"{text}.losses"
            if not os.path.exists(losses):
                with open(losses, "w") as f:
                    json.dump({bits: self.once(self.peer("vw", text, f"{text}.{bits}.cache", way))["log_loss"] for bits, way in ways.items()}, f)
            with open(losses) as f:
                loss = {int(bits): l for bits, l in json.load(f).items()}
            ways = {bits: way for bits, way in ways.items() if loss[bits] < min(loss.values()) + 1e-4}
        return [{f"-b {bits}": self.peer("vw", text, cache.format(bits), way) for bits, way in ways.items()} for cache in ("-", text + ".{}.cache")]

    def against_vw(self, m, lr):
        """Learning m million rows against vw from its cache; what is found of vw, or {}."""
        f, text, rate = self.features(m), f"{self.dir}/{m}m/log.vw", (m, "M rows/s")
        _, found = self.compare(f"train lr f64, {m}M rows of 39 features, from a stream", f"{lr} {f}",
                                [("vw cache", "vowpalwabbit", self.vw(text)[1])], "8", "5.7-6.9 M rows/s", rate)
        for what, flags in (("the same, -j 2", "-j 2"), ("the same, f32", "--precision f32")):
            ours, _ = self.compare(what, f"{lr} {flags} {f}", rate=rate)
            if found:
                self.row("", "", "vw cache, above", self.ratio(found["vw cache"], ours))
        return found

    def text_to_model(self, m, lr):
        plan, log, rate = self.plan("criteo.plan", PLAN), f"{self.dir}/{m}m/log", (m, "M rows/s")
        _, found = self.compare(f"text to model, {m}M rows: import \\| extract \\| train",
                     f"ctr-import -q --columns '{COLUMNS}' {log}.tsv | ctr-extract -q {plan} | {lr}",
                     [("vw text", "vowpalwabbit", self.vw(f"{log}.vw")[0])], "7", "", rate)
        self.compare("the same, each -j 2", f"ctr-import -q -j 2 --columns '{COLUMNS}' {log}.tsv | ctr-extract -q -j 2 {plan} | {lr} -j 2", rate=rate)
        whole = self.plan(f"criteo-{m}m.plan", f'from log = tsv("{os.path.abspath(log)}.tsv", columns="{COLUMNS}")\n' + PLAN)
        one, = self.medians([f"{lr} {whole}"])
        self.row("the same in one command, whose plan reads the text", self.cell(one, rate), "vw text, above" if found else "",
                 self.ratio(found["vw text"], one) if found else "", "7")
        self.keep(f"text to model, {m}M rows, in one command", one, "vw text" if found else "", found.get("vw text"))

    def log_to_model(self, m, lr):
        plan, log = self.plan("criteo.plan", PLAN), self.log(m)
        self.compare(f"log to model, {m}M rows: train with a plan, -j 2", f"{lr} -j 2 {plan} {log}",
                     [("ours: extract -j 2 \\| train -j 2", "ctr-extract", f"ctr-extract -q -j 2 {plan} {log} | {lr} -j 2")],
                     "1.2", "", (m, "M rows/s"))

    def train(self):
        lr, f = f"ctr-train lr -q --alpha 0.1 --beta 1 -o {self.dir}/m.arrows", self.features(1)
        found, *_ = [self.against_vw(m, lr) for m in self.sizes()]
        if "--minibatch" in sh("ctr-train lr --help")[2]:
            mini = f"{lr} --minibatch 64"
            ours, base = self.medians([f"{mini} {f}", f"{lr} {f}"])
            self.versus("train lr --minibatch 64", ours, "ours row by row", base, (1, "M rows/s"), "1")
        for what, flags, than in (("q2.13", "--precision q2.13", "--precision f32"), ("counts", "--learning-rate counts", ""),
                                  ("counts in f32", "--learning-rate counts --precision f32", "--precision f32")):
            ours, base = self.medians([f"{lr} {flags} {f}", f"{lr} {than} {f}"])
            self.versus(f"train lr {what}", ours, f"ours {than or 'with squares'}", base, (1, "M rows/s"), "1")
        score = f"ctr-predict -q {self.dir}/m.arrows {f} -o {self.dir}/p.arrows"
        self.once(f"{lr} {f}")
        ours, base = self.medians([score.replace("-q", "-q --uncertainty"), score])
        self.versus("predict --uncertainty", ours, "ours without", base, (1, "M rows/s"), "0.87")
        told = f"{lr} --progressive {self.dir}/p.arrows {f}"
        ours, base = self.medians([told.replace("-q", "-q --uncertainty"), told])
        self.versus("train lr --progressive --uncertainty", ours, "ours without", base, (1, "M rows/s"), "0.87")
        loss = float(re.search(r"progressive log loss ([0-9.]+)", sh(f"{lr.replace('-q ', '')} {f}")[3]).group(1))
        theirs = found["vw cache"]["log_loss"] if found else None
        self.row("progressive log loss", f"{loss:.6f}", f"vw {theirs:.6f}" if found else "", goal="equal or better")
        for m in self.sizes():
            self.text_to_model(m, lr)
            self.log_to_model(m, lr)

    def many(self):
        """What inclusion and many models in one pass cost, against one plain model."""
        lr = f"ctr-train lr -q -o {self.dir}/m.arrows"
        variants = self.plan("variants", "".join(f"v{i} alpha={0.02 * (i + 1):.2f} l1={i % 3}\n" for i in range(16)))
        sixty_four = self.plan("variants64", "".join(f"v{i} alpha={0.005 * (i + 1):.3f} l1={i % 3}\n" for i in range(64)))
        single = self.plan("sixteen", "".join(f"v{i} out=C{i + 1}\n" for i in range(16)))
        sixteen = f"ctr-train lr -q -o '{self.dir}/v-%s.arrows'"
        rows = [("--inclusion bloom=1", f"{lr} --inclusion bloom=1", "1.25"), ("--inclusion bloom=2", f"{lr} --inclusion bloom=2", "1.25"),
                ("--inclusion poisson=0.1", f"{lr} --inclusion poisson=0.1", "1.1"),
                ("--variants, 16 of them", f"{sixteen} --variants {variants}", "4"),
                ("the same, -j 2", f"{sixteen} -j 2 --variants {variants}", "4"),
                ("--variants, 64 of them", f"{sixteen} --variants {sixty_four}", "10"),
                ("the same, --single-value", f"{sixteen} --single-value --variants {single}", "4")]
        plain, *got = self.medians([f"{command} {self.features(1)}" for command in [lr] + [r[1] for r in rows]])
        for (what, _, goal), took in zip(rows, got):
            self.versus(f"train lr {what}, 1M rows", took, "one plain model", plain, (1, "M rows/s"), f"<= {goal}", times=True)

    def deep(self):
        """Embedding&MLP, 26 fields x 10, 400-400-400, minibatches of 4096. Ours counts start, reading and the saved model too."""
        rows, peer_rows = (40 if self.a.quick else 160) * 4096, 40 * 4096
        f, torch = self.keys(rows), self.torch("deep")
        flops = 6 * (260 * 400 + 2 * 400 * 400 + 400) * rows / 1e9
        seconds, best_peer = {}, []
        for threads in (1, 2):
            ours, peers = [], []
            for run in range(self.runs):  # best against best
                ours.append(self.once(f"ctr-train mlp -q -j {threads} --embedding 10 --hidden 400,400,400 --minibatch 4096 -o {self.dir}/deep.model {f}"))
                for blas in (threads, 2) if torch and threads == 1 else (threads,) if torch else ():  # what suits it best may be a mixture
                    for how in self.again(best_peer) if run else ("sparse", "dense", "compiled"):
                        command = f"unset OPENBLAS_CORETYPE; OPENBLAS_NUM_THREADS={blas} OMP_NUM_THREADS={blas} {torch} {HERE}/deep_torch.py {how} {threads}"
                        got = self.peer_seconds(f"{command} {peer_rows}", how, rows / peer_rows)
                        if not got:
                            continue
                        best_peer.append(got)
                        if blas == threads:
                            peers.append(got)
            best = min(ours, key=lambda m: m["wall"])
            peer = min(peers, key=lambda m: m["wall"], default=None)
            seconds[threads] = best["wall"]
            self.row(f"train mlp 26 x 10, 400-400-400, {threads} thread{'s' if threads > 1 else ''}, best of {self.runs}",
                     f"{self.cell(best, (rows / 1e3, 'k rows/s'))}, {flops / best['cpu']:.0f} GFLOP/s a processor",
                     f"PyTorch {peer['how']} {self.cell(peer, (rows / 1e3, 'k rows/s'))}" if peer else "", self.ratio(peer, best) if peer else "", "1.25",
                     "70% of sgemm (BENCH=gemm)")
        if best_peer:
            peer = min(best_peer, key=lambda m: m["wall"])
            self.row("the same, best against best of all settings", self.cell(best, (rows / 1e3, "k rows/s")),
                     f"PyTorch {peer['how']} {self.cell(peer, (rows / 1e3, 'k rows/s'))}", self.ratio(peer, best), "1.25")
        self.row("control: mlp on one thread and on two", f"{seconds[1]:.2f} s", f"{seconds[2]:.2f} s", f"{seconds[1] / seconds[2]:.2f}", "2.00")
        self.feed()

    def spill(self):
        """Tables of ten and four times --memory, whose ids come by Zipf's law, beside all in memory; and what prefetching gains."""
        rows = 500000
        text = self.plan("zipf.plan", "label click\nfeature F[1..6]\n")
        log = ("""awk 'BEGIN {{ srand(1); print "click,F1,F2,F3,F4,F5,F6"; for (i = 0; i < ROWS; i++) {{ printf "%d", rand() < .3; """
               """for (f = 0; f < 6; f++) printf ",%d", int(exp(rand() * log(1e7))); print "" }} }}'""").replace("ROWS", str(rows))
        f = self.made(f"{self.dir}/zipf{rows}.arrows", f"{log} | ctr-import -q --format csv --header | ctr-extract -q {text} -o {{out}}")
        for model, options, some in (("mlp", "--embedding 32", ((10, " --prefetch 1"), (10, ""))), ("lr", "", ((10, ""), (4, "")))):
            train = f"ctr-train {model} -v {options} --minibatch 1000 -o {self.dir}/spill.model"
            keys, mib = self.table(f"{train} {f}")
            spills = [f"{train} --memory {int(mib * 1024 / part)}K --spill {self.dir}{ahead} {f}" for part, ahead in some]
            whole, *spilled = self.medians([f"{train} {f}", *spills])
            for (part, ahead), m in zip(some, spilled):
                hits, waited = re.search(r"memory hits +\d+ \((.*?)%", m["err"])[1], re.search(r"disk waited for +([\d.]+) s", m["err"])[1]
                self.row(f"train {model} {options}, {rows / 1e6:.1f}M rows, {keys / 1e6:.1f}M keys, {mib:.0f} MiB, 1/{part} in --memory{ahead}",
                         f"{self.cell(m, (rows / 1e3, 'k rows/s'))}, {hits}% hits, {waited} s waited",
                         "all in memory " + self.cell(whole, (rows / 1e3, "k rows/s")),
                         f"{m['wall'] / whole['wall']:.2f} ({m['cpu'] / whole['cpu']:.2f}) times the time", "" if ahead else "<= 2")

    def table(self, train):
        """Keys and MiB of the tables that a command with -v learns."""
        keys, size, unit = re.search(r"\nkeys +(\d+) \(([\d.]+) (MiB|GiB)", self.once(train)["err"]).groups()
        return int(keys), float(size) * (1024 if unit == "GiB" else 1)

    def cgroup(self):
        """Tables beyond memory in a memory cgroup of --memory and 64 MiB, which counts the pages of files; uniform keys beside the reads of the disk. One run."""
        if not os.path.isdir("/sys/fs/cgroup/memory"):
            return self.notes.append("cgroup: no memory cgroup (version 1) is mounted: its rows are left out.")
        group = f"/sys/fs/cgroup/memory/ctr-bench-{os.getpid()}"
        try:
            os.mkdir(group)
        except OSError as e:
            return self.notes.append(f"cgroup: no memory cgroup can be made ({e.strerror}): its rows are left out.")
        rows, text = 300000, self.plan("zipf.plan", "label click\nfeature F[1..6]\n")
        for name, key in (("Zipf", "exp(rand() * log(1e7))"), ("uniform", "rand() * 150000")):
            log = ("""awk 'BEGIN {{ srand(1); print "click,F1,F2,F3,F4,F5,F6"; for (i = 0; i < ROWS; i++) {{ printf "%d", rand() < .3; """
                   """for (f = 0; f < 6; f++) printf ",%d", int(KEY); print "" }} }}'""").replace("ROWS", str(rows)).replace("KEY", key)
            f = self.made(f"{self.dir}/{name}{rows}.arrows", f"{log} | ctr-import -q --format csv --header | ctr-extract -q {text} -o {{out}}")
            model, train = f"{self.dir}/spill.model", "ctr-train mlp -v --embedding 32 --minibatch 1000"
            keys, mib = self.table(f"{train} -o {model} {f}")
            some = [(part, ahead) for part in ((4, 10) if name == "Zipf" else (4,)) for ahead in ("", " --prefetch 1")]
            commands = []
            for part, ahead in some:
                kib = int(mib * 1024 / part)
                limit = f"echo {(kib << 10) + (64 << 20)} >{group}/memory.limit_in_bytes; echo 0 >{group}/memory.force_empty"
                commands.append(f"{limit}; (echo $BASHPID >{group}/cgroup.procs; exec {train} -o {model}{len(commands)} --memory {kib}K --spill {self.dir}{ahead} {f})")
            whole, *spilled = self.in_turn([f"{train} -o {model} {f}", *commands], 1)
            for i in range(len(commands)):
                sh(f"cmp {model} {model}{i} && rm {model}{i}")
            rate = float(sh(f"{self.tool}/bench-limit reads {self.dir} 4")[2])
            for (part, ahead), m in zip(some, spilled):
                hits, waited = re.search(r"memory hits +\d+ \((.*?)%", m["err"])[1], re.search(r"disk waited for +([\d.]+) s", m["err"])[1]
                read = int(re.search(r"disk rows read +(\d+)", m["err"])[1])
                bound = whole["wall"] + read / rate / 1000
                self.row(f"train mlp, {name} keys: {keys:,}, {mib:.0f} MiB, 1/{part} in a cgroup{ahead}", f"{self.cell(m)}, {hits}% hits, {waited} s waited",
                         f"all in memory {self.cell(whole)}; and {read:,} rows at {rate:.0f} k reads/s {bound:.2f} s",
                         f"{m['wall'] / whole['wall']:.2f} ({m['cpu'] / whole['cpu']:.2f}) times the time; {m['wall'] / bound:.2f} with the reads",
                         {4: "<= 2.5", 10: "<= 4"}[part] if name == "Zipf" else "<= 1.5 with the reads")
            self.cgroup_exact(name, f, group)
        os.rmdir(group)

    def cgroup_exact(self, name, f, group):
        """The same for lr, row by row: a part of all that it takes in memory, keys and index included."""
        model, train, parts = f"{self.dir}/exact.model", "ctr-train lr -v", (4, 10) if name == "Zipf" else (4,)
        keys, mib = self.table(f"{train} -o {model} {f}")
        commands = []
        for part in parts:
            kib = int(mib * 1024 / part)
            limit = f"echo {(kib << 10) + (64 << 20)} >{group}/memory.limit_in_bytes; echo 0 >{group}/memory.force_empty"
            commands.append(f"{limit}; (echo $BASHPID >{group}/cgroup.procs; exec {train} -o {model}{part} --memory {kib}K --spill {self.dir} {f})")
        whole, *spilled = self.in_turn([f"{train} -o {model} {f}", *commands], 1)
        for part, m in zip(parts, spilled):
            sh(f"cmp {model} {model}{part} && rm {model}{part}")
            full, sweeps = re.search(r"memory was full +(\d+)", m["err"])[1], re.search(r"disk keys read .* in (\d+) sweeps", m["err"])[1]
            self.row(f"train lr row by row, {name} keys: {keys:,}, {mib:.0f} MiB, 1/{part} in a cgroup", f"{self.cell(m)}, memory full {full} times, {sweeps} sweeps",
                     f"all in memory {self.cell(whole)}", f"{m['wall'] / whole['wall']:.2f} ({m['cpu'] / whole['cpu']:.2f}) times the time",
                     {4: "<= 2.5", 10: "<= 4"}[part])

    def images(self):
        """dicm, a small tower: each image of a table of random vectors of 4096 (CTR_BENCH_NUMBERS) numbers once, in random order, read from disk (a million
        with BENCH=images: 28 GB): beside the table in the system's cache, and the time in which 16 readers read as many bytes in pieces of 1 MiB."""
        n, width = 1000000 if self.only and not self.a.quick else 100000, int(os.environ.get("CTR_BENCH_NUMBERS", 4096))
        vectors = ("ctr-join -q --by-row {dir}/keys.arrows <({tool}/bench-log vectors {n} {width} | ctr-import -q -f npy | ctr-select -q --columns vector=value)"
                   " | ctr-cat -q --batch 64 --to file --key key").format(dir=self.dir, tool=self.tool, n=n, width=width)
        sh(f"seq 0 {n - 1} | ctr-import -q -f tsv --columns key:int64 -o {self.dir}/keys.arrows")
        plan = self.plan("images.plan", "label click\nimage photo\n")
        rows = self.made(f"{self.dir}/photos{n}.arrows", f"ctr-select -q --add 'click=key % 5 == 0' --add 'photo=key' {self.dir}/keys.arrows | ctr-sort --shuffle --seed 1 | ctr-extract -q {plan} -o {{out}}")
        plain = self.made(f"{self.dir}/float32.{n}.{width}.arrow", f"{vectors} -o {{out}}")
        rate = float(sh(f"{self.tool}/bench-limit reads {self.dir} 1024")[2]) * 1000
        for type in "float32", "float16", "int8":
            f = plain if type == "float32" else self.made(f"{self.dir}/{type}.{n}.{width}.arrow", f"ctr-embed-images -q --vectors --type {type} -o {{out}} {plain}")
            bound = os.path.getsize(f) / 1048576 / rate
            train = f"ctr-train dicm -q --images {f} --images-tower 8 --hidden 8 --embedding 4 --minibatch 2000 -o /dev/null"
            cold = f"dd if={f} iflag=nocache count=0 status=none; "
            disk, ahead = self.in_turn([f"{cold}{train} {rows}", f"{cold}{train} --prefetch 1 {rows}"], 1 if n > 100000 else self.runs)
            warm, = self.in_turn([f"cat {f} >/dev/null; {train} {rows}"], 1)
            self.row(f"train dicm, {n:,} images of {width} {type}, {os.path.getsize(f) / 1e9:.1f} GB, from disk",
                     f"{self.cell(disk, (n / 1e3, 'k rows/s'))}; --prefetch 1 {self.cell(ahead, (n / 1e3, 'k rows/s'))}",
                     f"read once before {self.cell(warm, (n / 1e3, 'k rows/s'))}; as many bytes, 16 readers {bound:.1f} s",
                     f"{ahead['wall'] / bound:.2f} times the reads", "<= 1.5")

    def din(self):
        """Attention over 30 behaviours of two columns a row, minibatches of 4096. Ours counts start, reading and the saved model too; with -q and without
        --progressive it makes no predictions before updates."""
        rows, peer_rows = (20 if self.a.quick else 80) * 4096, 10 * 4096
        f, torch, ours, peers = self.behaviours(rows), self.torch("din"), [], []
        for run in range(self.runs):
            for threads in (1, 2):
                ours.append(self.once(f"ctr-train din -q -j {threads} --embedding 16 --minibatch 4096 -o {self.dir}/din.model {f}"))
                for mode in () if not torch else self.again(peers) if run else ("eager", "compile", "dense"):
                    wall, cpu = sh(f"{torch} {HERE}/din_torch.py {threads} {peer_rows} {mode} 2>/dev/null")[2].split()
                    peers.append({"wall": float(wall) * rows / peer_rows, "cpu": float(cpu) * rows / peer_rows, "how": mode})
        best = {k: min(m[k] for m in ours) for k in ("wall", "cpu")}
        peer = {k: min(m[k] for m in peers) for k in ("wall", "cpu")} if peers else None
        self.row(f"train din, 30 behaviours, best against best of all settings, best of {self.runs}", self.cell(best, (rows / 1e3, "k rows/s")),
                 f"PyTorch {self.cell(peer, (rows / 1e3, 'k rows/s'))}" if peer else "", self.ratio(peer, best) if peer else "", "2")

    def behaviours(self, rows):
        """Features of impressions with the last 30 behaviours of the user: each has all 30."""
        d = os.path.join(self.dir, "din")
        os.makedirs(d, exist_ok=True)
        events = self.made(f"{d}/behaviours.arrows", """awk 'BEGIN {{ srand(1); print "user,time,item,cat"
            for (t = 0; t < 30; t++) for (u = 0; u < 5000; u++) {{ i = int(rand() ^ 3 * 50000); print u "," t "," i "," i % 500 }} }}' |
            ctr-import -q -f csv --header --columns user:int32,time:int64,item:int32,cat:int32 --user user --time time -o {out}""")
        shown = self.made(f"{d}/shown{rows}.arrows", """awk 'BEGIN {{ srand(2); print "click,user,time,item,cat,a,b"
            for (k = 0; k < %d; k++) {{ i = int(rand() ^ 3 * 50000)
            print (rand() < 0.25) "," int(rand() * 5000) "," 100 + k "," i "," i % 500 "," int(rand() ^ 3 * 1000) "," int(rand() ^ 3 * 100) }} }}' |
            ctr-import -q -f csv --header --columns click:int8,user:int32,time:int64,item:int32,cat:int32,a:int32,b:int32 --user user --time time -o {out}""".replace("%d", str(rows)))
        plan = self.plan("din.plan", "label click\nfeature item\nfeature cat\nfeature past in item = history.item\nfeature pastcat in cat = history.cat\n"
                         "feature a\nfeature b\nfeature user\n")
        return self.made(f"{d}/rows{rows}.arrows", f"ctr-history -q -c item,cat --last 30 --behaviours {events} {shown} | ctr-extract -q {plan} -o {{out}}")

    def again(self, peers):
        """Of the ways to train in PyTorch, each of which is run once, that which is run again: the fastest."""
        return [min(peers, key=lambda m: m["wall"])["how"]] if peers else []

    def peer_seconds(self, command, how, scale):
        """What PyTorch takes for the rows that ours takes; None where this one cannot train so (torch.compile wants a C++ compiler)."""
        try:
            wall, cpu = sh(command)[2].split()[-2:]
        except SystemExit:
            note = f"PyTorch cannot train by `{how}` here: left out."
            if note not in self.notes:
                self.notes.append(note)
            return None
        return {"wall": float(wall) * scale, "cpu": float(cpu) * scale, "how": how}

    def keys(self, rows):
        """The log's label and 26 categories."""
        columns = "click," + ",".join(f"C{i}" for i in range(1, 27))
        return self.made(os.path.join(self.dir, f"1m/keys{rows}.arrows"), f"ctr-select -q --columns {columns} --head {rows} {self.features(1)} -o {{out}}")

    def torch(self, group, test="True"):
        """A Python whose PyTorch passes a test, or None."""
        have = lambda p: not subprocess.call([p, "-c", f"import sys, torch; sys.exit(not {test})"], stderr=subprocess.DEVNULL)
        python = next((p for p in (self.python, "/usr/bin/python3") if have(p)), None)
        if not python:
            self.notes.append(f"PyTorch is absent: {group} goes without it (Debian: python3-torch, libopenblas0-pthread).")
        return python

    def feed(self):
        got = [[float(x) for x in sh(f"{self.tool}/bench-limit feed {self.keys(1000000)}")[2].split()] for _ in range(self.runs)]
        wall, cpu = (statistics.median(g[i] for g in got) for i in (0, 1))
        self.row("the reader: rows of 26 keys to a learner", f"{wall:.1f} GB/s ({cpu:.1f} a processor)", goal="2 GB/s")

    def gpu(self):
        """On a GPU, for minibatches of several sizes: passes over 1M rows, start and the first pass left out."""
        for minibatch in (4096, 8192, 16384, 32768, 65536):
            if not self.gpu_mlp((minibatch,)):
                return
            rows = int(os.environ.get("CTR_BENCH_ROWS", 1000000))
            train = f"ctr-train lr -v -j 0 --minibatch {minibatch} -o {self.dir}/lr.model {self.keys(rows)}"
            cpu, _ = self.passes(f"{train} --precision f32", rows)
            rate, said = self.passes(f"{train} --device gpu", rows)
            self.row(f"train lr on the GPU, minibatches of {minibatch}", f"{rate:.0f} k rows/s", f"on the CPU {cpu:.0f} k rows/s", f"{rate / cpu:.1f}")
            self.shares(f"{train} --device gpu", said)
        self.gpu_din()
        self.feed()
        self.gpu_featurebox()

    def gpu_mlp(self, minibatches=(4096, 65536)):
        """mlp beside PyTorch. False: there is no GPU."""
        rows = int(os.environ.get("CTR_BENCH_ROWS", 1000000))
        f, torch = self.keys(rows), self.torch("gpu", "torch.cuda.is_available()")
        for minibatch in minibatches:
            train = f"ctr-train mlp -v --device gpu --embedding 10 --hidden 400,400,400 --minibatch {minibatch} -o {self.dir}/deep.model {f}"
            if not self.gpu_run(train):
                return False
            rate, said = self.passes(train, rows)
            plain, _ = self.passes(f"CTR_CUDA_GRAPHS=0 {train}", rows)
            peers = [self.peer_seconds(f"{torch} {HERE}/deep_torch.py {how} 2 {40 * minibatch} {minibatch} cuda", how, 1)
                     for how in ("sparse", "dense", "compiled") for _ in range(self.runs if torch else 0)]
            peer = min((x for x in peers if x), key=lambda m: m["wall"], default=None)
            theirs = 40 * minibatch / peer["wall"] / 1e3 if peer else 0
            self.row(f"train mlp on the GPU, minibatches of {minibatch}", f"{rate:.0f} k rows/s", f"PyTorch {peer['how']} {theirs:.0f} k rows/s" if peer else "",
                     f"{rate / theirs:.1f}" if peer else "", "3")
            self.row("- a step", f"{minibatch / rate:.3f} ms", f"without CUDA graphs {minibatch / plain:.3f} ms", f"{rate / plain:.2f}")
            self.shares(train, said)
        return True

    def gpu_din(self):
        """din's rows as on the CPU (din), on the GPU. With -v a first pass makes predictions before updates; later passes, which count, make none."""
        rows = int(os.environ.get("CTR_BENCH_ROWS", 80 * 4096))
        f, torch = self.behaviours(rows), self.torch("gpu din", "torch.cuda.is_available()")
        for minibatch in (4096, 16384):
            train = f"ctr-train din -v --device gpu --embedding 16 --minibatch {minibatch} -o {self.dir}/din.model {f}"
            if not self.gpu_run(train):
                return
            rate, said = self.passes(train, rows)
            peers = [self.peer_seconds(f"{torch} {HERE}/din_torch.py 2 {10 * minibatch} {how} {minibatch} cuda", how, 1)
                     for how in ("eager", "compile", "dense") for _ in range(self.runs if torch else 0)]
            peer = min((x for x in peers if x), key=lambda m: m["wall"], default=None)
            theirs = 10 * minibatch / peer["wall"] / 1e3 if peer else 0
            self.row(f"train din on the GPU, 30 behaviours, minibatches of {minibatch}", f"{rate:.0f} k rows/s",
                     f"PyTorch {peer['how']} {theirs:.0f} k rows/s" if peer else "", f"{rate / theirs:.1f}" if peer else "", "3")
            self.shares(train, said)

    def gpu_run(self, command):
        """What a command for the GPU printed, or None and a note: there is no GPU."""
        p = subprocess.run(command, shell=True, capture_output=True, text=True)
        if p.returncode == 77 or "no GPU" in p.stderr:
            self.notes.append(f"gpu: {p.stderr.strip().splitlines()[-1]}")
            return None
        assert p.returncode == 0, f"{command}: {p.stderr[-2000:]}"
        return p

    def gpu_featurebox(self):
        """A plan's layers on a GPU ("FeatureBox", Table 1 and sections 4 and 5). $CTR_BENCH_ROWS: rows of the logs."""
        launches = self.gpu_run(f"{self.tool}/bench-gpu launches {os.environ.get('CTR_BENCH_LAUNCHES', 10000)}")
        if not launches:
            return
        rows = int(os.environ.get("CTR_BENCH_ROWS", 1000000))
        for line in launches.stdout.splitlines()[1:]:
            what, us, note = line.split("\t")
            self.row(f"empty kernel: {what}", f"{us} us", note)
        lines = [line.split("\t") for line in self.gpu_run(f"{self.tool}/bench-gpu split {min(rows, 65536)}").stdout.splitlines()[1:]]
        for i, (what, us, note) in enumerate(lines):
            self.row(f"a layer of 8 splits, memory: {what}", f"{us} us, {note.split(',')[0]}", ratio=f"{float(us) / float(lines[0][1]):.1f}" if i else "")
        whole = " ".join([self.log(1)] * -(-rows // 1000000))
        log = self.made(f"{self.dir}/1m/gpu{rows}.arrows", f"ctr-select -q --batch 65536 --head {rows} {whole} -o {{out}}")
        with open(os.path.join(HERE, "../../examples/criteo.plan")) as f:
            text = "".join(line for line in f if not line.startswith("id"))  # the log has no numbers of rows
        here = self.plan("criteo39.plan", text)
        self.gpu_compile(here, log)
        self.gpu_plan("39 features, examples/criteo.plan", here, log, rows, ("", "400 M rows/s", "100 M rows/s"))
        self.gpu_plan("100 features with text", self.plan("text100.plan", TEXT_PLAN), log, rows, ("10 M rows/s, 5 times the CPU", "", ""))
        train = f"ctr-train lr -v -j 0 --device gpu --minibatch 4096 -o {self.dir}/gpu.model"
        ready = self.made(f"{self.dir}/1m/gpu{rows}.features", f"ctr-extract -q {here} {log} -o {{out}}")
        if not self.gpu_run(f"{train} {ready}"):
            return
        alone, fused = self.passes(f"{train} {ready}", rows)[0], self.passes(f"{train} {here} {log}", rows)[0]
        self.row("training, extraction on the GPU in the same process", f"{fused:.0f} k rows/s", f"from ready features {alone:.0f} k rows/s",
                 f"{alone / fused:.3f}", "1.03")
        raw, tsv = self.plan("raw39.plan", f"from log = tsv(columns=\"{COLUMNS}\")\n{text}"), self.data(1, "ads") + "/log.tsv"
        if rows < 1000000:
            tsv = self.made(f"{self.dir}/1m/gpu{rows}.tsv", f"head -n {rows} {tsv} >{{out}}")
        rate = self.passes(f"{train} {raw} log={tsv}", min(rows, 1000000))[0]
        self.row("training from the raw text", f"{rate:.0f} k rows/s, {os.path.getsize(tsv) / min(rows, 1000000) * rate / 1e6:.2f} GB/s", goal="1.3 GB/s")

    def gpu_compile(self, plan, log):
        """Cold and cached, of all layers of a plan."""
        with tempfile.TemporaryDirectory() as cache:
            said = [self.once(f"XDG_CACHE_HOME={cache} ctr-extract -v --explain --device gpu {plan} {log} >{cache}/shown") for _ in range(2)]
        ms = [sum(float(x) for x in re.findall(r"(?:compiled|cached) in ([0-9.]+) ms", s["err"])) for s in said]
        self.row("kernels of examples/criteo.plan: compiled, cached", f"{ms[0]:.0f} ms ({said[0]['cpu'] * 1e3:.0f}), {ms[1]:.2f} ms", goal="1 s, 1 ms")

    def gpu_plan(self, what, plan, log, rows, goals):
        """Ways to launch, the same bytes, and the CPU. Rates are of a log read twice, less that of once: without the start."""
        extract = f"ctr-extract -v -j 0 {plan}"
        digest = lambda device: sh(f"ctr-extract -q {device} {plan} {log} | ctr-info --digest -")[2].split()[0]

        def rate(device):
            once, twice = self.medians([f"{extract} {device} {log} {SINK}", f"{extract} {device} {log} {log} {SINK}"])
            return rows / 1e6 / max(twice["wall"] - once["wall"], 1e-9), once["err"]
        cpu = rate("")[0]
        for i, launch in enumerate(("meta", "graph", "each")):
            device = f"--device gpu --launch {launch}"
            assert digest(device) == digest(""), f"{what}: --launch {launch} gives other rows than the CPU"
            gpu, said = rate(device)
            layers = re.findall(r"(\d+) launches and (\d+) to compact.*, (\d+) waits.*kernels ([0-9.]+) ms, with copies ([0-9.]+) ms", said)
            launches, waits = (sum(int(x[k]) for x in layers) for k in (0, 2))
            kernels, copies = (rows / 1e3 / max(sum(float(x[k]) for x in layers), 1e-9) for k in (3, 4))
            self.row(f"{what}, --launch {launch}", f"{gpu:.2f} M rows/s, {launches} launches, {waits} waits", "" if i else f"CPU {cpu:.2f} M rows/s",
                     f"{gpu / cpu:.1f}", "" if i else goals[0])
            self.row("- columns resident on the device: kernels alone, on its clock", f"{kernels:.1f} M rows/s", goal="" if i else goals[1])
            self.row("- from and to page-locked memory, on its clock", f"{copies:.1f} M rows/s", goal="" if i else goals[2])

    def passes(self, train, rows):
        """Thousand rows a second without start and first pass, and what five passes said."""
        one, five = self.medians([train, f"{train} --passes 5"])
        return 4 * rows / (five["wall"] - one["wall"]) / 1e3, five["err"]

    def shares(self, train, said):
        """Rows on what the time of a run goes for, and on its working set."""
        groups = {"gemm": "gemm", "gather": "unique pool pool_grad move_rows slots", "optimizer": "opt_dense opt_rows", "input": "input"}
        time = {k: float(p) for k, p in re.findall(r"^time (.*?) +[0-9.]+ s \(([0-9.]+)%\)", self.once(f"CTR_PROFILE=1 {train}")["err"], re.M)}
        share = {k: sum(time.get(o, 0) for o in ops.split()) for k, ops in groups.items()}
        self.row("its time, each operation waited for", ", ".join(f"{k} {p:.0f}%" for k, p in share.items()) + f", the rest {100 - sum(share.values()):.0f}%")
        counts = dict(re.findall(r"^device (hits|misses|evictions) +(\d+)", said, re.M))
        self.row("its working set, 5 passes", ", ".join(f"{k} {n}" for k, n in counts.items()))

    def imports(self):
        tsv = self.data(1, "ads") + "/log.tsv"
        csv = self.made(f"{self.dir}/1m/log.csv", f"tr '\\t' , <{tsv} >{{out}}")
        json_ = f"{self.dir}/1m/log.jsonl"
        names = ["click:int8"] + [f"I{i}:int32" for i in range(1, 14)] + [f"C{i}:utf8" for i in range(1, 27)]
        for kind, path, sep in (("tsv", tsv, "\\t"), ("csv", csv, ",")):
            mb = os.path.getsize(path) / 1e6
            self.compare(f"import {kind}, 40 columns", f"ctr-import -q -f {kind} --columns '{COLUMNS}' {path} {SINK}",
                         [("polars", "polars", self.peer("polars-csv", path, sep, ",".join(names))),
                          ("duckdb", "duckdb", self.peer("duckdb-csv", path, sep, ",".join(names)))], "600 MB/s", "", (mb, "MB/s"))
            self.compare(f"import {kind}, -j 2", f"ctr-import -q -j 2 -f {kind} --columns '{COLUMNS}' {path} {SINK}", rate=(mb, "MB/s"))
        mb = os.path.getsize(json_) / 1e6
        some = [n for n in names if n.split(":")[0] in ("click", "I5", "C3", "C9")]
        for what, columns, goal in (("all 40 fields", names, "700 MB/s, 3"), ("4 fields of 40", some, "")):
            fields = [n.split(":")[0] for n in columns]
            self.compare(f"import jsonl, {what}", f"ctr-import -q -f jsonl --columns {','.join(columns)} {json_} {SINK}",
                         [("polars", "polars", self.peer("polars-json", json_, *fields)),
                          ("duckdb", "duckdb", self.peer("duckdb-json", json_, *fields))], goal, "", (mb, "MB/s"))
        self.compare("import jsonl, all 40 fields, -j 2", f"ctr-import -q -j 2 -f jsonl --columns {','.join(names)} {json_} {SINK}", rate=(mb, "MB/s"))

    def extract(self):
        f, plan = self.log(1), self.plan("criteo.plan", PLAN)
        for j in (1, 2):
            self.compare(f"extract, 39 features, -j {j}", f"ctr-extract -q -j {j} {plan} {f} {SINK}", rate=(1, "M rows/s"),
                         goal="2 M rows/s" if j == 1 else "", limit="77-99 ns a row by hand (AVX-512)" if j == 1 else "")

    def parquet(self):
        """Parquet to features: all columns and 5 of 40, each reader in a pipe to ctr-extract, whose time counts for all."""
        words = "label click\n" + "".join(f"feature {c}\n" for c in ["title", "query", "body", "url"] + [f"T{i}" for i in range(35)])
        logs = {"ads": (PLAN, "label click\nfeature I1\nfeature I2\nfeature C1\nfeature C2\n", "click,I1,I2,C1,C2"),
                "texts": (words, "label click\nfeature title\nfeature query\nfeature url\nfeature T1\n", "click,title,query,url,T1")}
        if not self.have["pyarrow"]:
            return self.notes.append("pyarrow is absent: there is no Parquet to read.")
        for kind, (all_of, few, names) in logs.items():
            for codec in "snappy", "zstd":
                f = self.made(f"{self.dir}/1m/{kind}.{codec}.parquet", f"{self.python} {HERE}/peers.py parquet_make {kind} {codec} {self.log(1)} {{out}} >/dev/null")
                for what, text, columns in (("all 40 columns", all_of, "-"), ("5 of 40 columns", few, names)):
                    plan = self.plan(f"parquet-{kind}-{columns[:1]}.plan", text)
                    peers = [(n, m, self.peer("parquet", m, f, columns, plan)) for n, m in (("pyarrow", "pyarrow"), ("DuckDB", "duckdb"), ("Polars", "polars"))]
                    option = "" if columns == "-" else f" --columns {columns}"
                    ours, _ = self.compare(f"Parquet to features, {kind}, {codec}, {what}, 1M rows", f"ctr-import -q{option} {f} | ctr-extract -q {plan} {SINK}",
                                           peers, "1" if columns == "-" else "1.5", rate=(1, "M rows/s"))
                    self.compare(f"Parquet to features, {kind}, {codec}, {what}, each -j 2", f"ctr-import -q -j 2{option} {f} | ctr-extract -q -j 2 {plan} {SINK}", rate=(1, "M rows/s"))
                    if kind == "ads" and codec == "snappy":
                        base, = self.medians([f"ctr-extract -q {plan} {self.log(1)} {SINK}"])
                        self.versus(f"the same from the stream that csv made, {what}", ours, "ctr-extract of the stream", base, goal="1.5")
                        self.compare(f"features of the stream that csv made, {what}, -j 2", f"ctr-extract -q -j 2 {plan} {self.log(1)} {SINK}", rate=(1, "M rows/s"))

    def views(self, n):
        """The folder of n impressions with their views, and the views as arguments (examples/featurebox.sh)."""
        d = os.path.abspath(f"{self.dir}/views-{n}")
        self.made(f"{d}.made", f"OUT={d} ROWS={n} ONLY=views {self.featurebox_script} && touch {{out}}")
        logs = f"{d}/logs"
        return d, f"impressions={logs}/impressions.tsv clicks={logs}/clicks.tsv users={logs}/users.tsv ads={logs}/ads.jsonl basic={logs}/basic.tsv"

    featurebox_script = os.path.join(HERE, "../../examples/featurebox.sh")
    featurebox_plan = os.path.join(HERE, "../../examples/featurebox.plan")

    def featurebox(self):
        """Views to a model: one command, the filters in pipes, and staged by files (examples/featurebox.sh has the commands)."""
        n = int(os.environ.get("CTR_BENCH_ROWS", 200000 if self.a.quick else 1000000))  # 80 million are 10 GB of text
        d, views = self.views(n)
        found = {}
        for _ in range(self.runs):
            out = sh(f"OUT={d} ROWS={n} {self.featurebox_script}")[2].splitlines()
            assert out[-1] == "models that differ: 0", out[-1]
            for line in out[-8:]:
                f = line.split("\t")
                if len(f) > 1:
                    found.setdefault(f[0], []).append([float(x) for x in f[1:]])
        m = {k: [statistics.median(x) for x in zip(*v)] for k, v in found.items()}
        cell = lambda k: f"{m[k][0]:.2f} s ({m[k][2]:.2f}), {m[k][3]:.0f} MB read, {m[k][4]:.0f} written"
        kept = {"staged": f"{m['intermediate'][0] / 1e6:.0f} MB between stages", "text": f"{m['intermediate, gzip'][0] / 1e6:.0f} MB between stages"}
        for k, what, goal in (("text", "staged, gzip-compressed text", "5"), ("staged", "staged, streams", ""), ("pipe", "filters in pipes", "1.2")):
            self.row(f"views to a model in one command, {n / 1e6:g}M rows" if k == "text" else "",
                     f"{cell('fused')}, {n / m['fused'][0] / 1e3:.0f} k rows/s" if k == "text" else "", f"{what} {cell(k)}",
                     f"{m[k][0] / m['fused'][0]:.1f} ({m[k][2] / m['fused'][2]:.1f})", goal, kept.get(k, ""))
        if self.have.get("pyspark"):
            spark = self.once(self.peer("spark_staged", f"{d}/logs", f"{d}/spark"))
            self.row("", "", f"Spark, three jobs to features {spark['wall']:.2f} s, no training", f"{spark['wall'] / m['fused'][0]:.1f}", "5")
            shutil.rmtree(f"{d}/spark")
            self.same_features(n, {"Spark, three jobs": spark})
        for size in sorted({10000, n}):
            self.extraction(size)

    def extraction(self, n=int(os.environ.get("CTR_BENCH_ROWS", 1000000))):
        """Views to features alone. What prepares: of ours --explain, which opens the views and makes the plan; of the peers the start."""
        d, views = self.views(n)
        extract = f"ctr-extract -q -j 2 {self.featurebox_plan} {views}"
        prepare, = self.medians([f"ctr-extract --explain {self.featurebox_plan} {views} >/dev/null"])
        peers = [("DuckDB", "duckdb", self.peer("duckdb_featurebox", f"{d}/logs")), ("Polars", "polars", self.peer("polars_featurebox", f"{d}/logs"))]
        ours, found = self.compare(f"views to features, {n / 1e6:g}M rows, -j 2", f"{extract} {SINK}", peers, "1, aim 3",
                                   f"{prepare['wall'] * 1e3:.0f} ms of it prepare", (n / 1e6, "M rows/s"))
        if self.have.get("pyspark"):
            found["Spark"] = m = self.once(self.peer("spark_featurebox", f"{d}/logs"))
            self.row("", "", f"Spark {self.cell(m)}, second pass", f"{m['wall'] / ours['wall']:.1f}")
        self.row("", "", ", ".join(f"{k} {p['start']:.1f} s" for k, p in found.items()) + " to start and to count what it found, not in these")
        self.same_features(n, found)

    def same_features(self, n, found):
        """Peers have as many rows and clicks, and in each list as many keys and different keys: of words, interests, queries and what is made of them."""
        extract = f"ctr-extract -q -j 2 {self.featurebox_plan} {self.views(n)[1]}"
        count = lambda of, awk: [int(x) for x in sh(f"{extract} | {of} | ctr-export -q -f csv --no-header | awk -F, '{awk}'")[2].split()]
        rows = count("ctr-select -q --columns clicked", "{ n += $1 } END { print NR, n }")
        keys = {k: count(f"ctr-select -q --explode {k} --columns {k} | ctr-group -q -k {k} --add 'n=count()'", "{ n += $2 } END { print n, NR }")
                for k in re.findall(r"^(\w+) +list<", sh(f"{extract} | ctr-info")[2], re.M)}
        for name, p in found.items():
            for what, ours, peers in (("rows, clicks", rows, [p["rows"], p["clicked"]]), ("lists", keys, p["keys"])):
                if ours != peers:
                    raise SystemExit(f"bench: views to features: {what}: ours says {ours}, {name} {peers}")

    def wide(self):
        """Text to features of as many cells in rows of 10 and of 1,000 columns: what a cell costs."""
        cells, took = 10000000, {}
        for width in (10, 1000):
            d = f"{self.dir}/wide"
            os.makedirs(d, exist_ok=True)
            text = self.made(f"{d}/{width}.csv", """awk 'BEGIN {{ srand(3); for (r = 0; r < ROWS; r++) {{ printf "%d", rand() < .3
                for (c = 1; c < WIDTH; c++) printf ",%d", 1000 * rand() * rand(); print "" }} }}' >{out}""".replace("ROWS", str(cells // width)).replace("WIDTH", str(width)))
            plan = self.plan(f"wide{width}.plan", f"label click\nfeature F[1..{width - 1}]\n")
            took[width] = f"ctr-import -q -f csv --columns 'click:int8,F[1..{width - 1}]:int32' {text} | ctr-extract -q {plan} | ctr-train lr -q -o {self.dir}/m.arrows"
        narrow, wide = self.medians([took[10], took[1000]])
        ns = [m["cpu"] * 1e9 / cells for m in (wide, narrow)]
        self.row("text to model, 10M cells, rows of 1,000 columns: processor time a cell", f"{ns[0]:.0f} ns", f"rows of 10 columns {ns[1]:.0f} ns", f"{ns[1] / ns[0]:.2f}", "60 ns")
        self.keep("text to model, 10M cells, rows of 1,000 columns", wide, "rows of 10 columns", narrow)

    def ranks(self):
        """Two processes over MPI beside two threads of one, minibatches of as many rows in all."""
        if not shutil.which("mpirun"):
            return self.notes.append("mpirun is absent: no rows of ranks.")
        run = "mpirun --allow-run-as-root --oversubscribe -n 2 "
        for model, options in (("lr", ""), ("mlp", "--embedding 10 --hidden 400,400,400 ")):
            rows = 1000000 if model == "lr" else 80 * 4096
            f = self.keys(rows)
            file = self.made(f"{self.dir}/1m/keys{rows}.arrow", f"ctr-cat --batch 4096 --to file {f} -o {{out}}")
            two, one = self.medians([f"{run}ctr-train {model} -q -j 1 {options}--minibatch 4096 -o {self.dir}/ranks.model {file}",
                                     f"ctr-train {model} -q -j 2 {options}--minibatch 8192 -o {self.dir}/ranks.model {file}"])
            self.versus(f"train {model}, two ranks with minibatches of 4096", two, "-j 2, minibatches of 8192", one, (rows / 1e6, "M rows/s"))

    def hop(self):
        f = self.log(1)
        gb = os.path.getsize(f) / 1e9
        self.compare("pipe hop: ctr-cat \\| ctr-cat, sealed and verified", f"ctr-cat {f} | ctr-cat {SINK}",
                     [("cat \\| cat", "cat", f"cat {f} | cat {SINK}")], "1.5 GB/s", "", (gb, "GB/s"))
        g = self.features(1)
        gb = os.path.getsize(g) / 1e9
        self.compare("the same, fixed-width columns (features)", f"ctr-cat {g} | ctr-cat {SINK}",
                     [("cat \\| cat", "cat", f"cat {g} | cat {SINK}")], "1.5 GB/s", "", (gb, "GB/s"))
        file = self.made(f"{self.dir}/1m/log.arrow", f"ctr-cat --to file {f} -o {{out}}")
        one, all_ = self.medians([f"ctr-select --columns C5 {file} {SINK}", f"ctr-cat {file} {SINK}"])
        self.row("IPC file, one column of forty", f"{one['wall'] * 1e3:.0f} ms", f"all columns {all_['wall'] * 1e3:.0f} ms",
                 self.ratio(all_, one), "its bytes only", self.counters(file, "C5"))

    def counters(self, file, column):
        size, read, verified = (int(x) / 1e6 for x in sh(f"{self.tool}/bench-limit used {file} {column}")[2].split())
        return f"{read:.1f} MB of {size:.0f} read, {verified:.1f} verified"

    def eval(self):
        f, n = self.scores(self.million), self.million
        ours, found = self.compare(f"eval AUC + log loss, {n}M rows", f"ctr-eval -q -m auc,log_loss -f stream {f} | ctr-export -q -f csv",
                                   [("best of", "sklearn", {"sklearn": self.peer("auc", f), "numpy argsort": self.peer("numpy-auc", f)})], "5", "", (n, "M rows/s"))
        self.agree(ours, found.get("best of"), "auc", "log_loss")
        ours, found = self.compare(f"eval GAUC of 300k users, {n}M rows", f"ctr-eval -q -m gauc -f stream {f} | ctr-export -q -f csv",
                                   [("Polars", "polars", self.peer("polars-gauc", f)), ("pandas", "pandas", self.peer("gauc", f))], "10", "", (n, "M rows/s"))
        for peer in found.values():
            self.agree(ours, peer, "gauc")
        self.slices(f, n)
        self.compare(f"eval --by user: AUC + log loss of 300k slices, {n}M rows", f"ctr-eval -q --by user -m auc,log_loss -f stream {f} {SINK}",
                     rate=(n, "M rows/s"))

    def slices(self, f, n):
        """2,000 slices by a column of texts, beside none: the goal is a ratio."""
        d = self.made(f"{os.path.dirname(f)}/slices.arrows", f"ctr-select --add 'site=concat(\"site\", user % 2000)' {f} -o {{out}}")
        none, by = self.medians([f"ctr-eval -q -m auc,log_loss -f stream {b} {d} {SINK}" for b in ("", "--by site")])
        self.row(f"eval with 2,000 slices against none, {n}M rows", self.cell(by, (n, "M rows/s")), f"none {self.cell(none, (n, 'M rows/s'))}",
                 f"{by['wall'] / none['wall']:.2f}", "1.5 at most")

    def page(self):
        """Frames of a page of 10 models x 2,000 slices, by Chromium's own trace."""
        if not shutil.which("chromium"):
            self.notes.append("chromium is absent: no frames of the page of ctr-gridviz.")
            return
        d, columns = f"{self.dir}/page", "by:utf8,slice:utf8,window:timestamp,rows:int64,weight:float64,positives:float64," \
            "auc_loss:float64,log_loss:float64,calibration:float64"
        os.makedirs(d, exist_ok=True)
        for m in range(10):
            rng = random.Random(m)
            with open(f"{d}/table.csv", "w") as out:
                out.write(re.sub(":[a-z0-9]*", "", columns) + "\n,,,2000000,2000000,100000,.3,.4,1.01\n")
                for i in range(2000):
                    rows = 1000000 // (i + 5)
                    out.write(f"site,site{i:04},,{rows},{rows},{rows // 20},{.2 + .1 * rng.random():.6f},{.3 + .1 * rng.random():.6f},"
                              f"{.9 + .2 * rng.random():.6f}\n")
            sh(f"ctr-import -q --format csv --header --columns {columns} {d}/table.csv -o {d}/m{m}.arrows")
        sh(f"ctr-gridviz -o {d}/page.html {d}/m?.arrows")
        for line in sh(f"{sys.executable} {HERE}/../browser/gridviz.py --frames {d}/page.html")[2].splitlines():
            name, _, rest = line.partition(":")
            if "longest task" in rest:
                self.row(f"page of 10 x 2,000 cells x 3 metrics: {name}", rest.strip(), goal="50 ms a frame")

    def agree(self, ours, peer, *metrics):
        if not peer:
            return
        lines = ours["out"].splitlines()
        row = dict(zip(lines[0].split(","), lines[1].split(",")))
        for m in metrics:
            self.same(m, float(row[m]), peer[m], 1e-9)

    def calibrate(self):
        f, n = self.scores(self.million), self.million
        self.compare(f"calibrate --fit isotonic, {n}M rows", f"ctr-calibrate -q --fit isotonic -o {self.dir}/map.arrows {f}",
                     [("best of", "sklearn", {"sklearn": self.peer("isotonic", f), "numpy + scipy": self.peer("scipy-isotonic", f)})], "5", "", (n, "M rows/s"))
        self.compare(f"calibrate: apply the map, {n}M rows", f"ctr-calibrate -q {self.dir}/map.arrows {f} {SINK}", rate=(n, "M rows/s"))

    def join(self):
        d, n = self.data(self.million, "tables"), self.million
        left, right = f"{d}/left.csv", f"{d}/right.csv"
        cl, cr = "--header --columns key:int64,price:float64,place:int32", "--header --columns key:int64,name:utf8,age:int32"
        fifo = f"{self.dir}/fifo"
        ours = (f"rm -f {fifo}; mkfifo {fifo}; ctr-import -q {cr} {right} -o {fifo} & "
                f"ctr-import -q {cl} {left} | ctr-join -k key {fifo} {SINK}; wait")
        gnu = (f"sort -t, -k1,1 --parallel=2 -S 2G {right} >{self.dir}/right.sorted; sort -t, -k1,1 --parallel=2 -S 2G {left} | "
               f"join -t, -a1 - {self.dir}/right.sorted >/dev/null")
        mine, found = self.compare(f"join {n}M with {n / 4:g}M, from csv", ours,
                                   [("duckdb", "duckdb", self.peer("duckdb-join-csv", left, right)),
                                    ("polars", "polars", self.peer("polars-join-csv", left, right)),
                                    ("GNU sort+join", "join", gnu)], "ahead; GNU 3", "", (n, "M rows/s"))
        unmatched = int(re.search(r"(\d+) of (\d+) rows have no match", mine["err"]).group(1))
        for p in ("duckdb", "polars"):
            self.same("rows without a match", unmatched, found.get(p, {}).get("unmatched"))
        if shutil.which("mlr"):
            m, = self.medians([f"mlr --icsv --ocsv join --ul -j key -f {right} {left} >/dev/null"], 1)
            self.row("", "", f"miller, one run {self.cell(m, (n, 'M rows/s'))}", self.ratio(m, mine))
        else:
            self.notes.append("miller is absent: the join goes without it.")
        l = self.made(f"{d}/left.arrows", f"ctr-import -q {cl} {left} -o {{out}}")
        r = self.made(f"{d}/right.arrows", f"ctr-import -q {cr} {right} -o {{out}}")
        lf, rf = (self.made(x[:-1], f"ctr-cat --to file {x} -o {{out}}") for x in (l, r))
        peers = [("duckdb", "duckdb", self.peer("duckdb-join-arrow", l, r)),
                 ("polars", "polars", {"read_ipc_stream": self.peer("polars-join-arrow", l, r), "scan_ipc, streaming": self.peer("polars-join-scan", lf, rf)})]
        for what, flags in ((f"join {n}M with {n / 4:g}M, from streams", ""), ("the same, -j 2, as the peers", "-j 2 ")):
            self.compare(what, f"ctr-join {flags}-k key {r} {l} {SINK}", peers, "2", "", (n, "M rows/s"))
        plan = self.plan("count.plan", "feature key = vocab(key, min=2)\nlabel place = 0\n")
        mine, found = self.compare(f"count {n / 4:g}M keys in {n}M rows of csv (extract --fit vocab)",
                                   f"ctr-import -q {cl} --for {plan} {left} | ctr-extract -q --fit {plan} -o {self.dir}/count.arrows",
                                   [("datamash -s", "datamash", f"cut -d, -f1 {left} | datamash -s -g 1 count 1 >/dev/null"),
                                    ("duckdb", "duckdb", self.peer("duckdb-count", left))], rate=(n, "M rows/s"))

    def group(self):
        """Aggregates by 1.1 million keys of 4 million rows. The peers' groups come in no order, ours by key."""
        d, n = self.data(self.million, "tables"), self.million
        f = self.made(f"{d}/left.arrows", f"ctr-import -q --header --columns key:int64,price:float64,place:int32 {d}/left.csv -o {{out}}")
        file = self.made(f"{d}/left.arrow", f"ctr-cat --to file {f} -o {{out}}")
        for what, add, goal in (("count, sum, mean, min, max", "n=count() s=sum(price) m=mean(price) low=min(place) high=max(place)", "1.5"),
                                ("distinct and median", "d=distinct(place) m=quantile(price,0.5)", "1.5")):
            ours = "ctr-group -k key " + " ".join(f"--add '{a}'" for a in add.split())
            which = "five" if "count" in what else "ordered"
            peers = [("polars", "polars", self.peer("polars-group", file, which)), ("duckdb", "duckdb", self.peer("duckdb-group", f, which))]
            for flags in ("", " -j 2"):
                mine, found = self.compare(f"group {n}M rows by {n / 4 * 1.1:.1f}M keys: {what}{flags}", f"{ours}{flags} -v {f} {SINK}", peers, goal, "", (n, "M rows/s"))
            groups = int(re.search(r"(\d+) groups of", mine["err"]).group(1))
            for p in found.values():
                self.same("groups", groups, p["groups"])

    def stats(self):
        """A profile of 40 columns. The peers' lack what each column tells of clicks, and Polars' the frequent values and the distinct ones, which are added."""
        f = self.log(1)
        file = self.made(f"{self.dir}/1m/log.arrow", f"ctr-cat --to file {f} -o {{out}}")
        for flags in ("", " -j 2"):
            _, found = self.compare(f"stats, 40 columns of 1M rows{flags}", f"ctr-stats -q{flags} {f} {SINK}",
                                    [("DuckDB summarize", "duckdb", self.peer("duckdb-stats", f)), ("Polars describe", "polars", self.peer("polars-stats", file))],
                                    "", "", (1, "M rows/s"))
        nulls = sum(int(line) for line in sh(f"ctr-stats -q {f} | ctr-select --columns nulls | ctr-export -q -f csv --no-header")[2].split())
        self.same("nulls of all columns", nulls, found.get("Polars describe", {}).get("nulls"))

    def rank(self):
        """Requests of about 400 candidates, of which the best five by bid x score are kept; sorted by request, and as they come."""
        f, n = self.scores(self.million), self.million
        d = self.made(f"{os.path.dirname(f)}/bids.arrows", f"ctr-select --add 'request=user % {n * 2500}' --add 'bid=1.0 + user % 7' {f} -o {{out}}")
        by = self.made(f"{os.path.dirname(f)}/bids.sorted.arrows", f"ctr-sort -q -k request {d} -o {{out}}")
        rank = "ctr-rank -q --by request --bid bid --top 5"
        for what, command, path in (("rows in any order", rank, d), ("sorted by request", f"{rank} --sorted", by)):
            file = self.made(path[:-1], f"ctr-cat --to file {path} -o {{out}}")
            peers = [("Polars", "polars", {way: self.peer("polars-rank", file, way) for way in ("sort", "over")}),
                     ("DuckDB", "duckdb", self.peer("duckdb-rank", path))]
            _, found = self.compare(f"rank {n}M candidates of {n * 2500:,} requests, {what}", f"{command} {path} {SINK}", peers, "", "", (n, "M rows/s"))
            kept, revenue = sh(f"{command} {path} | ctr-export -q -f csv --no-header --columns ecpm | awk '{{ n++; s += $1 }} END {{ printf \"%d %.17g\", n, s }}'")[2].split()
            for m in found.values():
                self.same("candidates kept", int(kept), m["rows"])
                self.same("sum of ecpm", float(revenue), m["ecpm"], 1e-9)

    def history(self):
        d = self.data(3, "clicks")
        f = self.made(f"{d}/clicks.arrows", "ctr-import -q --header --columns user:int32,time:timestamp,item:int32,category:int32 "
                      f"--time time:unix_ms --user user -f csv {d}/clicks.csv -o {{out}}")
        lists = f"ctr-history -q -c item,category --age --last 50 {f}"
        peers = [("duckdb", "duckdb", self.peer("duckdb-history", f))]
        for flags in ("-j 1", "-j 2"):
            mine, found = self.compare(f"histories of 3M clicks: the last 50 of the user, two columns and ages, {flags}",
                                       f"{lists} {flags} {SINK}", peers, "5 s", "", (3, "M rows/s"))
        items = int(sh(f"{lists} | ctr-select --add 'n=length(history.item)' | ctr-export -q -f csv --no-header --columns n | "
                       "awk '{ n += $1 } END { print n }'")[2])
        self.same("items of all histories", items, found.get("duckdb", {}).get("items"))
        self.compare("running counts of 3M clicks by item and by user", f"ctr-history -q --count item,user --where 'category < 50' {f} {SINK}",
                     rate=(3, "M rows/s"))

    def sort(self):
        d, n = self.data(self.million, "tables"), self.million
        f = self.made(f"{d}/wide.arrows", f"ctr-import -q --columns 'key:utf8,v[1..9]:utf8,pad:utf8' {d}/wide.tsv -o {{out}}")
        out = f"{self.dir}/sorted"
        mine, found = self.compare(f"sort {n}M x 250 bytes, memory 256 MB", f"ctr-sort -q -k key --memory 256M -o {out}.arrows {f}",
                                   [("GNU sort", "sort", f"sort -t '\t' -k1,1 --parallel=2 -S 256M -T {self.dir} -o {out}.tsv {d}/wide.tsv"),
                                    ("duckdb", "duckdb", self.peer("duckdb-sort", f"{d}/wide.tsv", f"{out}.duckdb", "256MB", f"{self.dir}/duckdb.tmp"))],
                                   "3", "", (n, "M rows/s"))
        sh(f"cmp <(ctr-export -q -f tsv --no-header --columns key {out}.arrows) <(cut -f1 {out}.tsv)")
        for suffix in ("arrows", "tsv", "duckdb"):
            if os.path.exists(f"{out}.{suffix}"):
                os.unlink(f"{out}.{suffix}")

    def serve(self):
        """A request of one user and 400 ads, 19 features: processor time of the server, and at half of what it can answer, how long answers take."""
        d = f"{self.dir}/serve"
        os.makedirs(d, exist_ok=True)
        users, ads = [10 + 200 * i * i for i in range(8)], [10 + 100 * i * i for i in range(8)]
        r = random.Random(7)
        past = lambda n: "|".join(f"x{r.randrange(ads[0])}" for _ in range(n))
        with open(f"{d}/log.csv", "w") as f:
            f.write(",".join(["click", "past"] + [f"u{i}" for i in range(8)] + [f"a{i}" for i in range(8)]) + "\n")
            for _ in range(100000):
                f.write(",".join([str(int(r.random() < .2)), past(r.randrange(20))] + [str(r.randrange(n)) for n in users] + [f"x{r.randrange(n)}" for n in ads]) + "\n")
        plan = self.plan("serve.plan", "label click\nfeature u[0..7]\nfeature a[0..7]\nfeature c[0..2] = cross(u[0..2], a[0..2])\n")
        history = self.plan("serve-past.plan", "label click\nfeature u[0..7]\nfeature a[0..7]\nfeature c[0..2] = cross(u[0..2], a[0..2])\n"
                            "feature past in a0 of a0 = split(past, \"|\")\n")
        sh(f"ctr-import -q --header -f csv {d}/log.csv -o {d}/log.arrows")
        for n in (1, 200, 400):
            with open(f"{d}/{n}.json", "w") as f:
                json.dump({"user": {"past": past(20)} | {f"u{i}": r.randrange(m) for i, m in enumerate(users)},
                           "ads": [{f"a{i}": f"x{r.randrange(m)}" for i, m in enumerate(ads)} for _ in range(n)]}, f, separators=(",", ":"))
        deep = "--minibatch 1024 --embedding 10 --hidden 200,80"
        for kind, options, goal in (("lr", "", "0.5 ms"), ("mlp", deep, ""), ("mlp, user first", f"{deep} --user-features 'u*'", ""), ("din", deep, ""),
                                    ("din, user first", f"{deep} --user-features 'u*'", "")):
            sh(f"ctr-train {kind.split(',')[0]} -q {options} -o '{d}/{kind}.model' {history if kind[0] == 'd' else plan} {d}/log.arrows")
            one, many = (self.served(f"{d}/{kind}.model", f"{d}/{n}.json") for n in (1, 400))
            self.row(f"serve {kind}: processor time of a request of 400 ads, 19 features", f"{many['cpu']:.3f} ms", f"of 1 ad {one['cpu']:.3f} ms",
                     f"{many['cpu'] / one['cpu']:.1f}", goal)
            self.row(f"serve {kind}: requests/s on all cores; p50, p99 at half of that", f"{many['most']:.0f}; {many['p50']:.2f} ms, {many['p99']:.2f} ms",
                     f"of 1 ad {one['most']:.0f}; {one['p50']:.2f} ms, {one['p99']:.2f} ms")
            if kind.startswith("mlp"):
                own = (self.served(f"{d}/{kind}.model", f"{d}/200.json")["cpu"] - one["cpu"]) / 199
                self.row(f"serve {kind}: 400 ads, beside 1 ad and 399 times an ad's own part (of 200 ads)", f"{many['cpu']:.3f} ms",
                         f"{one['cpu']:.3f} ms + 399 x {own * 1e3:.2f} us", f"{many['cpu'] / (one['cpu'] + 399 * own):.2f}", "<= 1.1")
            if kind == "mlp":
                self.serve_python(d, many)
        self.serve_images(d, r)
        self.serve_prerank(d, r, ads, plan)

    def serve_python(self, d, ours):
        """The same request by a Python server of the usual kind, and its dense layers alone."""
        if not (self.have["onnx"] and self.have["onnxruntime"]):
            return
        dense = statistics.median(self.once(self.peer("onnx_dense", 400))["cpu"] for _ in range(self.runs)) * 1e3
        self.row("serve mlp: processor time of a request of 400 ads, beside the dense part alone", f"{ours['cpu']:.3f} ms", f"ONNX Runtime, in process {dense:.3f} ms",
                 f"{dense / ours['cpu']:.2f}", "")
        if self.have["uvicorn"]:
            sock = os.path.abspath(f"{d}/sock")
            usual = self.loaded([self.python, f"{HERE}/peers.py", "serve_onnx", sock], sock, f"{d}/400.json")
            self.row("serve mlp: processor time of a request of 400 ads, beside a Python server", f"{ours['cpu']:.3f} ms",
                     f"uvicorn, numpy and ONNX Runtime {usual['cpu']:.3f} ms", f"{usual['cpu'] / ours['cpu']:.1f}", "10")

    def serve_images(self, d, r):
        """400 ads with a photograph each, a user with the last 32 that he clicked: values of the tower by key, beside the same network on ids alone."""
        images, past = 20000, 32
        with open(f"{d}/images.jsonl", "w") as f:
            for k in range(images):
                f.write(json.dumps({"key": f"p{k:05}", "vector": [round(r.gauss(0, 1), 3) for _ in range(64)]}) + "\n")
        rows = lambda n: ({"click": int(r.random() < .2), "ad": (a := r.randrange(images)), "photo": f"p{a:05}", "user": r.randrange(5000),
                           "seen": [f"p{r.randrange(images):05}" for _ in range(past)]} for _ in range(n))
        with open(f"{d}/photos.jsonl", "w") as f:
            for x in rows(20000):
                f.write(json.dumps(x) + "\n")
        plain = self.plan("plain.plan", "label click\nfeature user\nfeature ad\nfeature past in ad of ad = seen\n")
        photos = self.plan("photos.plan", open(plain).read() + "image photo\nimage photos in photo of photo = seen\n")
        sh(f"ctr-import -q -f jsonl {d}/photos.jsonl -o {d}/photos.arrows && ctr-import -q -f jsonl {d}/images.jsonl | ctr-sort -k key | ctr-cat --to file --key key -o {d}/images.arrow")
        how = "--minibatch 1024 --embedding 10 --hidden 200,80"
        sh(f"ctr-train din -q {how} -o {d}/plain.model {plain} {d}/photos.arrows")
        for pool in ("sum", "attentive"):
            sh(f"ctr-train dicm -q {how} --base din --images {d}/images.arrow --images-tower 32 --images-pool {pool} -o {d}/{pool}.model {photos} {d}/photos.arrows")
            sh(f"ctr-embed-images -q --tower {d}/{pool}.model --vectors -o {d}/{pool}.arrow {d}/images.arrow")
        for name, seen in (("plain", False), ("photos", True)):
            x = list(rows(400))
            with open(f"{d}/{name}.json", "w") as f:
                json.dump({"user": {"user": 3, "seen": x[0]["seen"]}, "ads": [{"ad": y["ad"], **({"photo": y["photo"]} if seen else {})} for y in x]}, f, separators=(",", ":"))
        without = self.served(f"{d}/plain.model", f"{d}/plain.json")
        for pool in ("sum", "attentive"):
            with_ = self.served(f"{d}/{pool}.model", f"{d}/photos.json", "--images", f"{d}/{pool}.arrow")
            self.row(f"serve dicm on din, images pooled by {pool}: processor time of a request of 400 ads, 32 behaviours", f"{with_['cpu']:.3f} ms",
                     f"din, ids alone {without['cpu']:.3f} ms", f"{with_['cpu'] / without['cpu']:.2f}", "<= 1.1 (the paper 1.14)")
            self.row(f"serve dicm on din, images pooled by {pool}: requests/s on all cores; p50, p99 at half of that",
                     f"{with_['most']:.0f}; {with_['p50']:.2f} ms, {with_['p99']:.2f} ms", f"din, ids alone {without['most']:.0f}; {without['p50']:.2f} ms, {without['p99']:.2f} ms")

    def serve_prerank(self, d, r, fields, plan):
        """A request without ads: the best 400 of many by inner products of 32 numbers, scored by lr; beside the same 400 named by the request."""
        towers = self.plan("towers.plan", "label click\nid item = item\nfeature u[0..7]\nfeature a[0..7]\n")
        sh(f"ctr-select -q --add 'item=0' {d}/log.arrows | ctr-extract -q {towers} | ctr-train two-tower -q --minibatch 1024 --embedding 10 --hidden 64 --vector 32 "
           f"--user-features 'u*' --ad-features 'a*' -o {d}/tower.model")
        for n in (4000, 1000000):
            with open(f"{d}/ads.csv", "w") as f:
                f.write("item," + ",".join(f"a{i}" for i in range(8)) + "\n")
                for k in range(n):
                    f.write(f"{k}," + ",".join(f"x{int(r.random() * m)}" for m in fields) + "\n")
            users = " ".join(f"--add u{i}=0" for i in range(8))
            sh(f"ctr-import -q --header -f csv {d}/ads.csv | ctr-cat --to file --key item -o {d}/ads.arrow")
            sh(f"ctr-select -q {users} {d}/ads.arrow | ctr-extract -q {d}/tower.model 2>/dev/null | ctr-select -q -c 'item,a*' | ctr-predict -q --tower ad {d}/tower.model 2>/dev/null | "
               f"ctr-cat --to file --key item -o {d}/vectors.arrow")
            body = json.load(open(f"{d}/400.json"))
            with open(f"{d}/user.json", "w") as f:
                json.dump({"user": body["user"]}, f)
            with open(f"{d}/named.json", "w") as f:
                json.dump({"user": body["user"], "ads": [r.randrange(n) for _ in range(400)]}, f)
            all_ = ("--ads", f"{d}/ads.arrow")
            named = self.served(f"{d}/lr.model", f"{d}/named.json", *all_)
            best = self.served(f"{d}/lr.model", f"{d}/user.json", *all_, "--prerank", f"{d}/tower.model", "--vectors", f"{d}/vectors.arrow")
            self.row(f"serve lr, pre-rank of {n:,} vectors to 400: processor time of a request", f"{best['cpu']:.3f} ms", f"400 ads that the request names {named['cpu']:.3f} ms",
                     f"{best['cpu'] / named['cpu']:.2f}", "")
            self.row(f"serve lr, pre-rank of {n:,} vectors: requests/s on all cores; p50, p99 at half of that", f"{best['most']:.0f}; {best['p50']:.2f} ms, {best['p99']:.2f} ms",
                     f"named {named['most']:.0f}; {named['p50']:.2f} ms, {named['p99']:.2f} ms")

    def served(self, model, body, *options):
        sock = os.path.abspath(f"{self.dir}/serve/sock")
        return self.loaded(["ctr-serve", "--listen", f"unix:{sock}", "-q", *options, model], sock, body)

    def loaded(self, server, sock, body):
        if os.path.exists(sock):
            os.unlink(sock)
        p = subprocess.Popen(server)
        load = lambda rate, seconds: dict(line.split() for line in sh(f"{self.tool}/bench-load -r {rate} -t {seconds} -c 8 unix:{sock} /v1/score {body}")[2].splitlines())
        used = lambda: sum(int(x) for x in open(f"/proc/{p.pid}/stat").read().split(") ")[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")
        while not os.path.exists(sock) and p.poll() is None:
            time.sleep(.05)
        try:
            load(100, 1)
            most = load(100000, .02)  # 2000 requests, as fast as 8 connections go
            most = int(most["code_200"]) / float(most["seconds"])
            before = used()
            half = load(max(most / 2, 1), 3)
            cpu = (used() - before) / int(half["code_200"]) * 1e3
        finally:
            p.terminate()
            p.wait()
        assert half["failed"] == half["mixed"] == "0" and set(k for k in half if k.startswith("code")) == {"code_200"}, half
        return {"cpu": cpu, "most": most, "p50": float(half["p50_ms"]), "p99": float(half["p99_ms"])}

    def gemm(self):
        """Rates of single products, which the programs measure themselves: the fastest of half a second, then the median of the runs."""
        shapes = (("forward 4096x400x400", (4096, 400, 400, 1)), ("weight gradient 400x400x4096", (400, 400, 4096, 0)))
        for name, (m, n, k, transposed) in shapes:
            for threads in 1, 2:
                ours, peer = [], []
                for _ in range(self.runs):
                    table = sh(f"{os.path.dirname(self.bin)}/compute/compute --threads {threads} --bench 'gemm {name}'")[2]
                    ours.append([float(x) for x in re.findall(r"([0-9.]+) ms", table)])
                    if self.have["numpy"]:
                        os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
                        peer.append(self.once(self.peer("numpy-gemm", m, n, k, transposed)))
                rate = 2e-9 * m * n * k
                o = [rate / (1e-3 * statistics.median(x[i] for x in ours)) for i in (0, 1)]
                p = [rate / statistics.median(x[i] for x in peer) for i in ("wall", "cpu")] if peer else None
                self.row(f"sgemm {name}, {threads} thread{'s' if threads > 1 else ''}, GFLOP/s", f"{o[0]:.0f} (a processor: {o[1]:.0f})",
                         f"OpenBLAS of numpy {p[0]:.0f} ({p[1]:.0f})" if p else "", f"{o[0] / p[0]:.2f} ({o[1] / p[1]:.2f})" if p else "")

    def start(self):
        tools = sorted(os.listdir(self.bin))
        ms = {t: float(sh(f"{self.tool}/bench-limit start 40 {self.bin}/{t} --help")[2]) for t in tools}
        true = float(sh(f"{self.tool}/bench-limit start 40 /bin/true")[2])
        slow = max(ms, key=ms.get)
        self.row("start of any filter, --help", f"{statistics.median(ms.values()):.2f} ms, slowest {slow} {ms[slow]:.2f}", f"/bin/true {true:.2f} ms",
                 "", "2 ms", "")

    def commands(self, m):
        """What a filter does on the log, from a pipe: for growth and memory."""
        d, plan = f"{self.dir}/{m}m", self.plan("criteo.plan", PLAN)
        log, features, scores = self.log(m), self.features(m), self.scores(m)
        model = self.made(f"{self.dir}/model.arrows", f"ctr-train lr -q {self.features(1)} -o {{out}}")
        map_ = self.made(f"{self.dir}/iso.arrows", f"ctr-calibrate -q --fit isotonic -o {{out}} {self.scores(1)}")
        return {
            "import tsv": (f"{d}/log.tsv", f"ctr-import -q -f tsv --columns {COLUMNS}"),
            "cat": (log, "ctr-cat"),
            "select": (log, "ctr-select --where 'I1 > 10' --columns click,I1,C1"),
            "extract": (log, f"ctr-extract -q {plan}"),
            "predict": (features, f"ctr-predict {model}"),
            "calibrate": (scores, f"ctr-calibrate -q {map_}"),
            "export csv": (scores, "ctr-export -q -f csv"),
            "train f64": (features, f"ctr-train lr -q -o {self.dir}/m.arrows"),
            "train f32": (features, f"ctr-train lr -q --precision f32 -o {self.dir}/m.arrows"),
            "eval auc": (scores, "ctr-eval -q -m auc,log_loss"),
            "sort": (scores, "ctr-sort -q -k score --memory 64M"),
        }

    def growth(self):
        small, large = self.commands(1), self.commands(4)
        for name in ("import tsv", "extract", "predict", "train f64", "eval auc"):
            s, l = self.medians([f"{small[name][1]} <{small[name][0]} {SINK}", f"{large[name][1]} <{large[name][0]} {SINK}"], 3)
            self.row(f"growth: {name}, 4M against 1M rows", f"{4 / l['cpu']:.2f} M rows a cpu second", f"{1 / s['cpu']:.2f}",
                     f"{s['cpu'] * 4 / l['cpu']:.2f}", "1.00", "train: keys leave the cache" if name[:5] == "train" else "")
        if self.a.quick:
            return
        d, plan = self.data(1, "flat"), self.plan("flat.plan", FLAT)
        f = self.made(f"{d}/flat.arrows", f"ctr-import -q -f tsv --columns 'click:int8,F[1..39]:int32' {d}/flat.tsv | ctr-extract -q {plan} -o {{out}}")
        m, = self.medians([f"ctr-train lr -o {self.dir}/m.arrows {f}"], 1)
        keys = int(re.search(r"keys +(\d+)", m["err"]).group(1))
        self.row(f"train lr f64, {keys / 1e6:.0f}M uniform keys in 1M rows of 39", self.cell(m, (39, "M features/s")),
                 limit="2 random lines a feature: 52-59 M/s of 4 KiB pages")
        self.keep("train lr f64, uniform keys in 1M rows of 39", m)
        os.unlink(f"{self.dir}/m.arrows")

    def memory(self):
        for name in self.commands(1):
            mb = []
            for m in (1, 4):
                path, command = self.commands(m)[name]
                mb.append(float(sh(f"cat {path} | {self.tool}/bench-limit peak {command} >/dev/null")[3].split()[-1]))
            keys = ""
            if name.startswith("train"):
                n = []
                for m in (1, 4):
                    path, command = self.commands(m)[name]
                    n.append(int(re.search(r"keys +(\d+)", sh(f"{command.replace(' -q', '')} {path}")[3]).group(1)))
                keys = "; bytes a key " + " / ".join(f"{b * 1e6 / k:.1f}" for b, k in zip(mb, n))
            goal = {"train f64": "40 bytes a key", "train f32": "32 bytes a key", "eval auc": "grows: exact", "sort": "64 MiB + 5%"}
            self.row(f"memory: {name}, 1M / 4M rows", f"{mb[0]:.1f} / {mb[1]:.1f} MB{keys}", goal=goal.get(name, "100 MB"))

    # ---- all ----

    def machine(self):
        cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
        lscpu = dict(line.split(":", 1) for line in sh("lscpu || true")[2].splitlines() if ":" in line)
        cache = ", ".join(f"{k[:3].strip()} {lscpu[k].strip()}" for k in ("L2 cache", "L3 cache") if k in lscpu)
        memory = int(re.search(r"MemTotal: +(\d+)", open("/proc/meminfo").read()).group(1)) / 1048576
        self.print(f"Machine: {cpu[1] if cpu else platform.machine()} (family {lscpu.get('CPU family', '?').strip()} model "
                   f"{lscpu.get('Model', '?').strip()}), {os.cpu_count()} cores, {cache}, {memory:.0f} GiB; "
                   f"Linux {platform.release()}; {sh('cc --version || echo no cc')[2].splitlines()[0]}.")
        debian = ", ".join(sh(f"{p} --version")[2].splitlines()[0] for p in ("sort", "datamash", "mlr") if shutil.which(p))
        self.print(f"Peers: {', '.join(f'{k} {v}' for k, v in self.have.items() if v)}; {debian}.")

    def main(self):
        groups = {"control": self.control, "train": self.train, "deep": self.deep, "din": self.din, "spill": self.spill, "cgroup": self.cgroup, "images": self.images, "gpu": self.gpu, "many": self.many, "import": self.imports, "extract": self.extract, "parquet": self.parquet, "wide": self.wide, "ranks": self.ranks, "hop": self.hop,
                  "eval": self.eval, "calibrate": self.calibrate, "join": self.join, "group": self.group, "stats": self.stats, "rank": self.rank, "history": self.history, "sort": self.sort, "serve": self.serve, "start": self.start,
                  "growth": self.growth, "memory": self.memory, "gemm": self.gemm, "page": self.page, "featurebox": self.featurebox, "extraction": self.extraction,
                  "gpu-mlp": self.gpu_mlp, "gpu-din": self.gpu_din, "gpu-featurebox": self.gpu_featurebox}
        if self.only and self.only - set(groups):
            raise SystemExit(f"bench: BENCH picks from {','.join(groups)}")
        load, broken, began = os.getloadavg()[0], [], time.time()
        self.print(f"ctrkit {self.version}, {time.strftime('%Y-%m-%d')}, medians of {self.runs} runs in turn. In brackets: the same by processor time of all "
                   "threads and processes, which other load on the machine disturbs less.\n")
        self.limits()
        self.print("\n| what | ours | peer | ratio | goal | limit |\n|---|---|---|---|---|---|")
        for name, run in groups.items():
            if (self.only or not name.startswith(("gpu", "extraction"))) and self.wants(name):  # which BENCH= and make bench-gpu ask for
                try:
                    run()
                except (Exception, SystemExit) as e:  # the rows of other groups are worth having
                    traceback.print_exc()
                    broken.append(f"{name}: {type(e).__name__}: {e}".strip().replace("\n", " ")[:300])
        self.print()
        for n in self.notes + [f"broken: {b}" for b in broken]:
            self.print(f"- {n}")
        if self.notes or broken:
            self.print()
        for m in self.moved:
            self.print(f"- moved by more than a tenth since the last line of history.tsv: {m}")
        self.machine()
        self.print(f"Load average before and after: {load:.1f}, {os.getloadavg()[0]:.1f} (the benchmark itself makes about 1 to 2). {(time.time() - began) / 60:.0f} minutes.")
        if self.a.keep:
            with open(os.path.join(HERE, "RESULTS.md"), "w") as f:
                f.write("# make bench\n\nThe output of a run, as it was; CONTRIBUTING.md says how to repeat it.\n\n" + "\n".join(self.printed) + "\n")
            path = os.path.join(HERE, "history.tsv")
            head = "" if os.path.exists(path) else "\t".join(("commit", "date", "what", "wall", "cpu", "peer", "ratio_wall", "ratio_cpu")) + "\n"
            with open(path, "a") as f:
                f.write(head + "".join("\t".join(line) + "\n" for line in self.lines))
        return 1 if broken else 0


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default="build/opt", help="folder of the binaries")
    p.add_argument("--quick", action="store_true", help="1 million rows")
    p.add_argument("--runs", type=int, help="runs of each command")
    p.add_argument("--only", help="groups of rows, such as train,join")
    p.add_argument("--keep", action="store_true", help="write the output to tests/bench/RESULTS.md, and its rows to history.tsv")
    sys.exit(Bench(p.parse_args()).main())
