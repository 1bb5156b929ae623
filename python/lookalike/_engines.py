"""Deduplication on engines: the same kept documents as `lookalike.dedupe`, for any number of workers.

The engine sorts, shuffles and joins; here are the steps between. Each takes a table and gives one (ADR 61):

1. Rows are numbered in the order of their ids, which is the order of one machine (`number`).
2. Weights are learned from the texts with the numbers that teach on one machine (`learned`).
3. Texts become prints. Rows with equal prints and features form a group, and the first of them in the order
   stands for all. So a million equal texts are a million rows with the number of one, and not half of a
   million millions of pairs. What is kept stays the same: they have the same near ones. If the first of them
   is kept, it is near the others. If it is dropped, a kept one is near all of them.
4. Each group has a key for each band. A group is *near* if another one shares a key and passes the check. A
   group needs no second near one, so that n nearly equal texts take about n comparisons in a band.
5. Of a group that is not near, the first row is kept. The rows of the other groups are decided by the native
   module as on one machine. What lies near them is among them, so the decisions are the same.

Costs: the driver holds the prints of the groups that are near others, with a text each, and 24 bytes for each
of their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Generic, Literal, Protocol, TypeVar

from ._dedupe import plain
from ._frames import ADDED
from ._lookalike import Kernel, Lesson, Weights

R = TypeVar("R")
_TEACHES = 100_000
"""The numbers whose texts are asked for at first: a tenth of them teach, and most corpora need no more."""

Table = Any
"""A pyarrow Table. pyarrow is imported when it is needed: the package does not require it."""
Step = Callable[[Table], Table]


def arrow() -> Any:
    """The module pyarrow, with `compute`, which it does not import by itself."""
    from importlib import import_module

    import_module("pyarrow.compute")
    return import_module("pyarrow")


class Engine(Protocol[R]):
    """What an engine does with rows. A step must be able to travel to its workers."""

    def each(self, rows: R, step: Step, schema: Any) -> R:
        """The tables that the step makes of batches of any size. `schema` is that of the result."""
        ...

    def whole(self, rows: R, step: Step, schema: Any) -> R:
        """As `each`, and a table has all rows of a partition, in their order."""
        ...

    def grouped(self, rows: R, key: str, step: Step, schema: Any) -> R:
        """As `each`, and a table has all rows of each of its keys."""
        ...

    def sorted(self, rows: R, column: str) -> R:
        """The rows in partitions with ascending values of a column."""
        ...

    def join(self, rows: R, others: R, on: str, how: Literal["inner", "left_anti"]) -> R:
        """The rows joined with others, or those without others. Only `on` is a column of both."""
        ...

    def union(self, rows: R, others: R) -> R:
        """The rows of both, which have the same columns."""
        ...

    def select(self, rows: R, columns: dict[str, str]) -> R:
        """Some columns, by their old names, under new ones."""
        ...

    def keep(self, rows: R) -> R:
        """The same rows, which are held so that several steps read them."""
        ...

    def table(self, rows: R) -> Table:
        """All rows, on the driver."""
        ...

    def rows(self, table: Table) -> R:
        """The rows of a table of the driver."""
        ...


@dataclass(frozen=True, repr=False)
class Deduplicated(Generic[R]):
    """What an engine keeps and drops."""

    kept: R
    """The rows that are kept, with the columns that came in."""
    dropped: R
    """The dropped rows, with `replaced_by`, `distance`, `similarity`, `exact` and `contained`."""
    k: int
    """The largest distance of near texts, in cells of signatures or in bits."""
    rows: int
    """How many rows came in."""
    decided: int
    """How many rows the driver decided about: those whose texts are near others that are not equal."""
    _weights: Weights | None

    @property
    def taught_by(self) -> int | None:
        """How many different texts taught the weights of features; None if there are no weights."""
        return None if self._weights is None else self._weights.documents

    def __repr__(self) -> str:
        return f"<lookalike Deduplicated of {self.rows} rows, k={self.k}>"

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Writes the weights into a file, for `weights=path` of later runs.

        Raises ValueError if there are none, and OSError if the file cannot be written.
        """
        if self._weights is None:
            raise ValueError("weights: this result has none to save: its texts taught none")
        self._weights.save(fspath(path))


