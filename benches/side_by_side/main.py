"""`lookalike dedupe` and other programs on the same files and the same two processors: seconds, memory, and
the precision, recall and F1 of the dropped documents by the labels of the sets in ../shared/data.

    python3 -m venv target/side_by_side
    target/side_by_side/bin/pip install -r benches/side_by_side/requirements.txt
    cargo install incrededup@0.3.1 --locked --root target/side_by_side
    target/side_by_side/bin/python benches/side_by_side/main.py

With --copies DOCUMENTS LABELS it is one file with known copies instead: JSON lines with `id` and `text`, and
lines of an original, its copy and a kind, separated by tabs. All programs then have one processor, and the
table has processor time and the share of the copies that are found, which are not kept beside their original.

Options: --rounds N, --only NAME (part of the name of a row, several times), --sets NAME.... Each set is cut
into two files, because datatrove needs a file for each process. Every run is a process of its own; the time
is that of the work itself, without the start of Python. The table gives the median of the rounds, whose runs
take turns; runs of more than 30 s are not repeated.
Memory is the largest sum of the resident memory of all processes of a run, sampled every 10 ms.
"""

import argparse
import gzip
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.environ.get("LOOKALIKE_TEST_DATA", os.path.join(ROOT, "..", "shared", "data"))
SETS = ["zh_revisions", "zh_edits", "en_abstracts", "en_reuters"]
# A program that takes longer runs once on a set, in seconds.
LONG = 30
OURS = os.environ.get("LOOKALIKE", os.path.join(ROOT, "target", "release", "lookalike"))
INCREDEDUP = os.path.join(ROOT, "target", "side_by_side", "bin", "incrededup")


def ours(*options):
    return "lookalike", {"program": OURS, "options": list(options), "threads": "2"}


# A row of the table: its name, the function in tools.py, and its settings. "LANGUAGE" is that of the set.
ROWS = {
    "lookalike, default: minhash-copies": ours(),
    "lookalike, copies-64": ours("--profile", "copies-64"),
    "lookalike, copies-64, k=15, check .4": ours("--profile", "copies-64", "--k", "15", "--check", "0.4"),
    "lookalike, copies-128": ours("--profile", "copies-128"),
    "lookalike, copies-128, k=31, check .4": ours("--profile", "copies-128", "--k", "31", "--check", "0.4"),
    "lookalike, minhash-copies, check .4": ours("--check", "0.4"),
    "datasketch, default: .9, words": ("datasketch", {"threshold": 0.9, "tokens": "words"}),
    "datasketch, its example: .5, words": ("datasketch", {"threshold": 0.5, "tokens": "words"}),
    "datasketch, .5, five letters": ("datasketch", {"threshold": 0.5, "tokens": "grams"}),
    "datatrove, default": ("datatrove", {}),
    "datatrove, its example, with the language": ("datatrove", {"language": "LANGUAGE"}),
    "rensa, its example: .8, words": ("rensa", {"threshold": 0.8, "tokens": "words"}),
    "rensa, .5, five letters": ("rensa", {"threshold": 0.5, "tokens": "grams"}),
    "incrededup, default": ("incrededup", {"program": INCREDEDUP, "options": []}),
    "incrededup, its example: from 100 bytes": (
        "incrededup",
        {"program": INCREDEDUP, "options": ["--min-content-len", "100"]},
    ),
}

# The rows for a file with known copies.
COPIES = {
    "`lookalike dedupe` (`minhash-copies`)": ours(),
    "the same, `--weights none`": ours("--weights", "none"),
    "the same, `--k 119`: without the check of texts": ours("--k", "119"),
    "`--profile minhash`": ours("--profile", "minhash"),
    "`--profile copies-128`": ours("--profile", "copies-128"),
    "`--profile copies-64`": ours("--profile", "copies-64"),
    "rensa, .5, words": ("rensa", {"threshold": 0.5, "tokens": "words"}),
    "rensa, .5, five letters": ROWS["rensa, .5, five letters"],
    "datasketch, .5, words": ROWS["datasketch, its example: .5, words"],
    "datasketch, .5, five letters": ROWS["datasketch, .5, five letters"],
    "text-dedup, default: .7, five words": ("text_dedup", {"options": []}),
    "text-dedup, .5, three words": ("text_dedup", {"options": ["--threshold", "0.5", "--ngram", "3"]}),
    "datatrove, its first stage of four": ("datatrove_signatures", {}),
    "datatrove, default": ROWS["datatrove, default"],
}


