"""Deduplication in datatrove: as stages of its pipelines, with any executor that shares a folder.

`stages` gives pipelines that keep what `lookalike.dedupe` keeps. `MinhashSignatures` takes the place of
datatrove's `MinhashDedupSignature`, before its own later stages, which then find groups by their own rules.

>>> from lookalike.datatrove import stages  # doctest: +SKIP
>>> for pipeline, tasks in stages(JsonlReader("corpus/"), "work/", [JsonlWriter("unique/")], tasks=8):
...     LocalPipelineExecutor(pipeline, tasks=tasks).run()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from os import PathLike
from typing import Any, Literal

import datatrove.pipeline.base
import datatrove.pipeline.dedup
from datatrove.io import get_datafolder

from . import _engines
from ._dedupe import plain
from ._lookalike import Weights, minima

__all__ = ["MinhashSignatures", "stages"]

_base: Any = datatrove.pipeline.base
_dedup: Any = datatrove.pipeline.dedup
_BATCH = 1_000
"""The documents that a step takes at a time."""


class MinhashSignatures(_dedup.MinhashDedupSignature):
    """Writes the signature files of datatrove's `MinhashDedupSignature`, by the minima of a profile.

    `output_folder` and `config` are as there: `num_buckets` files with `hashes_per_bucket` minima of each
    document. `MinhashDedupBuckets`, `MinhashDedupCluster` and `MinhashDedupFilter` run unchanged with the
    same `config`. `n_grams` and the hash function are not read: features are those of `profile`, for any
    language.

    >>> from lookalike.datatrove import MinhashSignatures  # doctest: +SKIP
    >>> pipeline = [reader, MinhashSignatures("signatures/", config=MinhashConfig())]  # doctest: +SKIP
    """

    name = "🎯 lookalike MinHash stage 1"

    def __init__(self, output_folder: Any, config: Any = None, *, profile: str = "minhash-copies") -> None:
        # The step that is replaced would load the word tokenizer of a language.
        _base.PipelineStep.__init__(self)
        self.output_folder = get_datafolder(output_folder)
        self.config = config or _dedup.MinhashConfig()
        self.profile = profile

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None:
        """Writes the files of the documents of this task, sorted as the next stage reads them."""
        import numpy as np

        buckets, width = self.config.num_buckets, self.config.hashes_per_bucket
        kind = "<u4" if self.config.hash_config.precision == 32 else "<u8"
        row = np.dtype([("signature", kind, (width,)), ("document", "<u4")])
        parts: list[Any] = []
        with self.track_time():
            first = 0
            for batch in _batches(data):
                self.stat_update("total", value=len(batch))
                made = minima([document.text for document in batch], self.profile, buckets * width)
                column = _engines.arrow().record_batch(made).column("minima").to_pylist()
                has = [at for at, own in enumerate(column) if own is not None]
                own = np.empty((len(has), buckets), row)
                values = np.frombuffer(b"".join(column[at] for at in has), "<u4")
                # The next stage ends at the largest number of 32 bits.
                values = np.minimum(values, 2**32 - 2).reshape(len(has), buckets, width)
                own["signature"] = values
                own["document"] = (np.array(has, "<u4") + np.uint32(first)).reshape(-1, 1)
                parts.append(own)
                first += len(batch)
            rows = np.concatenate(parts) if parts else np.empty((0, buckets), row)
            for bucket in range(buckets):
                of_bucket = rows[:, bucket]
                cells = [of_bucket["signature"][:, at] for at in range(width)]
                order = np.lexsort([of_bucket["document"], *reversed(cells)])
                with self.output_folder.open(f"bucket_{bucket:03d}/{rank:05d}.minhash.sig", "wb") as file:
                    file.write(of_bucket[order].tobytes())


def stages(
    reader: Any,
    folder: Any,
    after: list[Any],
    *,
    tasks: int,
    parts: int | None = None,
    id: str = "id",
    keep: str = "first",
    profile: str = "minhash-copies",
    k: int | None = None,
    threshold: float | None = None,
    check: float | None = None,
    weights: str | PathLike[str] | None = None,
    clusters: Literal["greedy", "linked"] = "greedy",
    exclusion_writer: Any = None,
) -> list[tuple[list[Any], int]]:
    """The stages of a deduplication: pipelines, each with its number of tasks. Each needs all before it.

    `reader` gives the documents, the same ones in each stage that reads, in `tasks` tasks. `folder` is one
    that all tasks share: the stages write their files there. `after` are the steps behind the last stage,
    which get the documents that are kept. `exclusion_writer` writes the others, with `replaced_by`,
    `distance` and `similarity` in their metadata. `parts` is the number of tasks of the stages
    that find near documents.

    Keeps what `lookalike.dedupe` keeps of the same documents in the order of their ids, for any number of
    tasks and parts. `id` is "id", that of the document, or the key of metadata with another one; `keep` may
    name keys of metadata. The other arguments are those of `lookalike.dedupe`.

    Two stages have one task, which holds the ids, and the prints of documents that are near others.

    Raises ValueError that names the argument, and what to give instead.

    >>> from lookalike.datatrove import stages  # doctest: +SKIP
    >>> for pipeline, tasks in stages(reader, "work/", [JsonlWriter("unique/")], tasks=8):
    ...     LocalPipelineExecutor(pipeline, tasks=tasks).run()  # doctest: +SKIP
    """
    options = _engines.Options("text", id, keep, profile, k, threshold, check, weights, clusters)
    options.kernel(None)
    files = _Files(folder)
    parts = parts or tasks
    made = [([reader, _Ids(files, options)], tasks), ([_Numbers(files)], 1)]
    if weights in (None, "learned"):
        made.append(([reader, _Teaching(files, options)], tasks))
    made.append(([_Learned(files, options)], 1))
    made.append(([reader, _Prints(files, options, parts)], tasks))
    made.append(([_Groups(files, options, parts)], parts))
    made.append(([_NearGroups(files, options)], parts))
    made.append(([_Decisions(files, options)], 1))
    made.append(([reader, _Filter(files, options, exclusion_writer), *after], tasks))
    return made


class _Files:
    """Tables in the shared folder. A file appears under its name when its task has written it."""

    def __init__(self, folder: Any) -> None:
        self._folder: Any = get_datafolder(folder)

    def write(self, kind: str, name: str, table: Any) -> None:
        import pyarrow.ipc

        ipc: Any = pyarrow.ipc
        with self._folder.open(f"{kind}/{name}.arrow", "wb") as file:
            with ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)

    def read(self, kind: str, name: str) -> Any:
        import pyarrow.ipc

        ipc: Any = pyarrow.ipc
        with self._folder.open(f"{kind}/{name}.arrow", "rb") as file:
            return ipc.open_file(file).read_all()

    def names(self, kind: str) -> list[str]:
        listed = self._folder.list_files(kind, glob_pattern="**/*.arrow", recursive=True)
        names: list[str] = [str(path).removesuffix(".arrow") for path in listed]
        return sorted(name[name.index(f"{kind}/") + len(kind) + 1 :] for name in names)

    def all(self, kind: str) -> Any:
        """All tables of a kind, one after the other."""
        tables = [self.read(kind, name) for name in self.names(kind)]
        return _engines.arrow().concat_tables(tables, promote_options="permissive")

    def save(self, weights: Weights | None) -> None:
        with self._folder.open("weights", "wb") as file:
            file.write(b"" if weights is None else weights.to_bytes())

    def load(self) -> Weights | None:
        with self._folder.open("weights", "rb") as file:
            data: bytes = file.read()
        return Weights.of_bytes(data) if data else None


class _Step(_base.PipelineStep):
    """A step with the shared folder, and the arguments."""

    type = "🫂 - DEDUP"

    def __init__(self, files: _Files, options: Any = None) -> None:
        super().__init__()
        self.files = files
        self.options = options

    def tables(self, data: Any) -> Iterator[tuple[list[Any], Any]]:
        """The documents in batches, each with a table of their ids, texts and values."""
        pa = _engines.arrow()
        for batch in _batches(data):
            self.stat_update("total", value=len(batch))
            columns = {"id": [self.id_of(own) for own in batch], "text": [own.text for own in batch]}
            if self.options.value is not None:
                values = [own.metadata.get(self.options.value) for own in batch]
                columns["value"] = [plain(value) for value in values]
            yield batch, pa.table(columns)

    def id_of(self, document: Any) -> Any:
        return document.id if self.options.id == "id" else document.metadata.get(self.options.id)

    def numbered(self, data: Any, rank: int) -> Iterator[tuple[list[Any], Any]]:
        """As `tables`, with the numbers of the documents."""
        numbers = self.files.read("numbers", f"{rank:05d}").column("number")
        first = 0
        for batch, table in self.tables(data):
            own = numbers.slice(first, len(batch))
            if len(own) < len(batch):
                raise ValueError("reader: it gives more documents than in the stage before")
            first += len(batch)
            yield batch, table.append_column("number", own)
        if first < len(numbers):
            raise ValueError("reader: it gives fewer documents than in the stage before")


class _Ids(_Step):
    name = "🪪 lookalike ids"

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            pa = _engines.arrow()
            tables = [table.select(["id"]) for _, table in self.tables(data)]
            table = pa.concat_tables(tables) if tables else pa.table({"id": pa.array([], pa.null())})
            self.files.write("ids", f"{rank:05d}", table)


class _Numbers(_Step):
    """Numbers all documents in the order of their ids."""

    name = "🔢 lookalike numbers"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            pa = _engines.arrow()
            names = self.files.names("ids")
            tables = [self.files.read("ids", name) for name in names]
            ids = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
            order = pa.compute.sort_indices(ids.column("id"))
            counted = _engines.Counted()(ids.take(order))
            _engines.offsets(counted)
            places = pa.compute.sort_indices(order).cast(pa.int64())
            first = 0
            for name, table in zip(names, tables, strict=True):
                numbers = pa.table({"number": places.slice(first, table.num_rows)})
                self.files.write("numbers", name, numbers)
                first += table.num_rows


class _Teaching(_Step):
    name = "🎓 lookalike texts that teach"

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            chosen = _engines.Teaching(0, 2**32)
            tables = [chosen(table) for _, table in self.numbered(data, rank)]
            if tables:
                self.files.write("teaching", f"{rank:05d}", _engines.arrow().concat_tables(tables))


class _Learned(_Step):
    name = "🎓 lookalike weights"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            # The whole of them at once: the stage before has chosen them.
            total = 1 if self.files.names("teaching") else 0

            def every(start: int, end: int) -> Any:
                return self.files.all("teaching")

            self.files.save(_engines.learned(self.options, total, every, None))


class _Prints(_Step):
    """Writes prints into the parts of their groups."""

    name = "🎯 lookalike prints"

    def __init__(self, files: _Files, options: Any, parts: int) -> None:
        super().__init__(files, options)
        self.parts = parts

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            step = _engines.Printed(self.options.kernel(self.files.load()), self.options.value is not None)
            made = [step(table) for _, table in self.numbered(data, rank)]
            if made:
                table = _engines.arrow().concat_tables(made)
                # The hash begins with bits that are as good as random.
                _write_parts(self.files, "prints", f"{rank:05d}", table, self.parts, "group", _of_bytes)


class _Groups(_Step):
    """Collapses equal prints, and writes their bands into parts."""

    name = "👯 lookalike groups"

    def __init__(self, files: _Files, options: Any, parts: int) -> None:
        super().__init__(files, options)
        self.parts = parts

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            kernel = self.options.kernel(self.files.load())
            if not self.files.names(f"prints/{rank:05d}"):
                return
            groups = _engines.Collapsed()(self.files.all(f"prints/{rank:05d}"))
            self.files.write("groups", f"{rank:05d}", groups)
            firsts = _engines.Firsts()(groups)
            if not kernel.meets:
                near = firsts.select(["number"])
                self.files.write("near", f"{rank:05d}", near)
                return
            bands = _engines.Banded(kernel)(firsts)
            rows = _engines.arrow().compute.index_in(bands.column("number"), firsts.column("number"))
            for name in ("signature", "sketch"):
                bands = bands.append_column(name, firsts.column(name).take(rows))
            _write_parts(self.files, "bands", f"{rank:05d}", bands, self.parts, "band", _of_number)


class _NearGroups(_Step):
    name = "🔎 lookalike near groups"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            if self.files.names(f"bands/{rank:05d}"):
                step = _engines.Near(self.options.kernel(self.files.load()))
                self.files.write("near", f"{rank:05d}", step(self.files.all(f"bands/{rank:05d}")))


class _Decisions(_Step):
    name = "⚖️ lookalike decisions"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        with self.track_time():
            pa = _engines.arrow()
            kernel = self.options.kernel(self.files.load())
            ids = self.files.all("ids").column("id")
            numbers = self.files.all("numbers").column("number")
            of_number = ids.take(pa.compute.sort_indices(numbers))
            decisions = _engines.Schemas(pa.string()).of["decided"].empty_table()
            if self.files.names("groups"):
                groups = self.files.all("groups")
                near = self.files.all("near").column("number") if self.files.names("near") else pa.array([])
                is_near = pa.compute.is_in(groups.column("first"), near.cast(pa.int64()))
                left, others = groups.filter(is_near), groups.filter(pa.compute.invert(is_near))
                made = [_engines.decided(kernel, left, None)] if left.num_rows else []
                decisions = pa.concat_tables([*made, _engines.Copies()(others)])
            told = {"number": decisions.column("number"), "distance": decisions.column("distance")}
            told["replaced_by"] = of_number.take(decisions.column("by"))
            self.files.write("decisions", "all", pa.table(told).sort_by("number"))


class _Filter(_Step):
    """Forwards the documents that are kept."""

    name = "✂️ lookalike filter"

    def __init__(self, files: _Files, options: Any, exclusion_writer: Any) -> None:
        super().__init__(files, options)
        self.exclusion_writer = exclusion_writer

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        from contextlib import nullcontext

        kernel = self.options.kernel(self.files.load())
        decisions = self.files.read("decisions", "all")
        own = self.files.read("numbers", f"{rank:05d}").column("number")
        own = decisions.filter(_engines.arrow().compute.is_in(decisions.column("number"), own))
        of = {row.pop("number"): row for row in own.to_pylist()}
        with self.exclusion_writer or nullcontext() as writer:
            for batch, table in self.numbered(data, rank):
                for document, number in zip(batch, table.column("number").to_pylist(), strict=True):
                    told = of.get(number)
                    self.stat_update("forwarded" if told is None else "dropped")
                    if told is None:
                        self.update_doc_stats(document)
                        yield document
                    elif writer is not None:
                        told["similarity"] = kernel.similarity(told["distance"])
                        document.metadata.update(told)
                        writer.write(document, rank)


def _batches(data: Any) -> Iterator[list[Any]]:
    rest: Iterator[Any] = iter(data)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _of_bytes(name: Any) -> int:
    return int.from_bytes(name[:8], "big")


def _of_number(number: Any) -> int:
    # A band is a number of a band and a hash: only the hash is as good as random.
    return (number & 0xFFFF_FFFF) ^ (number >> 32)


def _write_parts(
    files: _Files, kind: str, name: str, table: Any, parts: int, key: str, of: Callable[[Any], int]
) -> None:
    pa = _engines.arrow()
    places = pa.array([of(value) % parts for value in table.column(key).to_pylist()], pa.int64())
    for part in range(parts):
        files.write(f"{kind}/{part:05d}", name, table.filter(pa.compute.equal(places, part)))
