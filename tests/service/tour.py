"""The tour of the README with a client that was generated from openapi.yaml: python tour.py URL KEY."""

import sys

from lookalike_client import AuthenticatedClient
from lookalike_client.api.collections import delete_collection, list_collections, put_collection
from lookalike_client.api.documents import add_documents, delete_document, get_document, put_document
from lookalike_client.api.fingerprints import fingerprint
from lookalike_client.api.operations import get_stats, list_snapshots, take_snapshot, version
from lookalike_client.api.similar import get_document_similar, get_similar, post_similar
from lookalike_client.models import (
    AddedDocument,
    CollectionSettings,
    FingerprintRequest,
    Metadata,
    NewDocument,
    OnDuplicate,
    Problem,
    Query,
    SimilarRequest,
)

TEXT = (
    "The harbour ferry will run every twenty minutes during the summer festival, the city council said on "
    "Tuesday. Extra boats have been hired from a neighbouring town, and tickets bought in advance remain "
    "valid."
)

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)

assert version.sync(client=client).name == "lookalike"
made = fingerprint.sync(client=client, body=FingerprintRequest(text=TEXT))
# With 64 bits a changed word of so short a text may be missed.
assert made.bits == 64 and made.status == "short", made

metadata = Metadata.from_dict({"source": "city-news"})
first = add_documents.sync_detailed(
    client=client, body=NewDocument(id="ferry-1", text=TEXT, metadata=metadata)
)
assert first.status_code == 201 and isinstance(first.parsed, AddedDocument), first
assert first.parsed.hash_ == made.hash_ and first.parsed.outcome == "created"
second = put_document.sync_detailed(
    "ferry-2", client=client, body=NewDocument(text=TEXT.replace("Tuesday", "Wednesday"))
)
assert second.status_code == 201 and [near.id for near in second.parsed.similar] == ["ferry-1"], second
kept_out = add_documents.sync(client=client, body=NewDocument(text=TEXT), on_duplicate=OnDuplicate.SKIP, k=10)
assert kept_out.outcome == "duplicate", kept_out

near = get_similar.sync(client=client, hash_=made.hash_, k=12, stats=True)
assert [found.id for found in near.similar] == ["ferry-1", "ferry-2"] and near.stats.verified == 2, near
assert near.similar[0].metadata["source"] == "city-news"
assert [found.id for found in get_document_similar.sync("ferry-2", client=client, k=12).similar] == [
    "ferry-1"
]
several = post_similar.sync(
    client=client, body=SimilarRequest(queries=[Query(text=TEXT), Query(id="ferry-1", k=12)])
)
assert [[found.id for found in answer.similar] for answer in several.results] == [
    ["ferry-1", "ferry-2"],
    ["ferry-2"],
], several

assert (
    put_collection.sync(client=client, collection="wide", body=CollectionSettings(profile="copies-128")).bits
    == 128
)
assert [info.name for info in list_collections.sync(client=client).collections] == ["default", "wide"]
assert delete_collection.sync_detailed("wide", client=client).status_code == 204

assert get_document.sync("ferry-1", client=client).hash_ == made.hash_
assert delete_document.sync_detailed("ferry-1", client=client).status_code == 204
missing = get_document.sync("ferry-1", client=client)
assert isinstance(missing, Problem) and missing.code == "no_document", missing
assert get_stats.sync(client=client).collection.documents == 1
assert take_snapshot.sync(client=client).name == list_snapshots.sync(client=client).snapshots[0].name

stranger = AuthenticatedClient(base_url=url, token="lk_" + "0" * 64)
assert version.sync(client=stranger).code == "unauthorized"
print("the tour is made")