@dataclass(frozen=True)
class Options:
    """The arguments of `dedupe` that say what is kept."""

    text: str
    id: str
    keep: str
    profile: str
    k: int | None
    threshold: float | None
    check: float | None
    weights: str | PathLike[str] | None
    clusters: str

    @property
    def value(self) -> str | None:
        """The column that the keep rule names."""
        rule, _, column = self.keep.partition(":")
        return column if rule in ("newest", "oldest", "max", "min") and column else None

    def kernel(self, weights: Weights | None) -> Kernel:
        """The native steps. Raises ValueError if the arguments do not suit each other."""
        return Kernel(self.profile, self.k, self.threshold, self.check, self.keep, self.clusters, weights)

    def checked(self, columns: list[str]) -> dict[str, str]:
        """The columns that are read, under their names here. Raises ValueError if one is not there."""
        self.kernel(None)
        read = {self.id: "id", self.text: "text"}
        if len(read) < 2:
            raise ValueError(f"id: {self.id!r} is the column of texts, too: name a column of ids")
        for argument, column in (("text", self.text), ("id", self.id), ("keep", self.value)):
            if column is not None and column not in columns:
                raise ValueError(f"{argument}: there is no column {column!r}; there are {columns}")
        for name in ADDED:
            if name in columns:
                raise ValueError(
                    f"data: the column {name!r} would be replaced by that of dropped rows: rename it first"
                )
        return read


@dataclass(frozen=True)
class Counted:
    """How many rows a sorted partition has, between which ids, and one that is repeated."""

    def __call__(self, table: Table) -> Table:
        ids = table.column("id")
        if ids.null_count:
            raise ValueError("id: a row has none (null): give each row an id")
        pa = arrow()
        if table.num_rows == 0:
            return pa.table({"first": ids, "last": ids, "repeated": ids, "rows": pa.array([], pa.int64())})
        own = ids.combine_chunks()
        same = pa.compute.equal(own.slice(1), own.slice(0, len(own) - 1)) if len(own) > 1 else None
        at = pa.compute.index(same, True).as_py() if same is not None else -1
        repeated = own.slice(at, 1) if at >= 0 else pa.nulls(1, own.type)
        ends = [own.slice(0, 1), own.slice(len(own) - 1, 1), repeated]
        return pa.table([*ends, pa.array([len(own)], pa.int64())], ["first", "last", "repeated", "rows"])


@dataclass(frozen=True)
class Numbered:
    """Numbers the rows of a sorted partition. A partition is known by its first id."""

    offsets: dict[Any, int]

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        first = self.offsets[table.column("id")[0].as_py()] if table.num_rows else 0
        return table.append_column("number", pa.array(range(first, first + table.num_rows), pa.int64()))


@dataclass(frozen=True)
class Teaching:
    """The texts that teach weights, among those with numbers in a range."""

    start: int
    end: int

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        compute = pa.compute
        numbers = table.column("number")
        inside = compute.and_(compute.greater_equal(numbers, self.start), compute.less(numbers, self.end))
        table = table.select(["number", "text"]).filter(inside)
        return table.filter(pa.record_batch(Lesson.counts(table.column("number"))).column("counts"))


@dataclass(frozen=True)
class Printed:
    """The prints of texts. Rows without features are left out: they are kept, and near nothing."""

    kernel: Kernel
    has_values: bool

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        values = [plain(own) for own in table.column("value").to_pylist()] if self.has_values else None
        made = pa.Table.from_batches([pa.record_batch(self.kernel.prints(table.column("text"), values))])
        made = made.append_column("number", table.column("number"))
        return made.filter(pa.compute.invert(made.column("is_empty"))).select(
            ["number", "key", "group", "hash", "signature", "sketch", "text"]
        )


@dataclass(frozen=True)
class Collapsed:
    """Names for each row the first one with its print, `first`. Only that one keeps the print."""

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        table = table.combine_chunks().sort_by(
            [("group", "ascending"), ("key", "ascending"), ("number", "ascending")]
        )
        groups, numbers = table.column("group").to_pylist(), table.column("number").to_pylist()
        first: list[int] = []
        for row, number in enumerate(numbers):
            same = row > 0 and groups[row] == groups[row - 1]
            first.append(first[-1] if same else number)
        firsts = pa.array(first, pa.int64())
        is_first = pa.compute.equal(table.column("number"), firsts)
        columns = {"number": table.column("number"), "key": table.column("key"), "first": firsts}
        for name in ("hash", "signature", "sketch", "text"):
            own = table.column(name)
            columns[name] = pa.compute.if_else(is_first, own, pa.scalar(None, own.type))
        return pa.table(columns)


@dataclass(frozen=True)
class Firsts:
    """The rows that stand for their groups."""

    def __call__(self, table: Table) -> Table:
        is_first = arrow().compute.equal(table.column("number"), table.column("first"))
        return table.filter(is_first).select(["number", "signature", "sketch"])