class Labels:
    """The labels of a set, read and judged as `benches/quality` does (crates/eval/src/labels.rs)."""

    def __init__(self, name, ids):
        number = {name: at for at, name in enumerate(ids)}
        pair = lambda row: tuple(sorted((number[row[0]], number[row[1]])))
        path = lambda kind: os.path.join(DATA, name, f"{kind}.tsv")
        read = lambda kind: [line.rstrip("\n").split("\t") for line in open(path(kind), encoding="utf-8")]
        marked = {pair(row) for row in read("pairs")} if os.path.exists(path("pairs")) else None
        has_similar = os.path.exists(path("similarity"))
        similar = [(pair(row), float(row[2])) for row in read("similarity")] if has_similar else []
        above = lambda least: {pair for pair, similarity in similar if similarity >= least}
        by_marks = marked is not None and not (name == "zh_revisions" and similar)
        self.positive = marked if by_marks else above(0.8)
        self.ignored = (above(0.8) if by_marks else above(0.6)) - self.positive
        self.due = set()
        partners = {}
        for first, second in self.positive:
            partners.setdefault(second, []).append(first)
        for at in range(len(ids)):
            if any(other not in self.due for other in partners.get(at, [])):
                self.due.add(at)
        self.number = number

    def judge(self, pairs):
        """Precision, recall and F1 of pairs of a dropped document and the one that replaces it.

        A program that keeps another document of a pair than the first drops as much: a pair counts for the
        document of it that comes later.
        """
        pairs = [tuple(sorted((self.number[a], self.number[b]))) for a, b in pairs]
        counted = [pair for pair in pairs if pair not in self.ignored]
        right = sum(pair in self.positive for pair in counted)
        dropped = {pair[1] for pair in pairs}
        precision = right / len(counted) if counted else 1.0
        recall = len(self.due & dropped) / max(1, len(self.due))
        return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def prepare(name, folder):
    """Cuts a set into two files. Returns them, its ids and its language."""
    with gzip.open(os.path.join(DATA, name, "docs.jsonl.gz"), "rt", encoding="utf-8") as file:
        lines = file.readlines()
    half, files = (len(lines) + 1) // 2, []
    for at, part in enumerate([lines[:half], lines[half:]]):
        files.append(os.path.join(folder, f"{at}.jsonl"))
        with open(files[-1], "w", encoding="utf-8") as file:
            file.writelines(part)
    return files, [json.loads(line)["id"] for line in lines]


def resident(root):
    """The bytes of resident memory of a process and its descendants."""
    parents, pages = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry)], pages[int(entry)] = int(fields[1]), int(fields[21])
    total = 0
    for process in pages:
        above = process
        while above not in (0, root):
            above = parents.get(above, 0)
        total += pages[process] if above == root else 0
    return total * os.sysconf("SC_PAGE_SIZE")


def run(tool, settings, files):
    """Runs a tool once. Returns seconds, seconds of a processor, bytes, and pairs; None if it fails."""
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "target")) as folder:
        command = [sys.executable, os.path.join(HERE, "tools.py"), tool, json.dumps(settings), folder, *files]
        log = open(os.path.join(folder, "log"), "w")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        most, ended = [0], threading.Event()

        def sample():
            while not ended.wait(0.01):
                # Without the Python process, if that only waits.
                own = own_memory(process.pid) if tool in ("lookalike", "incrededup") else 0
                most[0] = max(most[0], resident(process.pid) - own)

        sampler = threading.Thread(target=sample)
        sampler.start()
        output, _ = process.communicate()
        ended.set()
        sampler.join()
        if process.returncode != 0:
            print(open(log.name).read()[-2000:], file=sys.stderr)
            return None
        with open(os.path.join(folder, "pairs.tsv"), encoding="utf-8") as rows:
            pairs = [tuple(row.rstrip("\n").split("\t")) for row in rows]
        seconds, of_processor = map(float, output.split()[-2:])
        return seconds, of_processor, most[0], pairs


