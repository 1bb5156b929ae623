"""`lookalike.datatrove` in datatrove's pipelines, against one machine, and before its own later stages."""

import json
import os
import struct

import numpy as np
import pyarrow as pa
import pytest
from conftest import lines_of
from test_engines import in_order, on_one_machine, rows_in_disorder

import lookalike as la

if not os.environ.get("LOOKALIKE_TEST_ENGINES"):
    pytest.skip("LOOKALIKE_TEST_ENGINES is not set: it runs the tests in datatrove", allow_module_level=True)

pytest.importorskip("datatrove")
from datatrove.executor import LocalPipelineExecutor  # noqa: E402
from datatrove.pipeline.dedup import (  # noqa: E402
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
)
from datatrove.pipeline.readers import JsonlReader  # noqa: E402
from datatrove.pipeline.writers import JsonlWriter  # noqa: E402

from lookalike.datatrove import MinhashSignatures, stages  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def corpus(folder, rows: dict, files: int) -> JsonlReader:
    folder.mkdir()
    lines = [json.dumps(dict(zip(rows, own, strict=True))) for own in zip(*rows.values(), strict=True)]
    for number in range(files):
        (folder / f"{number}.jsonl").write_text("\n".join(lines[number::files]) + "\n")
    return JsonlReader(str(folder))


def run(folder, made, workers: int) -> None:
    for number, (pipeline, tasks) in enumerate(made):
        logging = str(folder / f"logs{number}")
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=workers, logging_dir=logging).run()


def written(folder) -> list[dict]:
    rows = [row for file in sorted(folder.glob("*.jsonl")) for row in lines_of(file)]
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("tasks", "parts", "arguments"),
    [
        (1, 1, {}),
        (3, 2, {"keep": "max:votes", "check": 0.3}),
        (2, 4, {"weights": "none", "keep": "longest"}),
        (2, 3, {"profile": "copies-64"}),
    ],
    ids=str,
)
def test_stages_keep_what_one_machine_keeps(texts, tmp_path, tasks, parts, arguments):
    # The reader passes over empty texts.
    rows = rows_in_disorder([text for text in texts[:700] if text])
    rows["id"] = [f"d{number:06}" for number in rows["id"]]
    expected, result = on_one_machine(rows, **arguments)
    reader = corpus(tmp_path / "in", rows, 3)
    writer = JsonlWriter(str(tmp_path / "out"), compression=None)
    others = JsonlWriter(str(tmp_path / "others"), compression=None)
    made = stages(
        reader,
        str(tmp_path / "work"),
        [writer],
        tasks=tasks,
        parts=parts,
        exclusion_writer=others,
        **arguments,
    )
    run(tmp_path, made, workers=1 if tasks == 1 else 2)
    kept = in_order(result.kept)
    assert [row["id"] for row in written(tmp_path / "out")] == kept["id"]
    assert [row["text"] for row in written(tmp_path / "out")] == kept["text"]
    names = ("replaced_by", "distance", "similarity")
    dropped = written(tmp_path / "others")
    told = [{"id": row["id"], **{n: row["metadata"][n] for n in names}} for row in dropped]
    assert told == [{name: own[name] for name in ("id", *names)} for own in expected]


@pytest.mark.parametrize("precision", [32, 64])
def test_later_stages_of_datatrove_run_on_our_signatures(texts, tmp_path, precision):
    from datatrove.utils.hashing import HashConfig

    texts = [text for text in texts[:400] if text]
    config = MinhashConfig(num_buckets=14, hashes_per_bucket=8, hash_config=HashConfig(precision=precision))
    rows = {"id": [f"d{number}" for number in range(len(texts))], "text": texts}
    reader = corpus(tmp_path / "in", rows, 2)
    folders = {name: str(tmp_path / name) for name in ("signatures", "buckets", "remove", "out")}
    made = [
        ([reader, MinhashSignatures(folders["signatures"], config)], 2),
        ([MinhashDedupBuckets(folders["signatures"], folders["buckets"], config=config)], 14),
        ([MinhashDedupCluster(folders["buckets"], folders["remove"], config=config)], 1),
        (
            [reader, MinhashDedupFilter(folders["remove"]), JsonlWriter(folders["out"], compression=None)],
            2,
        ),
    ]
    run(tmp_path, made, workers=1)
    # The groups of datatrove: chains of texts that share a bucket, by a loop over all pairs.
    made = la._lookalike.minima(texts, "minhash-copies", 14 * 8)
    column = pa.record_batch(made).column("minima").to_pylist()
    cells = [None if own is None else np.frombuffer(own, "<u4").reshape(14, 8) for own in column]
    groups = list(range(len(texts)))
    for a in range(len(texts)):
        for b in range(a):
            if cells[a] is None or cells[b] is None or not (cells[a] == cells[b]).all(axis=1).any():
                continue
            old, new = groups[a], groups[b]
            groups = [new if group == old else group for group in groups]
    out = written(tmp_path / "out")
    assert len(out) == len(set(groups)) < len(texts)
    kept = [groups[int(row["id"][1:])] for row in out]
    assert len(set(kept)) == len(kept)
    size = struct.calcsize(f"<8{'I' if precision == 32 else 'Q'}I")
    signed = sum(own is not None for own in cells)
    files = sorted((tmp_path / "signatures" / "bucket_003").iterdir())
    assert sum(file.stat().st_size for file in files) == size * signed
