//! Golden fingerprints: the recorded results of all profiles. If one of these values changed, stored hashes
//! would be useless. A change of a recipe is therefore a new version of the profile, never a new value
//! here.
//!
//! Not here: comparisons with the results of other programs (`tests/quality`).

mod values;

use super::Profile;
use values::GOLDEN;
#[cfg(feature = "zh")]
use {super::Status, crate::Preparation};

/// Texts in many scripts, by name; each exercises one step of a recipe.
const TEXTS: [(&str, &str); 16] = [
    ("empty", ""),
    ("punctuation", "。,!? -- … 🙂"),
    ("one word", "word"),
    ("simplified", SIMPLIFIED),
    (
        "traditional",
        "臺灣的電腦軟體與網路公司在國際市場\
        上的競爭力越來越強,許多工程師都到矽谷工作。",
    ),
    ("english", ENGLISH),
    (
        "english with other marks",
        "Fish & chips -- battered fish and fried potatoes -- is a dish that came from England!",
    ),
    ("full width", "Ｆｉｓｈ　ａｎｄ　ｃｈｉｐｓ"),
    (
        "japanese",
        "東京タワーは、東京都港区芝公園にある\
        総合電波塔である。観光名所として知られる。",
    ),
    (
        "korean",
        "서울특별시는 대한민국의 수도이자 \
        최대 도시이다. 한강을 끼고 있다.",
    ),
    (
        "thai",
        "กรุงเทพมหานครเป็นเมือง\
        หลวงและนครที่มีประชากร\
        มากที่สุดของประเทศไทย",
    ),
    (
        "russian",
        "Москва — столица России, \
        город федерального значения.",
    ),
    ("arabic", "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها."),
    (
        "hindi",
        "दिल्ली भारत की राजधानी और \
        एक केंद्र-शासित प्रदेश है।",
    ),
    (
        "mixed",
        "用 Rust 写的 API 服务:The quick brown fox jumps \
        over the lazy dog, 然后 3 个测试都通过了。",
    ),
    ("emoji", "I ❤️ 🐟 and 👩‍👩‍👧 chips"),
];

const SIMPLIFIED: &str = "台湾的电脑软件与网络公司在国际市\
    场上的竞争力越来越强,许多工程师都到硅谷工作。";
const ENGLISH: &str = "Fish and chips, battered fish and fried potatoes, is a dish that came from England.";

#[cfg(feature = "zh")]
fn text(name: &str) -> &'static str {
    TEXTS.iter().find(|(other, _)| *other == name).unwrap().1
}

/// With every set of features of the crate: the recorded result, or an error that names the missing one.
#[test]
fn released_profiles_never_change() {
    let of_keywords = ["keywords-zh@1", "cppjieba@1", "fnv-zh@1"];
    let of_characters =
        ["code-128@1", "minhash-code@1", "shingle-md5-128@1", "python-simhash@1", "minhash@1"];
    let found: Vec<_> = Profile::all()
        .iter()
        .filter(|profile| profile.takes_texts())
        .flat_map(|profile| {
            TEXTS.iter().map(move |&(name, text)| {
                let found =
                    profile.try_fingerprint(text).map(|found| (found.hash.to_string(), found.features));
                (profile.id().to_string(), name, found.map_err(|error| error.to_string()))
            })
        })
        .collect();
    let golden = GOLDEN.iter().filter(|(id, ..)| cfg!(feature = "zh") || !of_keywords.contains(id));
    let golden: Vec<_> = golden
        .map(|&(id, name, hash, n)| {
            let is_chinese = ["simplified", "traditional", "mixed"].contains(&name);
            let is_read = cfg!(feature = "zh") || !is_chinese || of_characters.contains(&id);
            let error = "a text with Chinese needs the feature `zh` of lookalike-text, which this build does \
                         not have";
            (id.to_owned(), name, if is_read { Ok((hash.to_owned(), n)) } else { Err(error.to_owned()) })
        })
        .collect();
    assert_eq!(found, golden);
}

#[cfg(feature = "zh")]
/// The first features of some texts by copies-64@1, in the order of `explain`.
const FEATURES: &[(&str, &[&str])] = &[
    ("simplified", &["上 的", "与 网络", "公司", "公司 在", "到 硅谷", "台湾"]),
    ("traditional", &["上 的", "与 网络", "公司", "公司 在", "到 硅谷", "台湾"]),
    ("english", &["fish ", "h and", "a dis", "and c", "and f", "atoes"]),
    ("japanese", &["ある", "東京", "ある 総合", "ある 観光", "た わ", "で ある"]),
    ("korean", &["강을", "고있", "국의", "끼고", "는대", "다한"]),
    ("thai", &["คร", "นค", "ประ", "อง", "กท\u{e35}\u{e48}", "กร"]),
    ("russian", &["а рос", "город", "ераль", "значе", "ква с", "лица "]),
    ("arabic", &["العرب", "القاه", "اهره ", "بر مد", "جمهور", "ربيه "]),
    (
        "hindi",
        &[
            "एक क\u{947}",
            "और एक",
            "की \
        रा",
            "क\u{947}\u{902}द\u{94d}",
            "त की ",
            "दिल\u{94d}ल",
        ],
    ),
    ("mixed", &["3 个", "个 测试", "写 的", "服务", "测试", "测试 都"]),
    ("emoji", &["and c", "chips", "i and"]),
    ("full width", &["and c", "chips", "fish ", "h and"]),
];