def own_memory(process):
    try:
        with open(f"/proc/{process}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def beside_copies(documents, labels, rounds, parts):
    """Prints the table for a file with known copies."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    with open(labels, encoding="utf-8") as rows:
        copies = [row.rstrip("\n").split("\t")[:2] for row in rows]
    wanted = {name: row for name, row in COPIES.items() if any(part in name for part in parts)}
    found = {}
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "target")) as folder:
        shutil.copy(documents, os.path.join(folder, "0.jsonl"))
        with open(documents, encoding="utf-8") as lines:
            count = sum(1 for _ in lines)
        for at in range(rounds):
            for name, (tool, settings) in wanted.items():
                if at == 0 or found[name] and found[name][0][0] <= LONG:
                    result = run(tool, settings | {"threads": "1"}, [os.path.join(folder, "0.jsonl")])
                    found.setdefault(name, []).extend([result] if result else [])
                    print(f"{name}: {result and result[:3]}", file=sys.stderr)
    print("| program | processor seconds | to the first row | MiB | copies found | kept |")
    print("|---|--:|--:|--:|--:|--:|")
    first = None
    for name, runs in found.items():
        if not runs:
            print(f"| {name} | failed |")
            continue
        seconds, memory = statistics.median(run[1] for run in runs), max(run[2] for run in runs)
        first, dropped = first or seconds, {dropped for dropped, _ in runs[-1][3]}
        share = sum(a in dropped or b in dropped for a, b in copies) / len(copies)
        cells = [f"{seconds:.2f}", f"{seconds / first:.2f}", f"{memory / 2**20:.0f}"]
        cells += [f"{share:.3f}", f"{count - len(dropped):,}"] if dropped else ["–", "–"]
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description="Compares dedupe with other programs; see the file.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--copies", nargs=2, metavar=("DOCUMENTS", "LABELS"))
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    parts = arguments.only or [""]
    if arguments.copies:
        return beside_copies(*arguments.copies, arguments.rounds, parts)
    wanted = {name: row for name, row in ROWS.items() if any(part in name for part in parts)}
    found = {}
    for name in arguments.sets:
        with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "target")) as folder:
            files, ids = prepare(name, folder)
            labels, language = Labels(name, ids), "cmn" if name.startswith("zh") else "eng"
            for _ in range(arguments.rounds):
                for row, (tool, settings) in wanted.items():
                    if any(seconds > LONG for seconds, *_ in found.get((row, name), [])):
                        continue
                    own = {"language": language} if "language" in settings else {}
                    result = run(tool, settings | own, files)
                    if result:
                        found.setdefault((row, name), []).append(result)
                        seconds, _, memory, pairs = result
                        print(f"{name}, {row}: {seconds:.2f} s, {len(pairs)} dropped", file=sys.stderr)
            for row in wanted:
                runs = found.get((row, name))
                if runs:
                    found[row, name] = (
                        statistics.median(run[0] for run in runs),
                        max(run[2] for run in runs),
                        *labels.judge(runs[-1][3]),
                    )
    print("| program | " + " | ".join(arguments.sets) + " | seconds | MiB | mean F1 |")
    print("|---|" + "---|" * len(arguments.sets) + "--:|--:|--:|")
    for row in wanted:
        of_sets = [found.get((row, name)) for name in arguments.sets]
        if not all(of_sets):
            print(f"| {row} | failed |")
            continue
        cells = [f"{f1:.3f} ({precision:.3f}/{recall:.3f})" for _, _, precision, recall, f1 in of_sets]
        seconds, memory = sum(of[0] for of in of_sets), max(of[1] for of in of_sets)
        mean = statistics.mean(of[4] for of in of_sets)
        print(f"| {row} | {' | '.join(cells)} | {seconds:.2f} | {memory / 2**20:.0f} | {mean:.3f} |")


if __name__ == "__main__":
    main()
