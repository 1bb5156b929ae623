//! The map against a list of fingerprints that is searched from its beginning, and its saved form.

use std::collections::BTreeMap;

use super::*;

fn text(random: &mut fastrand::Rng) -> String {
    (0..12)
        .map(|_| format!("{} ", ["harbour", "ferry", "读者", "周末", "tickets"][random.usize(..5)]))
        .collect()
}

#[test]
fn finds_what_a_search_of_all_texts_finds() {
    let mut random = fastrand::Rng::with_seed(46);
    for name in ["copies-64", "copies-128", "minhash-copies", "short-128"] {
        let profile = Profile::named(name).unwrap();
        let mut map = NearMap::new(profile, None).unwrap();
        let mut stored: BTreeMap<u32, (Fingerprint, Print)> = BTreeMap::new();
        for id in 0..300 {
            let text = text(&mut random);
            let own = printed(profile, &text).unwrap();
            let distance = |other: &Print| match profile.signatures() {
                Some(shape) => shape.distance(&other.signature, &own.1.signature),
                None => own.1.hash.distance(other.hash).unwrap(),
            };
            let mut expected: Vec<u32> = stored.values().map(|(_, other)| distance(other)).collect();
            expected.retain(|distance| *distance <= own.0.k);
            expected.sort_unstable();
            let found: Vec<u32> = map.find(&text, None).unwrap().iter().map(|near| near.distance).collect();
            if profile.signatures().is_none() {
                assert_eq!(found, expected, "{name}");
            }
            let near = map.insert_if_novel(id, &text, id).unwrap();
            assert_eq!(near.map(|near| near.distance), found.first().copied(), "{name}");
            if found.is_empty() {
                stored.insert(id, own);
            }
            if random.u8(..4) == 0 {
                let gone = random.u32(..=id);
                assert_eq!(map.remove(&gone), stored.remove(&gone).map(|_| gone), "{name}");
            }
            assert_eq!((map.len(), map.is_empty()), (stored.len(), stored.is_empty()), "{name}");
        }
        assert!(map.len() > 1, "{name}");
    }
}

#[test]
fn texts_without_features_are_stored_and_near_nothing() {
    let mut map = NearMap::new(Profile::default_profile(), Some(128)).unwrap();
    assert_eq!(map.insert_if_novel("a", "。", 1).unwrap(), None);
    assert_eq!(map.insert_if_novel("b", "", 2).unwrap(), None);
    assert_eq!((map.len(), map.find("words", None).unwrap()), (2, vec![]));
    assert!(matches!(map.insert_if_novel("a", "words", 3), Err(NearMapError::Taken)));
    assert_eq!((map.remove(&"a"), map.remove(&"a")), (Some(1), None));
    assert!(NearMap::<u8>::new(Profile::default_profile(), Some(129)).is_err());
    assert!(NearMap::<u8>::new(Profile::named("hashes-64").unwrap(), None).is_err());
}

#[test]
fn a_saved_map_reads_back_and_damage_is_found() {
    let mut random = fastrand::Rng::with_seed(1);
    for (name, k) in [("copies-128", Some(9)), ("minhash-copies", None)] {
        let mut map = NearMap::new(Profile::named(name).unwrap(), k).unwrap();
        map.insert_if_novel("empty".to_owned(), "", ()).unwrap();
        for number in 0..20 {
            map.insert_if_novel(format!("页{number}"), &text(&mut random), ()).unwrap();
        }
        let mut bytes = Vec::new();
        map.write_to(&mut bytes).unwrap();
        let again = NearMap::read_from(&*bytes).unwrap();
        let mut twice = Vec::new();
        again.write_to(&mut twice).unwrap();
        assert_eq!(twice, bytes);
        assert_eq!((again.len(), again.k(), again.profile().id()), (map.len(), k, map.profile().id()));
        for _ in 0..20 {
            let text = text(&mut random);
            assert_eq!(again.find(&text, None).unwrap(), map.find(&text, None).unwrap());
        }
        for length in 0..bytes.len() {
            assert!(NearMap::read_from(&bytes[..length]).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(NearMap::read_from(&*bytes).is_err(), "{at}");
            bytes[at] ^= 1;
        }
    }
}