#[cfg(feature = "zh")]
#[test]
fn features_of_every_language_never_change() {
    let profile = Profile::named("copies-64@1").unwrap();
    let found: Vec<(&str, Vec<String>)> = FEATURES
        .iter()
        .map(|(name, _)| {
            (*name, profile.explain(text(name)).features.into_iter().take(6).map(|f| f.text).collect())
        })
        .collect();
    let listing: Vec<_> =
        found.iter().map(|(name, features)| format!("    ({name:?}, &{features:?}),")).collect();
    let golden: Vec<(&str, Vec<String>)> =
        FEATURES.iter().map(|(name, list)| (*name, list.iter().map(|f| (*f).to_owned()).collect())).collect();
    assert_eq!(found, golden, "found:\n{}", listing.join("\n"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    #[cfg(feature = "zh")]
    #[test]
    fn equivalent_texts_hash_equally(
        text in "\\PC{0,60}|[a-zéüßА-ё가-힣ぁ-んァ-ヴ臺\
            台軟软體体中文 \u{300}-\u{345}\u{3099}]{0,60}"
    ) {
        use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
        let forms = [
            ComposingNormalizerBorrowed::new_nfc().normalize(&text).into_owned(),
            ComposingNormalizerBorrowed::new_nfkc().normalize(&text).into_owned(),
            DecomposingNormalizerBorrowed::new_nfd().normalize(&text).into_owned(),
            DecomposingNormalizerBorrowed::new_nfkd().normalize(&text).into_owned(),
        ];
        let normalises = |profile: &&Profile| {
            matches!(profile.recipe.preparation, Preparation::Normalise | Preparation::Folded)
        };
        for profile in Profile::all().iter().filter(normalises) {
            let expected = profile.fingerprint(&text);
            for form in &forms {
                proptest::prop_assert_eq!(profile.fingerprint(form), expected, "{}", profile.id());
            }
        }
    }
}

#[cfg(feature = "zh")]
#[test]
fn an_explanation_matches_the_fingerprint() {
    for profile in Profile::all() {
        for (name, text) in TEXTS {
            let explained = profile.explain(text);
            if explained.fingerprint.status == Status::Empty {
                assert!(explained.features.is_empty());
                continue;
            }
            assert_eq!(explained.fingerprint, profile.fingerprint(text), "{} {name}", profile.id());
            assert_eq!(explained.features.len(), explained.fingerprint.features);
            let votes = if profile.signatures().is_some() { 0 } else { profile.width().bits() as usize };
            assert_eq!(explained.votes.len(), votes);
            let in_order = |a: &super::WeightedFeature, b: &super::WeightedFeature| {
                b.weight.total_cmp(&a.weight).then_with(|| a.text.cmp(&b.text)).is_le()
            };
            assert!(explained.features.windows(2).all(|pair| in_order(&pair[0], &pair[1])));
            for (j, vote) in explained.votes.iter().enumerate() {
                let bit = |hash: lookalike_hash::Hash| hash.bit(j as u32);
                let sum: f64 =
                    explained.features.iter().map(|f| if bit(f.hash) { f.weight } else { -f.weight }).sum();
                assert!((sum - vote).abs() < 1e-6, "{name} bit {j}: {sum} {vote}");
                assert!(*vote == 0.0 || bit(explained.fingerprint.hash) == (*vote > 0.0), "{name} bit {j}");
            }
        }
    }
}

#[cfg(feature = "zh")]
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
        assert_eq!(Profile::named("short-128").unwrap().fingerprint(text(name)).status, status, "{name}");
    }
}

#[cfg(feature = "zh")]
#[test]
fn a_copy_with_small_changes_is_within_k() {
    let copied = "A reporter wrote that the council met on Monday to discuss the new harbour, which is to be \
                  built in the east of the city. The plans were shown to residents, who asked about noise \
                  and traffic. ";
    let original = format!("{}{}", copied, ENGLISH.repeat(3));
    let edited = original.replace("Monday", "Tuesday");
    for profile in [Profile::named("copies-64").unwrap(), Profile::named("copies-128").unwrap()] {
        let [a, b] = [&original, &edited].map(|text| profile.fingerprint(text).hash);
        let far = profile.fingerprint(text("russian")).hash;
        assert!(a.distance(b).unwrap() <= profile.default_k());
        assert!(a.distance(far).unwrap() > profile.default_k());
    }
}
