//! Fuzz target for hashes, ids, collection names, and fingerprints of arbitrary text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lookalike_hash::{CollectionName, DocumentId, Hash};
use lookalike_text::fingerprint::{Profile, Status};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(hash) = text.parse::<Hash>() {
        assert_eq!(hash.to_string().parse::<Hash>().ok(), Some(hash));
    }
    if let Ok(id) = DocumentId::new(&text) {
        assert!(id.as_str() == text && id.as_str().len() <= 256);
    }
    if let Ok(name) = CollectionName::new(&text) {
        assert!(!name.as_str().contains(['/', '.', '\0']));
    }
    // Every text has either features or the status `Empty`, and its fingerprint is deterministic.
    for profile in ["copies-64", "copies-128", "keywords-zh", "longest-sentences"].map(Profile::named) {
        let profile = profile.expect("a built-in profile");
        let made = profile.fingerprint(&text);
        assert_eq!(made.status == Status::Empty, made.features == 0);
        assert_eq!(profile.sign(&text).fingerprint.hash, made.hash);
    }
});
