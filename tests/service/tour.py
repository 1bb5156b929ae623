"""The main calls with a client that was generated from openapi.yaml: python tour.py URL KEY.

mypy checks it too: no answer needs a cast.
"""

import sys
from typing import TypeVar

from lookalike_client import AuthenticatedClient
from lookalike_client.api.collections import delete_collection, list_collections, put_collection
from lookalike_client.api.documents import (
    add_documents,
    batch_documents,
    delete_document,
    delete_documents,
    get_document,
    list_documents,
    patch_document,
    put_document,
)
from lookalike_client.api.fingerprints import batch_fingerprint, compare, fingerprint
from lookalike_client.api.operations import get_stats, list_snapshots, take_snapshot, version
from lookalike_client.api.similar import batch_similar, get_document_similar, get_similar, post_similar
from lookalike_client.models import (
    CollectionSettings,
    Compare,
    ComparedSide,
    DeletionRequest,
    DocumentChange,
    Filter,
    FilterMetadata,
    FingerprintBatch,
    FingerprintRequest,
    Match,
    Metadata,
    NewDocument,
    OnDuplicate,
    Outcome,
    Problem,
    Query,
    QueryBatch,
)
from lookalike_client.types import Unset

TEXT = (
    "The harbour ferry will run every twenty minutes during the summer festival, the city council said on "
    "Tuesday. Extra boats have been hired from a neighbouring town, and tickets bought in advance remain "
    "valid."
)


T = TypeVar("T")


def ok(answer: T | Problem | None) -> T:
    """The answer, which must not be an error."""
    assert answer is not None and not isinstance(answer, Problem), answer
    return answer


def there(value: T | Unset | None) -> T:
    """The value of a field, which must be there."""
    assert value is not None and not isinstance(value, Unset)
    return value


def ids(found: list[Match]) -> list[str]:
    return [one.id for one in found]


url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)

assert ok(version.sync(client=client)).name == "lookalike"
made = ok(fingerprint.sync(client=client, body=FingerprintRequest(text=TEXT)))
# With 64 bits a changed word of so short a text may be missed.
assert made.bits == 64 and made.status == "short", made
both = ok(batch_fingerprint.sync(client=client, body=FingerprintBatch(texts=[TEXT, "x"])))
assert [one.hash_ for one in both.fingerprints][0] == made.hash_

metadata = Metadata.from_dict({"source": "city-news", "year": 2026})
first = add_documents.sync_detailed(
    client=client, body=NewDocument(id="ferry-1", text=TEXT, metadata=metadata)
)
added = ok(first.parsed)
assert first.status_code == 201 and first.headers["location"].endswith("/documents/ferry-1"), first
assert added.hash_ == made.hash_ and added.outcome == Outcome.CREATED
second = put_document.sync_detailed(
    "ferry-2", client=client, body=NewDocument(text=TEXT.replace("Tuesday", "Wednesday"))
)
assert second.status_code == 201 and ids(there(ok(second.parsed).similar)) == ["ferry-1"], second
kept_out = ok(
    add_documents.sync(client=client, body=NewDocument(text=TEXT), on_duplicate=OnDuplicate.SKIP, k=10)
)
assert kept_out.outcome == Outcome.DUPLICATE, kept_out
overwrite = put_document.sync("ferry-1", client=client, body=NewDocument(text="x"), if_none_match="*")
assert isinstance(overwrite, Problem) and overwrite.code == "precondition_failed", overwrite

near = ok(get_similar.sync(client=client, hash_=made.hash_, k=12, stats=True))
assert ids(near.similar) == ["ferry-1", "ferry-2"] and there(near.stats).verified == 2, near
assert there(near.similar[0].metadata)["source"] == "city-news"
assert ids(ok(get_document_similar.sync("ferry-2", client=client, k=12)).similar) == ["ferry-1"]
recent = Filter(metadata=FilterMetadata.from_dict({"year": {"gte": 2020}}))
filtered = ok(post_similar.sync(client=client, body=Query(text=TEXT, k=12, filter_=recent)))
assert ids(filtered.similar) == ["ferry-1"], filtered

queries = [Query(text=TEXT), Query(id="nobody"), Query(id="ferry-1", k=12)]
several = ok(batch_similar.sync(client=client, body=QueryBatch(queries=queries)))
assert ids(there(several.results[0].similar)) == ["ferry-1", "ferry-2"], several
assert there(several.results[1].error).code == "no_document", several
assert ids(there(several.results[2].similar)) == ["ferry-2"], several

many = [NewDocument(id=f"many-{number}", hash_=f"{number:016x}") for number in range(3)]
stored = ok(batch_documents.sync(client=client, body=[*many, NewDocument(id="none")], similar=2))
assert (stored.summary.created, stored.summary.errors) == (3, 1), stored
assert there(stored.results[0].hash_) == "0" * 16 and len(there(stored.results[2].similar)) == 2, stored
assert there(stored.results[3].error).code == "invalid_field", stored
page = ok(list_documents.sync(client=client, limit=2))
assert [one.id for one in page.documents] == ["ferry-1", "ferry-2"] and there(page.next_), page
rest = ok(list_documents.sync(client=client, limit=10, cursor=there(page.next_)))
assert [one.id for one in rest.documents] == ["many-0", "many-1", "many-2"] and rest.next_ is not None
deleted = ok(delete_documents.sync(client=client, body=DeletionRequest(ids=["many-0", "many-1", "many-2"])))
assert deleted.deleted == 3, deleted
changed = ok(
    patch_document.sync(
        "ferry-2", client=client, body=DocumentChange(metadata=Metadata.from_dict({"checked": True}))
    )
)
assert there(changed.metadata)["checked"] is True, changed
sides = Compare(a=ComparedSide(id="ferry-1"), b=ComparedSide(id="ferry-2"))
compared = ok(compare.sync(client=client, body=sides))
assert compared.match, compared

settings = CollectionSettings(profile="copies-128")
wide = ok(put_collection.sync(client=client, collection="wide", body=settings))
assert wide.bits == 128
assert [info.name for info in ok(list_collections.sync(client=client)).collections] == ["default", "wide"]
assert delete_collection.sync_detailed("wide", client=client).status_code == 204

assert ok(get_document.sync("ferry-1", client=client)).hash_ == made.hash_
assert delete_document.sync_detailed("ferry-1", client=client).status_code == 204
missing = get_document.sync("ferry-1", client=client)
assert isinstance(missing, Problem) and missing.code == "no_document", missing
assert ok(get_stats.sync(client=client)).collection.documents == 1
assert ok(take_snapshot.sync(client=client)).name == ok(list_snapshots.sync(client=client)).snapshots[0].name

stranger = AuthenticatedClient(base_url=url, token="lk_" + "0" * 64)
unknown = version.sync(client=stranger)
assert isinstance(unknown, Problem) and unknown.code == "unauthorized", unknown
print("the tour is made")
