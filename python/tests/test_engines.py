"""The steps of engines on an engine of lists, whose partitions are cut and shuffled at random."""

import pickle
import random

import polars as pl
import pyarrow as pa
import pytest
from conftest import mixed_texts

import lookalike as la
from lookalike import _engines

MANY = 20_000


class Lists:
    """An engine in this process: a list of tables. It counts the rows that are shuffled."""

    def __init__(self, partitions: int, seed: int) -> None:
        self.partitions, self.chance, self.shuffled = partitions, random.Random(seed), 0

    def each(self, rows, step, schema):
        # Steps travel to workers.
        step = pickle.loads(pickle.dumps(step))
        made = []
        for table in rows:
            at = self.chance.randrange(table.num_rows + 1)
            made += [step(part).cast(schema) for part in (table.slice(0, at), table.slice(at))]
        self.chance.shuffle(made)
        return made

    def whole(self, rows, step, schema):
        made = [pickle.loads(pickle.dumps(step))(table).cast(schema) for table in rows]
        self.chance.shuffle(made)
        return made

    def grouped(self, rows, key, step, schema):
        table = self.table(rows)
        self.shuffled += table.num_rows
        places = pa.array([hash(value) % self.partitions for value in table.column(key).to_pylist()])
        order = list(range(table.num_rows))
        self.chance.shuffle(order)
        parts = [table.filter(pa.compute.equal(places, part)) for part in range(self.partitions)]
        return self.whole(parts, step, schema)

    def sorted(self, rows, column):
        table = self.table(rows).sort_by(column)
        size = table.num_rows // self.partitions + 1
        parts = [table.slice(at, size) for at in range(0, self.partitions * size, size)]
        self.chance.shuffle(parts)
        return parts

    def join(self, rows, others, on, how):
        left, right = pl.from_arrow(self.table(rows)), pl.from_arrow(self.table(others))
        joined = left.join(right, on=on, how={"inner": "inner", "left_anti": "anti"}[how])
        return [joined.to_arrow(compat_level=pl.CompatLevel.oldest())]

    def union(self, rows, others):
        return rows + others

    def select(self, rows, columns):
        return [table.select(list(columns)).rename_columns(list(columns.values())) for table in rows]

    def keep(self, rows):
        return rows

    def table(self, rows):
        return pa.concat_tables(rows)

    def rows(self, table):
        return [table]


def run_lists(rows: dict, partitions: int, engine=None, **arguments):
    """What the steps tell, in the order of the ids, beside all else that they find."""
    given = {"keep": "first", "profile": "minhash-copies", "clusters": "greedy"} | arguments
    names = ("k", "threshold", "check", "weights")
    options = _engines.Options("text", "id", **({name: None for name in names} | given))
    table = pa.table(rows)
    options.checked(table.column_names)
    value = None if options.value is None else table.schema.field(options.value).type
    table = table.select(["id", "text"]) if value is None else table.select(["id", "text", options.value])
    table = table.rename_columns(["id", "text", "value"][: table.num_columns])
    engine = engine or Lists(partitions, seed=partitions)
    schemas = _engines.Schemas(table.schema.field("id").type, value)
    found = _engines.run(engine, [table.slice(0, 100), table.slice(100)], options, schemas, 1)
    return engine.table(found.told).sort_by("id").to_pylist(), found


def rows_in_disorder(texts: list[str], seed: int = 61) -> dict:
    """Rows with ids that are not in the order of the rows."""
    chance = random.Random(seed)
    ids = list(range(7, 7 + 3 * len(texts), 3))
    order = list(range(len(texts)))
    chance.shuffle(order)
    votes = [chance.randrange(50) for _ in texts]
    days = [f"2026-01-{chance.randrange(1, 29):02}" for _ in texts]
    columns = {"id": ids, "text": texts, "votes": votes, "day": days}
    return {name: [column[at] for at in order] for name, column in columns.items()}


def in_order(rows: dict) -> dict:
    order = sorted(range(len(rows["id"])), key=lambda at: rows["id"][at])
    return {name: [column[at] for at in order] for name, column in rows.items()}


def on_one_machine(rows: dict, **arguments) -> tuple[list[dict], object]:
    result = la.dedupe(in_order(rows), **arguments)
    names = ["id", "replaced_by", "distance", "similarity", "exact", "contained"]
    told = zip(*(result.dropped[name] for name in names), strict=True)
    return [dict(zip(names, own, strict=True)) for own in told], result


