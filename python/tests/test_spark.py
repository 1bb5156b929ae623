"""`lookalike.spark` on Spark itself, with two threads, against one machine."""

import os
import sys

import pyarrow as pa
import pytest
from test_engines import on_one_machine, rows_in_disorder

if not os.environ.get("LOOKALIKE_TEST_ENGINES"):
    pytest.skip("LOOKALIKE_TEST_ENGINES is not set: it runs the tests on Spark", allow_module_level=True)

pytest.importorskip("pyspark")
from pyspark.sql import SparkSession  # noqa: E402

import lookalike.spark  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def session():
    # Workers run the Python of this test.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lookalike")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 3)
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def found(session, rows: dict, parts: int, **arguments) -> tuple[list, list]:
    df = session.createDataFrame(pa.table(rows)).repartition(parts)
    result = lookalike.spark.dedupe(df, **arguments)
    sides = [result.kept.orderBy("id").toArrow(), result.dropped.orderBy("id").toArrow()]
    session.catalog.clearCache()
    return tuple(side.to_pylist() for side in sides)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"keep": "max:votes", "check": 0.3, "weights": "none"}, {"profile": "copies-64", "keep": "longest"}],
    ids=str,
)
def test_keeps_what_one_machine_keeps(session, texts, arguments):
    rows = rows_in_disorder(texts[:700])
    expected, result = on_one_machine(rows, **arguments)
    names = list(rows)
    for parts in (1, 4):
        kept, dropped = found(session, rows, parts, **arguments)
        assert kept == [dict(zip(names, own, strict=True)) for own in zip(*result.kept.values(), strict=True)]
        assert [{name: row[name] for name in expected[0]} for row in dropped] == expected
        assert [row["text"] for row in dropped] == result.dropped["text"]


def test_equal_texts_and_no_rows_to_drop(session, texts):
    rows = {"id": list(range(20_000)), "text": [texts[0]] * 20_000}
    kept, dropped = found(session, rows, 3, weights="none")
    assert [row["id"] for row in kept] == [0] and len(dropped) == 19_999
    rows = {"id": ["b", "a"], "text": ["Fish and chips", "The ferry runs every hour"]}
    kept, dropped = found(session, rows, 2)
    assert [row["id"] for row in kept] == ["a", "b"] and dropped == []
    with pytest.raises(ValueError, match="id: 1 is repeated"):
        found(session, {"id": [1, 1], "text": ["a", "b"]}, 2)