@dataclass(frozen=True)
class Banded:
    """The keys under which rows meet."""

    kernel: Kernel

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        made = pa.record_batch(self.kernel.bands(table.column("signature")))
        numbers = table.column("number").take(made.column("row"))
        return pa.table({"band": made.column("band"), "number": numbers})


@dataclass(frozen=True)
class Met:
    """The rows whose band another one has, too."""

    def __call__(self, table: Table) -> Table:
        table = table.combine_chunks()
        counts = table.column("band").value_counts()
        alone = counts.filter(arrow().compute.equal(counts.field("counts"), 1)).field("values")
        return table.filter(arrow().compute.invert(arrow().compute.is_in(table.column("band"), alone)))


@dataclass(frozen=True)
class Near:
    """The rows that are near another one in some band of the table."""

    kernel: Kernel

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        columns = (table.column(name) for name in ("band", "signature", "sketch"))
        marks, _ = self.kernel.near(*columns)
        near = table.select(["number"]).filter(pa.record_batch(marks).column("is_near"))
        return near.group_by("number").aggregate([])


@dataclass(frozen=True)
class Distinct:
    """Each number once, as the name of a group."""

    def __call__(self, table: Table) -> Table:
        return table.group_by("number").aggregate([]).rename_columns(["first"])


@dataclass(frozen=True)
class Copies:
    """The decisions about the groups that are near no other one: their first row replaces the others."""

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        table = table.filter(pa.compute.not_equal(table.column("number"), table.column("first")))
        distances = pa.array([0] * table.num_rows, pa.int64())
        return pa.table(
            {"number": table.column("number"), "by": table.column("first"), "distance": distances}
        )


@dataclass(frozen=True)
class Told:
    """What is told of dropped rows, from their texts and those that replace them."""

    kernel: Kernel

    def __call__(self, table: Table) -> Table:
        pa = arrow()
        columns = (table.column(name) for name in ("text", "by_text", "distance"))
        told = pa.record_batch(self.kernel.told(*columns))
        named = {"id": table.column("id"), "replaced_by": table.column("replaced_by")}
        named["distance"] = table.column("distance")
        return pa.table(named | {name: told.column(name) for name in told.schema.names})


def decided(kernel: Kernel, left: Table, threads: int | None) -> Table:
    """The decisions about the rows of groups that are near others: those that are dropped."""
    pa = arrow()
    left = left.combine_chunks().sort_by("number")
    firsts = left.filter(pa.compute.equal(left.column("number"), left.column("first")))
    print_of = pa.compute.index_in(left.column("first"), firsts.column("number"))
    prints = (firsts.column(name) for name in ("hash", "signature", "sketch", "text"))
    made = kernel.decide(left.column("key"), print_of.cast(pa.int64()), *prints, threads=threads)
    made = pa.record_batch(made)
    is_dropped = pa.compute.is_valid(made.column("by"))
    numbers = left.column("number").combine_chunks()
    named = {"number": numbers, "by": numbers.take(made.column("by")), "distance": made.column("distance")}
    return pa.table(named).filter(is_dropped)


def offsets(counts: Table) -> tuple[dict[Any, int], int]:
    """The number of the first row of each partition, by its id, and the number of all rows."""
    firsts: dict[Any, int] = {}
    total, last = 0, None
    for part in counts.sort_by("first").to_pylist():
        repeated = part["first"] if total and part["first"] == last else part["repeated"]
        if repeated is not None:
            raise ValueError(f"id: {repeated!r} is repeated: name a column that has each value once")
        firsts[part["first"]] = total
        total += part["rows"]
        last = part["last"]
    return firsts, total


def learned(
    options: Options, total: int, teaching: Callable[[int, int], Table], threads: int | None
) -> Weights | None:
    """The weights of features: none, those of a file, or those that the texts teach on one machine."""
    if options.weights == "none":
        return None
    if options.weights not in (None, "learned"):
        return Weights.load(fspath(options.weights))
    lesson = Lesson(options.profile)
    if not lesson.takes_weights:
        if options.weights == "learned":
            raise ValueError(f"weights: {options.profile} takes no weights; minhash-copies does")
        return None
    start, size = 0, _TEACHES
    while start < total:
        texts = teaching(start, min(start + size, total)).sort_by("number").column("text")
        if lesson.add(texts, threads=threads):
            break
        start, size = start + size, 10 * _TEACHES
    documents = lesson.documents
    weights = lesson.table()
    if weights is None and options.weights == "learned":
        raise ValueError(
            f"weights: {documents} different texts cannot teach weights; at least 100 are needed"
        )
    return weights


