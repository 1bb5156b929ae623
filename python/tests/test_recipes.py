"""The recipes of docs/python.md run as written: those that need what is large, in the long form."""

import asyncio
import json
import os
import sys

import pytest
from test_client import serve
from test_examples import NEEDS, blocks

import lookalike as la

IS_LONG = bool(os.environ.get("LOOKALIKE_TEST_ENGINES"))
RECIPES = [block for block in blocks() if any(word in block for word in NEEDS)]
TEXTS = ["Please call me back before noon", "please call me back before noon!", "The ferry runs every hour"]


def recipe(*words: str) -> str:
    (found,) = [block for block in RECIPES if all(word in block for word in words)]
    return found


def only_in_the_long_form(module: str) -> None:
    if not IS_LONG:
        pytest.skip(f"LOOKALIKE_TEST_ENGINES is not set: it runs the recipe with {module}")
    pytest.importorskip(module)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    rows = (json.dumps({"id": f"d{row}", "text": text}) for row, text in enumerate(TEXTS))
    (tmp_path / "corpus" / "a.jsonl").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_files(command, here, monkeypatch):
    binary = os.environ["LOOKALIKE_TEST_BINARY"]
    for name in [name for name in os.environ if name.startswith("LOOKALIKE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOOKALIKE_BINARY", binary)
    exec(recipe("dedupe_files("), {})
    assert (here / "report.html").exists() and (here / "unique" / "a.jsonl").exists()


def test_a_data_set_from_and_to_parquet(here):
    exec(recipe("import datasets"), {})


def test_langchain(here):
    only_in_the_long_form("langchain_core")
    exec(recipe("langchain_core"), {})


@pytest.mark.filterwarnings("ignore")
def test_scrapy(command, tmp_path):
    only_in_the_long_form("scrapy")
    process, url = serve(tmp_path)
    try:
        own: dict = {}
        exec(recipe("import scrapy").replace("http://localhost:8080", url), own)
        pipeline = own["NovelPages"]()
        pages = [{"url": f"https://example.com/{at}", "text": text} for at, text in enumerate(TEXTS * 2)]

        async def crawl():
            kept = []
            for page in pages:
                try:
                    kept.append(await pipeline.process_item(page))
                except own["DropItem"]:
                    pass
            return kept

        kept = asyncio.run(crawl())
        assert len(kept) < len(pages) and kept[0] == pages[0]
        assert [la.Client(url).get(page["url"])["id"] for page in kept] == [page["url"] for page in kept]
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("words", "out"), [(("MinhashSignatures",), "grouped"), (("import stages",), "kept")]
)
def test_datatrove(here, words, out):
    only_in_the_long_form("datatrove")
    exec(recipe("lookalike.datatrove", *words), {"__name__": "__main__"})
    assert list((here / out).iterdir())


@pytest.mark.filterwarnings("ignore")
def test_ray(here):
    only_in_the_long_form("ray")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        exec(recipe("lookalike.ray"), {})
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_spark(here, monkeypatch):
    only_in_the_long_form("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    own: dict = {}
    exec(recipe("lookalike.spark"), own)
    own["spark"].stop()
