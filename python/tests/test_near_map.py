"""The map of texts: what it refuses and finds, saved, pickled and under threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import lookalike as la


@pytest.mark.parametrize("profile", ["copies-64", "copies-128", "minhash-copies", "short-128"])
def test_refuses_what_dedupe_drops(texts, profile):
    # Without weights and a second check, the first of near texts is kept by both, if k is the same.
    texts = texts[:500]
    k = {own.name: own.k for own in la.profiles()}[profile]
    near = la.NearMap(profile, k=k)
    found = [near.insert_if_novel(str(row), text) for row, text in enumerate(texts)]
    result = la.dedupe(texts, profile=profile, k=k, weights="none")
    assert result.dropped_rows and len(near) == len(result.kept)
    assert [row for row, own in enumerate(found) if own] == result.dropped_rows
    told = [(own.distance, own.similarity) for own in found if own]
    assert told == [(row["distance"], row["similarity"]) for row in result.dropped]
    for row in result.kept_rows[:50]:
        if la.fingerprint(texts[row], profile="copies-64"):
            assert near.find(texts[row])[0].distance == 0


def test_a_saved_and_a_pickled_map_are_the_same(texts, tmp_path):
    near = la.NearMap("minhash-copies", k=120)
    for row, text in enumerate(texts[:200]):
        near.insert_if_novel(f"页{row}", text)
    path = tmp_path / "texts.near"
    near.save(path)
    for other in (la.NearMap.load(path), pickle.loads(pickle.dumps(near))):
        assert (len(other), other.k, other.profile) == (len(near), 120, "minhash-copies@1")
        assert all(other.find(text) == near.find(text) for text in texts[200:260])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OSError, match="damaged"):
        la.NearMap.load(path)
    assert pickle.loads(pickle.dumps(la.Near("a", 1, 0.5))) == la.Near("a", 1, 0.5) != la.Near("a", 2, 0.5)


def test_of_equal_texts_from_many_threads_one_is_stored(texts):
    near = la.NearMap("copies-64", k=0)
    with ThreadPoolExecutor(4) as pool:
        for round, text in enumerate(texts[1:40]):
            if not la.fingerprint(text, profile="copies-64") or near.find(text):
                continue
            stored = pool.map(lambda own: near.insert_if_novel(f"{round}-{own}", text) is None, range(8))
            assert sum(stored) == 1


def test_ids_are_removed_and_taken():
    near = la.NearMap()
    assert near.insert_if_novel("a", "Please call me back before noon") is None
    with pytest.raises(ValueError, match="id: a text is stored under this id: remove it first"):
        near.insert_if_novel("a", "Another text")
    assert "a" in near and near.remove("a") and "a" not in near and not near.remove("a")
    assert near.find("Please call me back before noon") == []
    assert near.insert_if_novel("empty", "") is None and near.find("") == []
    with pytest.raises(ValueError, match="k: the largest distance of copies-128@1 is 128"):
        la.NearMap(k=129)
    with pytest.raises(ValueError, match="profile: there is no profile"):
        la.NearMap("copies")
    with pytest.raises(ValueError, match="profile: .*takes no text"):
        la.NearMap("hashes-64")
