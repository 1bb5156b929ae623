"""`lookalike.ray` on Ray itself, against one machine."""

import os

import pyarrow as pa
import pytest
from test_engines import in_order, on_one_machine, rows_in_disorder

if not os.environ.get("LOOKALIKE_TEST_ENGINES"):
    pytest.skip("LOOKALIKE_TEST_ENGINES is not set: it runs the tests on Ray", allow_module_level=True)

ray = pytest.importorskip("ray")
import lookalike.ray  # noqa: E402

# Ray warns of its own use of Python's resources.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def found(rows: dict, blocks: int, **arguments) -> tuple[list, list]:
    ds = ray.data.from_arrow(pa.table(rows)).repartition(blocks)
    result = lookalike.ray.dedupe(ds, partitions=2 * blocks, **arguments)
    kept = sorted(result.kept.take_all(), key=lambda row: row["id"])
    return kept, sorted(result.dropped.take_all(), key=lambda row: row["id"])


@pytest.mark.parametrize(
    "arguments",
    [{}, {"keep": "max:votes", "check": 0.3, "weights": "none"}, {"profile": "copies-64", "keep": "longest"}],
    ids=str,
)
def test_keeps_what_one_machine_keeps(texts, arguments):
    rows = rows_in_disorder(texts[:700])
    expected, result = on_one_machine(rows, **arguments)
    names = list(in_order(rows))
    for blocks in (1, 3):
        kept, dropped = found(rows, blocks, **arguments)
        assert kept == [dict(zip(names, own, strict=True)) for own in zip(*result.kept.values(), strict=True)]
        assert [{name: row[name] for name in expected[0]} for row in dropped] == expected
        assert [row["text"] for row in dropped] == result.dropped["text"]


def test_equal_texts_and_no_rows_to_drop(texts):
    rows = {"id": list(range(20_000)), "text": [texts[0]] * 20_000}
    kept, dropped = found(rows, 2, weights="none")
    assert [row["id"] for row in kept] == [0] and len(dropped) == 19_999
    kept, dropped = found({"id": ["b", "a"], "text": ["Fish and chips", "The ferry runs every hour"]}, 1)
    assert [row["id"] for row in kept] == ["a", "b"] and dropped == []
    with pytest.raises(Exception, match="id: 1 is repeated"):
        found({"id": [1, 1], "text": ["a", "b"]}, 1)