@dataclass
class Schemas:
    """The schemas of what steps make, for engines that want to know them before."""

    id: Any
    value: Any = None
    of: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        pa = arrow()
        number, prints = ("number", pa.int64()), [(n, pa.binary()) for n in ("hash", "signature", "sketch")]
        prints.append(("text", pa.string()))
        own = [("id", self.id), ("text", pa.string())]
        own += [] if self.value is None else [("value", self.value)]
        lists: dict[str, list[tuple[str, Any]]] = {
            "counted": [*((n, self.id) for n in ("first", "last", "repeated")), ("rows", pa.int64())],
            "numbered": [*own, number],
            "teaching": [number, ("text", pa.string())],
            "printed": [number, ("key", pa.int64()), ("group", pa.binary()), *prints],
            "collapsed": [number, ("key", pa.int64()), ("first", pa.int64()), *prints],
            "firsts": [number, *prints[1:3]],
            "banded": [("band", pa.int64()), number],
            "near": [number],
            "distinct": [("first", pa.int64())],
            "decided": [number, ("by", pa.int64()), ("distance", pa.int64())],
            "told": [
                *((n, self.id) for n in ("id", "replaced_by")),
                ("distance", pa.int64()),
                ("similarity", pa.float64()),
                ("exact", pa.bool_()),
                ("contained", pa.float64()),
            ],
        }
        self.of = {name: pa.schema(fields) for name, fields in lists.items()}


@dataclass(frozen=True)
class Decided(Generic[R]):
    """What `run` finds: a row of the columns `ADDED` for each id that is dropped."""

    told: R
    k: int
    rows: int
    decided: int
    weights: Weights | None


def run(engine: Engine[R], rows: R, options: Options, schemas: Schemas, threads: int | None) -> Decided[R]:
    """Decides about rows with the columns `id`, `text` and `value`."""
    of = schemas.of
    ordered = engine.keep(engine.sorted(rows, "id"))
    firsts, total = offsets(engine.table(engine.whole(ordered, Counted(), of["counted"])))
    numbered = engine.keep(engine.whole(ordered, Numbered(firsts), of["numbered"]))

    def teaching(start: int, end: int) -> Table:
        return engine.table(engine.each(numbered, Teaching(start, end), of["teaching"]))

    weights = learned(options, total, teaching, threads)
    kernel = options.kernel(weights)
    prints = engine.each(numbered, Printed(kernel, options.value is not None), of["printed"])
    groups = engine.keep(engine.grouped(prints, "group", Collapsed(), of["collapsed"]))
    near = engine.keep(near_groups(engine, groups, kernel, of))
    left = engine.table(engine.join(groups, near, "first", "inner"))
    others = engine.each(engine.join(groups, near, "first", "left_anti"), Copies(), of["decided"])
    decisions = engine.union(others, engine.rows(decided(kernel, left, threads)))
    of_row = engine.select(numbered, {"number": "number", "id": "id", "text": "text"})
    of_other = engine.select(numbered, {"number": "by", "id": "replaced_by", "text": "by_text"})
    pairs = engine.join(engine.join(decisions, of_row, "number", "inner"), of_other, "by", "inner")
    told = engine.keep(engine.each(pairs, Told(kernel), of["told"]))
    return Decided(told, kernel.k, total, left.num_rows, weights)


def divided(engine: Engine[R], rows: R, id: str, found: Decided[R]) -> Deduplicated[R]:
    """The rows with all their columns, divided by the decisions about them; `id` is the column of ids."""
    told = engine.select(found.told, {"id": id, **{name: name for name in ADDED}})
    kept = engine.join(rows, engine.select(found.told, {"id": id}), id, "left_anti")
    dropped = engine.join(rows, told, id, "inner")
    return Deduplicated(kept, dropped, found.k, found.rows, found.decided, found.weights)


def near_groups(engine: Engine[R], groups: R, kernel: Kernel, of: dict[str, Any]) -> R:
    """The groups that are near another one, by the numbers of their first rows."""
    firsts = engine.keep(engine.each(groups, Firsts(), of["firsts"]))
    if not kernel.meets:
        # All are decided together: the kernel says why.
        return engine.select(firsts, {"number": "first"})
    # Bands go without signatures at first, because most bands have one row.
    banded = engine.each(firsts, Banded(kernel), of["banded"])
    met = engine.grouped(banded, "band", Met(), of["banded"])
    near = engine.grouped(engine.join(met, firsts, "number", "inner"), "band", Near(kernel), of["near"])
    return engine.grouped(near, "number", Distinct(), of["distinct"])
