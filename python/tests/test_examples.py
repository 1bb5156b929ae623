"""Every example in a docstring and in a document is run, and every public name has one."""

import doctest
import inspect
import sys

import pytest
from conftest import REPOSITORY

import lookalike as la


def documented():
    """Everything public, with its name."""
    yield "lookalike", la
    for name in la.__all__:
        own = getattr(la, name)
        yield name, own
        # Examples of the client need a server, and run in test_client.py.
        if inspect.isclass(own) and own not in (la.Client, la.AsyncClient):
            for member, value in vars(own).items():
                if not member.startswith("_") and callable(getattr(value, "__func__", value)):
                    yield f"{name}.{member}", getattr(own, member)


def run_examples(name, own):
    """Runs the examples of a docstring, which has some unless it is that of an error."""
    # The text of an error of the operating system differs between systems, not its kind.
    flags = doctest.ELLIPSIS | (0 if sys.platform == "linux" else doctest.IGNORE_EXCEPTION_DETAIL)
    own_doc = inspect.getdoc(own)
    assert own_doc, f"{name} has no docstring"
    example = doctest.DocTestParser().get_doctest(own_doc, {}, name, None, 0)
    is_error = inspect.isclass(own) and issubclass(own, Exception)
    assert example.examples or is_error, f"{name} has no example"
    assert doctest.DocTestRunner(optionflags=flags).run(example).failed == 0


# Needs the command: see test_command.py.
WITH_COMMAND = ("dedupe_files",)


@pytest.mark.parametrize(
    ("name", "own"),
    [pytest.param(*named, id=named[0]) for named in documented() if named[0] not in WITH_COMMAND],
)
def test_examples_run(name, own):
    run_examples(name, own)


def blocks() -> list[str]:
    """The examples of the documents."""
    documents = [REPOSITORY / name for name in ("docs/python.md", "python/README.md", "README.md")]
    parts = [part for path in documents for part in path.read_text(encoding="utf-8").split("```python\n")[1:]]
    return [part.split("```")[0] for part in parts]


# The others need a server, the command or an engine, and run in test_client.py and test_recipes.py.
NEEDS = ("Client(", "dedupe_files(", "lookalike.ray", "lookalike.spark", "lookalike.datatrove")
NEEDS += ("import langchain", "from langchain", "import datasets")
WITHOUT_SERVER = [block for block in blocks() if not any(word in block for word in NEEDS)]


@pytest.mark.parametrize("block", WITHOUT_SERVER, ids=range(len(WITHOUT_SERVER)))
def test_examples_of_the_documents_run(block):
    exec(block, {"frame": {"text": ["a text", "another text"]}})


def test_the_documents_have_examples():
    assert len(WITHOUT_SERVER) > 5 and len(blocks()) > len(WITHOUT_SERVER)