ARGUMENTS = [
    {},
    {"keep": "longest", "weights": "none", "threshold": 0.7},
    {"keep": "max:votes", "check": 0.3},
    {"keep": "oldest:day"},
    {"keep": "central"},
    {"clusters": "linked", "keep": "min:votes"},
    {"profile": "minhash"},
    {"profile": "copies-64", "keep": "longest"},
    {"profile": "longest-sentences", "keep": "max:votes"},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_the_steps_tell_what_one_machine_tells(texts, arguments):
    rows = rows_in_disorder(texts)
    expected, result = on_one_machine(rows, **arguments)
    assert len(expected) > 100
    for partitions in (1, 2, 7):
        told, found = run_lists(rows, partitions, **arguments)
        assert told == expected
        assert (found.k, found.rows) == (result.k, len(texts))
        taught = found.weights and found.weights.documents
        assert taught == result.taught_by


def test_a_step_that_loses_a_band_is_noticed(texts, monkeypatch):
    # The comparison with one machine is worth nothing if it passes without bands.
    rows = rows_in_disorder(texts)
    expected, _ = on_one_machine(rows, weights="none")

    def few_bands(self, table):
        made = pa.record_batch(self.kernel.bands(table.column("signature")))
        is_late = pa.compute.greater_equal(made["band"], (45 << 32) - (1 << 63))
        made = pa.table({"band": made["band"], "number": table.column("number").take(made["row"])})
        return made.filter(is_late)

    monkeypatch.setattr(_engines.Banded, "__call__", few_bands)
    assert run_lists(rows, 3, weights="none")[0] != expected


def test_equal_texts_make_no_pairs():
    text = mixed_texts(1)[0] or "Please call me back before noon"
    # Two other texts are near them, so that the copies are decided on the driver, too.
    others = [f"{text} tomorrow", "The ferry runs every hour until noon"]
    rows = {"id": list(range(MANY + 2)), "text": [text] * MANY + others}
    expected, _ = on_one_machine(rows, weights="none")
    engine = Lists(4, seed=1)
    told, found = run_lists(rows, 4, engine, weights="none")
    assert told == expected and len(told) >= MANY - 1
    # Each row is shuffled once by its print, and what stands for all a few times for each of 50 bands.
    assert engine.shuffled < MANY + 1_000


def test_nearly_equal_texts_make_few_comparisons():
    # Each differs from the others in one word of many: all are near all.
    words = " ".join(f"word{number}" for number in range(120))
    texts = [f"{words} {number}" for number in range(1_500)]
    kernel = la._lookalike.Kernel("minhash-copies", None, None, None, "first", "greedy", None)
    made = pa.Table.from_batches([pa.record_batch(kernel.prints(texts, None))])
    bands = pa.record_batch(kernel.bands(made["signature"]))
    signatures, sketches = (made[name].take(bands["row"]) for name in ("signature", "sketch"))
    marks, comparisons = kernel.near(bands["band"], signatures, sketches)
    near = bands["row"].filter(pa.record_batch(marks)["is_near"])
    assert set(near.to_pylist()) == set(range(len(texts)))
    assert comparisons <= 2 * len(bands)
    rows = {"id": list(range(len(texts))), "text": texts}
    assert run_lists(rows, 3, weights="none")[0] == on_one_machine(rows, weights="none")[0]


def test_ids_may_be_strings_and_rows_without_words_are_kept(texts):
    rows = rows_in_disorder(["", "。", *texts[:200], ""])
    rows["id"] = [f"页{number:05}" for number in rows["id"]]
    assert run_lists(rows, 3)[0] == on_one_machine(rows)[0]
    assert run_lists({"id": ["a"], "text": ["one"]}, 2)[0] == []


def test_errors_name_the_argument():
    rows = {"id": [1, 2, 2], "text": ["a", "b", "c"], "votes": ["x", "1", "2"]}
    for change, arguments, words in [
        ({}, {}, "id: 2 is repeated: name a column"),
        ({"id": [1, None, 2]}, {}, "id: a row has none"),
        ({"id": [1, 2, 3], "text": ["a", None, "b"]}, {}, "text: row . has no text"),
        ({"id": [1, 2, 3]}, {"keep": "max:votes"}, "keep: max:votes: row .: .*is not a number"),
        ({"id": [1, 2, 3]}, {"keep": "max:likes"}, "keep: there is no column 'likes'"),
        ({"id": [1, 2, 3]}, {"weights": "learned"}, "weights: 3 different texts cannot teach"),
        ({"id": [1, 2, 3]}, {"weights": "learned", "profile": "copies-64"}, "takes no weights"),
        ({"exact": [1, 2, 3]}, {}, "data: the column 'exact' would be replaced"),
        ({}, {"profile": "copies"}, "profile: there is no profile"),
        ({}, {"k": 3, "threshold": 0.5}, "threshold: "),
    ]:
        with pytest.raises(ValueError, match=words):
            run_lists(rows | change, 2, **arguments)
