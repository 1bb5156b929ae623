//! Golden fingerprints: what the profiles answer, written down once. If one of these changes, stored hashes are
//! worthless: the change is a new version of the profile, never a new value here.

use super::{Profile, Status};

/// Texts in many scripts, by name; each on its own shows one step of a recipe.
const TEXTS: [(&str, &str); 16] = [
    ("empty", ""),
    ("punctuation", "。,!? -- … 🙂"),
    ("one word", "word"),
    ("simplified", SIMPLIFIED),
    ("traditional", "臺灣的電腦軟體與網路公司在國際市場上的競爭力越來越強,許多工程師都到矽谷工作。"),
    ("english", ENGLISH),
    (
        "english with other marks",
        "Fish & chips -- battered fish and fried potatoes -- is a dish that came from England!",
    ),
    ("full width", "Ｆｉｓｈ　ａｎｄ　ｃｈｉｐｓ"),
    ("japanese", "東京タワーは、東京都港区芝公園にある総合電波塔である。観光名所として知られる。"),
    ("korean", "서울특별시는 대한민국의 수도이자 최대 도시이다. 한강을 끼고 있다."),
    ("thai", "กรุงเทพมหานครเป็นเมืองหลวงและนครที่มีประชากรมากที่สุดของประเทศไทย"),
    ("russian", "Москва — столица России, город федерального значения."),
    ("arabic", "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها."),
    ("hindi", "दिल्ली भारत की राजधानी और एक केंद्र-शासित प्रदेश है।"),
    ("mixed", "用 Rust 写的 API 服务:The quick brown fox jumps over the lazy dog, 然后 3 个测试都通过了。"),
    ("emoji", "I ❤️ 🐟 and 👩‍👩‍👧 chips"),
];

const SIMPLIFIED: &str = "台湾的电脑软件与网络公司在国际市场上的竞争力越来越强,许多工程师都到硅谷工作。";
const ENGLISH: &str = "Fish and chips, battered fish and fried potatoes, is a dish that came from England.";

/// Profile, text, hash, number of features.
const GOLDEN: &[(&str, &str, &str, usize)] = &[
    ("copies-64@1", "empty", "0000000000000000", 0),
    ("copies-64@1", "punctuation", "0000000000000000", 0),
    ("copies-64@1", "one word", "360c2f3dc6b86e79", 1),
    ("copies-64@1", "simplified", "0e9904606b8bee9b", 38),
    ("copies-64@1", "traditional", "3e980d206987ee9b", 42),
    ("copies-64@1", "english", "d04e9e48e298e841", 71),
    ("copies-64@1", "english with other marks", "d04e9ec0e298e043", 71),
    ("copies-64@1", "full width", "f066b468dedae3a0", 10),
    ("copies-64@1", "japanese", "c6848e6767cb5561", 35),
    ("copies-64@1", "korean", "c19f7e14c5f34d94", 31),
    ("copies-64@1", "thai", "6bc1b16dc83ff398", 25),
    ("copies-64@1", "russian", "e1b5c5e81d2fe645", 45),
    ("copies-64@1", "arabic", "2ae362f951027493", 44),
    ("copies-64@1", "hindi", "52346cc30e8ca368", 47),
    ("copies-64@1", "mixed", "06567fc9a3c1b868", 59),
    ("copies-64@1", "emoji", "f061b4e852ea5b0b", 7),
    ("copies-128@1", "empty", "00000000000000000000000000000000", 0),
    ("copies-128@1", "punctuation", "00000000000000000000000000000000", 0),
    ("copies-128@1", "one word", "555f9876e68eea71a30d3fe98753e9a2", 1),
    ("copies-128@1", "simplified", "5b31f00e00b1182866d7092ec5d2890f", 38),
    ("copies-128@1", "traditional", "5273f00a1291180977f3cc2ec5d2880f", 42),
    ("copies-128@1", "english", "88436ff1b50c0a0586b9c0f6da1c22df", 71),
    ("copies-128@1", "english with other marks", "8c476bb1b40c8a05a6b9a0f6da3c22db", 71),
    ("copies-128@1", "full width", "286b65ade9160a86c67de06e5e5a30d5", 10),
    ("copies-128@1", "japanese", "1307f2bb2cc8df667e2faf69888ae1d8", 35),
    ("copies-128@1", "korean", "ec2f6e997a6316028ed0adbfb91ef73f", 31),
    ("copies-128@1", "thai", "d6c848286c75b6c38f2dceaccec8c4e8", 25),
    ("copies-128@1", "russian", "0ad6b6ab91e83734f5a8647efd084062", 45),
    ("copies-128@1", "arabic", "c1f0d453a22be3a52a86107064b2a737", 44),
    ("copies-128@1", "hindi", "ba1c68d63101b411ad09d377414163c5", 47),
    ("copies-128@1", "mixed", "637ef46a8a65fd52044c363c7bfb044b", 59),
    ("copies-128@1", "emoji", "286255be6a25272674fc207e6e5a20df", 7),
    ("keywords-zh@1", "empty", "0000000000000000", 0),
    ("keywords-zh@1", "punctuation", "0000000000000000", 0),
    ("keywords-zh@1", "one word", "c0a156d636da49df", 1),
    ("keywords-zh@1", "simplified", "be99404a0b8f5cd3", 11),
    ("keywords-zh@1", "traditional", "bed91409029d2dd7", 12),
    ("keywords-zh@1", "english", "1a8db43591574c5c", 8),
    ("keywords-zh@1", "english with other marks", "1a8db43591574c5c", 8),
    ("keywords-zh@1", "full width", "299767a08c980f55", 2),
    ("keywords-zh@1", "japanese", "c417c4d8e6c90365", 11),
    ("keywords-zh@1", "korean", "b5919ff6557a9bbc", 8),
    ("keywords-zh@1", "thai", "6bc4bf7c8abb71f8", 13),
    ("keywords-zh@1", "russian", "4b72d0a8079f519c", 6),
    ("keywords-zh@1", "arabic", "0f42573b64b237f0", 8),
    ("keywords-zh@1", "hindi", "a3fc53c75f9367bd", 10),
    ("keywords-zh@1", "mixed", "232296ad19c5926d", 10),
    ("keywords-zh@1", "emoji", "299767a08c980f55", 1),
];

