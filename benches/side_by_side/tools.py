"""The other programs: each reads JSON lines, drops near-duplicates, and writes the lines that it keeps.

Each function gets the input files in order, a folder for its output, and its settings. It writes the kept
lines into the folder, and pairs.tsv: the id of each dropped document and of the document that its program
would name in its place. Finding that name is not part of the time, where the program does not name it itself.
"""

import glob
import json
import os
import sqlite3
import subprocess
import sys
import time


def clock():
    """Seconds, and seconds of processor time of this process and of those that it waited for."""
    return time.monotonic(), sum(os.times()[:4])


def since(start):
    return [now - before for now, before in zip(clock(), start)]


def documents(files):
    for path in files:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                yield path, line, json.loads(line)


def words(text):
    """What the examples of datasketch and rensa compare."""
    return text.split()


def grams(text):
    """Sets of five letters, as tools built on both libraries compare them; they suit texts without spaces."""
    return [text[at : at + 5] for at in range(max(1, len(text) - 4))]


TOKENS = {"words": words, "grams": grams}


class Output:
    """The kept lines, one file for each input file."""

    def __init__(self, folder):
        self.folder, self.files = folder, {}

    def write(self, path, line):
        if path not in self.files:
            self.files[path] = open(os.path.join(self.folder, os.path.basename(path)), "w", encoding="utf-8")
        self.files[path].write(line)

    def close(self):
        for file in self.files.values():
            file.close()


def run(command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_pairs(folder, pairs):
    with open(os.path.join(folder, "pairs.tsv"), "w", encoding="utf-8") as file:
        file.writelines(f"{dropped}\t{kept}\n" for dropped, kept in pairs)


def datasketch(files, folder, settings):
    from datasketch import MinHash, MinHashLSH

    tokens, threshold = TOKENS[settings["tokens"]], settings["threshold"]
    start = clock()
    index, signatures, output, pairs = MinHashLSH(threshold=threshold), {}, Output(folder), []
    for path, line, document in documents(files):
        signature = MinHash()
        signature.update_batch([token.encode() for token in set(tokens(document["text"]))])
        found = index.query(signature)
        if found:
            nearest = max(found, key=lambda name: signatures[name].jaccard(signature))
            pairs.append((document["id"], nearest))
        else:
            signatures[document["id"]] = signature
            index.insert(document["id"], signature)
            output.write(path, line)
    output.close()
    seconds = since(start)
    write_pairs(folder, pairs)
    return seconds


def rensa(files, folder, settings):
    from rensa import RMinHash, RMinHashDeduplicator

    tokens, size = TOKENS[settings["tokens"]], 1000
    start = clock()
    index = RMinHashDeduplicator(threshold=settings["threshold"], num_perm=128, use_lsh=True)
    output, dropped, batch = Output(folder), [], []

    def decide():
        kept = index.add_pairs([(document["id"], tokens(document["text"])) for _, _, document in batch])
        for (path, line, document), is_kept in zip(batch, kept):
            if is_kept:
                output.write(path, line)
            else:
                dropped.append(document)
        batch.clear()

    for entry in documents(files):
        batch.append(entry)
        if len(batch) == size:
            decide()
    decide()
    output.close()
    seconds = since(start)
    # The most similar of the documents that it finds for a dropped one.
    texts = {document["id"]: document["text"] for _, _, document in documents(files)}
    pairs = []
    for document in dropped:
        own = RMinHash.from_token_sets([tokens(document["text"])], num_perm=128, seed=42)[0]
        found = index.get_duplicates(own)
        others = RMinHash.from_token_sets([tokens(texts[name]) for name in found], num_perm=128, seed=42)
        nearest = max(zip(found, others), key=lambda other: own.jaccard(other[1]))
        pairs.append((document["id"], nearest[0]))
    write_pairs(folder, pairs)
    return seconds


def datatrove(files, folder, settings):
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    start = clock()
    config, work = MinhashConfig(), os.path.join(folder, "work")
    at = lambda name: os.path.join(work, name)
    source = lambda: JsonlReader(os.path.dirname(files[0]), glob_pattern="*.jsonl", doc_progress=False)
    language = {"language": settings["language"]} if "language" in settings else {}
    writer = lambda name: JsonlWriter(os.path.join(folder, name), compression=None)
    stages = [
        ([source(), MinhashDedupSignature(at("signatures"), config=config, **language)], len(files)),
        ([MinhashDedupBuckets(at("signatures"), at("buckets"), config=config)], config.num_buckets),
        ([MinhashDedupCluster(at("buckets"), at("remove"), config=config, save_cluster_id=True)], 1),
        (
            [
                source(),
                MinhashDedupFilter(at("remove"), exclusion_writer=writer("removed"), load_cluster_ids=True),
                writer("kept"),
            ],
            len(files),
        ),
    ]
    for number, (pipeline, tasks) in enumerate(stages):
        logs = at(f"logs-{number}")
        LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=min(tasks, 2), logging_dir=logs).run()
    seconds = since(start)
    kept = {}
    for _, _, document in documents(sorted(glob.glob(os.path.join(folder, "kept", "*.jsonl")))):
        kept[document["metadata"]["minhash_cluster_id"]] = document["id"]
    removed = documents(sorted(glob.glob(os.path.join(folder, "removed", "*.jsonl"))))
    pairs = [(document["id"], kept[document["metadata"]["minhash_cluster_id"]]) for _, _, document in removed]
    write_pairs(folder, pairs)
    return seconds


