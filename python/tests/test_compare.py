"""The comparison of two texts."""

import pytest

import lookalike as la

A = "The harbour ferry will run every twenty minutes during the summer festival, the council said on Tuesday."
B = A.replace("Tuesday", "Friday")


@pytest.mark.parametrize("profile", ["copies-64", "copies-128"])
def test_the_distance_is_that_of_the_hashes(profile):
    found = la.compare(A, B, profile=profile)
    a, b = la.fingerprint([A, B], profile=profile)
    assert found.hashes == (a, b) and found.distance == (a ^ b).bit_count()
    assert found.match == (found.distance <= found.k) and found.similarity is None
    assert 0 < found.jaccard < 1 and 0 < found.cosine < 1 and found.shared < found.distinct
    assert found.differing and all(a != b for _, a, b in found.differing)
    assert "".join(words for kind, words in found.changes if kind != "added") == A
    assert "".join(words for kind, words in found.changes if kind != "removed") == B


def test_signatures_have_a_similarity():
    found = la.compare(A, B, profile="minhash-copies")
    assert found.match and found.similarity > 0.7 and found.distance < found.k == 99
    assert not la.compare(A, B, profile="minhash-copies", k=1).match
    assert not la.compare("", "", profile="copies-64").match, "texts without features match nothing"
    assert la.compare("图书馆延长周末开放时间", "图书馆延长周末开放时间").distance == 0
    with pytest.raises(ValueError, match="k: 201 is larger than 200"):
        la.compare(A, B, profile="minhash-copies", k=201)