fn text(name: &str) -> &'static str {
    TEXTS.iter().find(|(other, _)| *other == name).unwrap().1
}

#[test]
fn released_profiles_never_change() {
    let found: Vec<_> = Profile::all()
        .iter()
        .flat_map(|profile| {
            TEXTS.iter().map(move |&(name, text)| {
                let found = profile.fingerprint(text);
                (profile.id().to_string(), name, found.hash.to_string(), found.features)
            })
        })
        .collect();
    let golden: Vec<_> =
        GOLDEN.iter().map(|&(id, name, hash, n)| (id.to_owned(), name, hash.to_owned(), n)).collect();
    let listing: Vec<_> = found.iter().map(|entry| format!("    {entry:?},")).collect();
    assert_eq!(found, golden, "found:\n{}", listing.join("\n"));
}

#[test]
fn an_explanation_explains_the_fingerprint() {
    for profile in Profile::all() {
        for (name, text) in TEXTS {
            let explained = profile.explain(text);
            assert_eq!(explained.fingerprint, profile.fingerprint(text), "{} {name}", profile.id());
            assert_eq!(explained.features.len(), explained.fingerprint.features);
            assert_eq!(explained.votes.len(), profile.width().bits() as usize);
            let in_order = |a: &super::WeightedFeature, b: &super::WeightedFeature| {
                b.weight.total_cmp(&a.weight).then_with(|| a.text.cmp(&b.text)).is_le()
            };
            assert!(explained.features.windows(2).all(|pair| in_order(&pair[0], &pair[1])));
            for (j, vote) in explained.votes.iter().enumerate() {
                let bit = |hash: crate::ids::Hash| hash.value() >> j & 1 == 1;
                let sum: f64 =
                    explained.features.iter().map(|f| if bit(f.hash) { f.weight } else { -f.weight }).sum();
                assert!((sum - vote).abs() < 1e-6, "{name} bit {j}: {sum} {vote}");
                assert!(*vote == 0.0 || bit(explained.fingerprint.hash) == (*vote > 0.0), "{name} bit {j}");
            }
        }
    }
}

#[test]
fn too_few_features_are_short_and_none_are_empty() {
    let cases = [
        ("empty", Status::Empty),
        ("punctuation", Status::Empty),
        ("one word", Status::Short),
        ("english", Status::Ok),
        ("simplified", Status::Ok),
    ];
    for (name, status) in cases {
        assert_eq!(Profile::default_profile().fingerprint(text(name)).status, status, "{name}");
    }
}

#[test]
fn profiles_are_found_by_name_and_by_id() {
    for profile in Profile::all() {
        for name in [profile.id().name().to_owned(), profile.id().to_string()] {
            assert_eq!(Profile::named(&name).unwrap().id(), profile.id());
        }
    }
    for unknown in ["", "copies", "copies-64@", "copies-64@2", "copies-64@01", "COPIES-64"] {
        assert!(Profile::named(unknown).is_none(), "{unknown:?}");
    }
    assert_eq!(Profile::default_profile().id().to_string(), "copies-64@1");
}

#[test]
fn spelling_variants_have_one_fingerprint() {
    let pairs = [
        ("臺灣的電腦軟體", "台湾的电脑软件"),
        ("Ｆｉｓｈ　ａｎｄ　ｃｈｉｐｓ", "fish and CHIPS"),
        ("Fish, and chips!", "fish and (chips)"),
        ("cafe\u{301} au lait", "CAFÉ au\u{200b} lait"),
        ("ガギグゲゴ", "ｶﾞｷﾞｸﾞｹﾞｺﾞ"),
    ];
    for (a, b) in pairs {
        for profile in Profile::all() {
            assert_eq!(profile.fingerprint(a), profile.fingerprint(b), "{} {a} {b}", profile.id());
        }
    }
}

#[test]
fn a_copy_with_small_changes_lies_within_k() {
    let copied = "A reporter wrote that the council met on Monday to discuss the new harbour, which is to be built \
                  in the east of the city. The plans were shown to residents, who asked about noise and traffic. ";
    let original = format!("{}{}", copied, ENGLISH.repeat(3));
    let edited = original.replace("Monday", "Tuesday");
    for profile in [Profile::named("copies-64").unwrap(), Profile::named("copies-128").unwrap()] {
        let [a, b] = [&original, &edited].map(|text| profile.fingerprint(text).hash);
        let far = profile.fingerprint(text("russian")).hash;
        assert!(a.distance(b).unwrap() <= profile.default_k());
        assert!(a.distance(far).unwrap() > profile.default_k());
    }
}