def text_dedup(files, folder, settings):
    at = lambda name: os.path.join(folder, name)
    command = [sys.executable, "-m", "text_dedup.minhash", "--path", "json", "--data_files", ",".join(files)]
    command += ["--split", "train", "--column", "text", "--output", at("kept"), "--cache_dir", at("cache")]
    start = clock()
    run([*command, "--num_proc", settings["threads"], *settings["options"]])
    seconds = since(start)
    from datasets import load_from_disk

    kept = set(load_from_disk(at("kept"))["id"])
    dropped = [document["id"] for _, _, document in documents(files) if document["id"] not in kept]
    # It names no document in place of a dropped one.
    write_pairs(folder, [(name, name) for name in dropped])
    return seconds


def datatrove_signatures(files, folder, settings):
    """The first of four stages; it drops nothing."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.readers import JsonlReader

    start = clock()
    source = JsonlReader(os.path.dirname(files[0]), glob_pattern="*.jsonl", doc_progress=False)
    pipeline = [source, MinhashDedupSignature(os.path.join(folder, "signatures"))]
    logs = os.path.join(folder, "logs")
    LocalPipelineExecutor(pipeline=pipeline, tasks=1, workers=1, logging_dir=logs).run()
    write_pairs(folder, [])
    return since(start)


def incrededup(files, folder, settings):
    """The documents are put into its SQLite database before the time begins, in its schema."""
    path = os.path.join(folder, "documents.sqlite")
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE documents (id TEXT PRIMARY KEY, content TEXT NOT NULL, content_len INTEGER NOT NULL,"
        " filename TEXT, is_parent INTEGER)"
    )
    database.execute(
        "CREATE TABLE dupes (child_id TEXT PRIMARY KEY, parent_id TEXT NOT NULL, jaccard_similarity REAL NOT"
        " NULL, size_difference INTEGER NOT NULL, size_difference_pct REAL NOT NULL)"
    )
    # It wants UUIDs, and keeps the document with the smallest: so it keeps the first.
    names = {}
    for number, (_, _, document) in enumerate(documents(files)):
        name, text = f"00000000-0000-0000-0000-{number:012}", document["text"]
        names[name] = document["id"]
        row = (name, text, len(text.encode()))
        database.execute("INSERT INTO documents (id, content, content_len) VALUES (?, ?, ?)", row)
    database.commit()
    database.close()
    command = [settings["program"], "--sqlite", path, "--data-dir", os.path.join(folder, "data")]
    start = clock()
    run([*command, "--workers", "2", *settings["options"]])
    seconds = since(start)
    database = sqlite3.connect(path)
    found = database.execute("SELECT child_id, parent_id FROM dupes").fetchall()
    write_pairs(folder, [(names[child], names[parent]) for child, parent in found])
    return seconds


def lookalike(files, folder, settings):
    output, dropped = os.path.join(folder, "out"), os.path.join(folder, "dropped.jsonl")
    command = [settings["program"], "dedupe", *files, "-o", output, "--duplicates", dropped]
    command += ["--threads", settings["threads"]]
    start = clock()
    run(command + settings["options"])
    seconds = since(start)
    lines = (line for _, _, line in documents([dropped]))
    write_pairs(folder, [(line["id"], line["replaced_by"]["id"]) for line in lines])
    return seconds


if __name__ == "__main__":
    tool, settings, folder, *files = sys.argv[1:]
    print(*globals()[tool](files, folder, json.loads(settings)))
