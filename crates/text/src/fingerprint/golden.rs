//! Golden fingerprints: the recorded results of all profiles. If one of these values changed, stored hashes
//! would be useless. A change of a recipe is therefore a new version of the profile, never a new value
//! here.
//!
//! Not here: comparisons with the results of other programs (`tests/quality`).

use super::Profile;
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

/// Profile, text, hash, number of features.
const GOLDEN: &[(&str, &str, &str, usize)] = &[
    ("copies-64@1", "empty", "0000000000000000", 0),
    ("copies-64@1", "punctuation", "0000000000000000", 0),
    ("copies-64@1", "one word", "360c2f3dc6b86e79", 1),
    ("copies-64@1", "simplified", "8e9914206b8faa9b", 38),
    ("copies-64@1", "traditional", "8e9914206b8faa9b", 38),
    ("copies-64@1", "english", "f2fea704b080f145", 26),
    ("copies-64@1", "english with other marks", "d27a8304b988f145", 26),
    ("copies-64@1", "full width", "786e90249494b1c1", 4),
    ("copies-64@1", "japanese", "c696cee777cb6561", 39),
    ("copies-64@1", "korean", "49b9748ecee9948c", 27),
    ("copies-64@1", "thai", "d2a569aa85dd23e6", 39),
    ("copies-64@1", "russian", "fb7fe5ee9d1662c5", 15),
    ("copies-64@1", "arabic", "2e97650a568777ed", 16),
    ("copies-64@1", "hindi", "4238e5810cda332c", 17),
    ("copies-64@1", "mixed", "07927f5923c13838", 33),
    ("copies-64@1", "emoji", "f66df3e8402cd143", 3),
    ("copies-128@1", "empty", "00000000000000000000000000000000", 0),
    ("copies-128@1", "punctuation", "00000000000000000000000000000000", 0),
    ("copies-128@1", "one word", "555f9876e68eea71a30d3fe98753e9a2", 1),
    ("copies-128@1", "simplified", "5b31f00e00b1182866d7092ec5d2890f", 38),
    ("copies-128@1", "traditional", "5b31f00e00b1182866d7092ec5d2890f", 38),
    ("copies-128@1", "english", "e84361f9a78e4a850730aa74c21c2ec9", 26),
    ("copies-128@1", "english with other marks", "e847e1e9879e5a854338aa74d21c22c9", 26),
    ("copies-128@1", "full width", "34626c95edd009f2897caa744e3025c0", 4),
    ("copies-128@1", "japanese", "73977abf2cd85f665f2faf6b80c8f1dc", 39),
    ("copies-128@1", "korean", "f8de95c378121452a6517c0c1e6e4052", 27),
    ("copies-128@1", "thai", "f57d4db5d75e94470391506b7464fe2f", 39),
    ("copies-128@1", "russian", "02d694afbb881932edfab864b580d0ea", 15),
    ("copies-128@1", "arabic", "db00dad72e82e7af078d4810d4fbaeb9", 16),
    ("copies-128@1", "hindi", "7b0d6ad41b81346ba701f1766101f3c6", 17),
    ("copies-128@1", "mixed", "3764746a9a555052064636103ff92589", 33),
    ("copies-128@1", "emoji", "e060f1966be5653a44fc00786c04e19c", 3),
    ("short-128@1", "empty", "00000000000000000000000000000000", 0),
    ("short-128@1", "punctuation", "00000000000000000000000000000000", 0),
    ("short-128@1", "one word", "f1f4bc180a8a3325199e9a09b96ee343", 1),
    ("short-128@1", "simplified", "43fea7c521d95ea79b96c04f1214aaca", 105),
    ("short-128@1", "traditional", "43fea7c521d95ea79b96c04f1214aaca", 105),
    ("short-128@1", "english", "37feb822c8876a8d03e9db7ba11c2c31", 26),
    ("short-128@1", "english with other marks", "36feb022c887628d03eb5b7ba11c2c31", 26),
    ("short-128@1", "full width", "e74fbda3fdd43aa4e3a3de77e3a58d68", 5),
    ("short-128@1", "japanese", "6bea8fb3e1ad0647fd9c915015257a0f", 85),
    ("short-128@1", "korean", "b9da95517c123055e65174000e6e40f2", 35),
    ("short-128@1", "thai", "f30959b0717c01d40b534be3796cf4a5", 122),
    ("short-128@1", "russian", "5702ec1c3dc81b23f8c68cdd320fac6a", 11),
    ("short-128@1", "arabic", "0f4116e93456b79e92f1b962b3357ef7", 15),
    ("short-128@1", "hindi", "62a652387a3cc91e99aa13a2003b1682", 19),
    ("short-128@1", "mixed", "c5e61e1e05e61fda94aed0da794748fd", 52),
    ("short-128@1", "emoji", "355fbca397f578a46b41d5d4cba58db0", 5),
    ("code-128@1", "empty", "00000000000000000000000000000000", 0),
    ("code-128@1", "punctuation", "6623885a10d12b278755999063978e26", 1),
    ("code-128@1", "one word", "d683f156d4b69e810ba1d008d33e0038", 1),
    ("code-128@1", "simplified", "4531bc432be587120e611da4367cbd3d", 1),
    ("code-128@1", "traditional", "4531bc432be587120e611da4367cbd3d", 1),
    ("code-128@1", "english", "0ad5f4f6bc8ac300c85e2317aa3d1f1c", 9),
    ("code-128@1", "english with other marks", "550c4f9d22c346e749f7fe321930e07a", 11),
    ("code-128@1", "full width", "ea5e4a3f3e83f3d61509958911b51954", 1),
    ("code-128@1", "japanese", "2deac97734729f7381aa7bd1696651aa", 1),
    ("code-128@1", "korean", "c981f034e972996a883d1bc9722be9b8", 1),
    ("code-128@1", "thai", "81a39be7e0ef23cf4b6ad1738ec4caef", 1),
    ("code-128@1", "russian", "73c1292f822b52109629b046e3b45f41", 1),
    ("code-128@1", "arabic", "91af9b52c4dce5817d2f344daf194f1f", 1),
    ("code-128@1", "hindi", "4657a72a0a8627191f6fe2595c070095", 9),
    ("code-128@1", "mixed", "8d15cf4dc62f800f345a3dfcb7cd9fb1", 11),
    ("code-128@1", "emoji", "30123bafcf879bf91bf1740ca8aece22", 2),
    ("pairs-64@1", "empty", "0000000000000000", 0),
    ("pairs-64@1", "punctuation", "0000000000000000", 0),
    ("pairs-64@1", "one word", "39ab4480b709820b", 1),
    ("pairs-64@1", "simplified", "0cc23d20a98faa9e", 19),
    ("pairs-64@1", "traditional", "0cc23d20a98faa9e", 19),
    ("pairs-64@1", "english", "296d80c9774b23d9", 13),
    ("pairs-64@1", "english with other marks", "296d8088b71b23d9", 13),
    ("pairs-64@1", "full width", "2bd6d7c9684590d4", 2),
    ("pairs-64@1", "japanese", "de84cee71d8f6560", 20),
    ("pairs-64@1", "korean", "2adff6f566a5af53", 7),
    ("pairs-64@1", "thai", "2e9171c9456fb391", 12),
    ("pairs-64@1", "russian", "710e3deb190326ba", 5),
    ("pairs-64@1", "arabic", "68aedbeef9ad8489", 7),
    ("pairs-64@1", "hindi", "407723a7d79eabaf", 9),
    ("pairs-64@1", "mixed", "2b9860c123c9fab6", 21),
    ("pairs-64@1", "emoji", "2bd6d7c9684590d4", 2),
    ("shingles-64@1", "empty", "0000000000000000", 0),
    ("shingles-64@1", "punctuation", "0000000000000000", 0),
    ("shingles-64@1", "one word", "360c2f3dc6b86e79", 1),
    ("shingles-64@1", "simplified", "8e9914206b8faa9b", 38),
    ("shingles-64@1", "traditional", "8e9914206b8faa9b", 38),
    ("shingles-64@1", "english", "1054d2ba5c740ebe", 26),
    ("shingles-64@1", "english with other marks", "1054d02a5c740ebe", 26),
    ("shingles-64@1", "full width", "2e85d6e2eef23c3c", 4),
    ("shingles-64@1", "japanese", "c696cee777cb6561", 39),
    ("shingles-64@1", "korean", "d369dc9048efc812", 26),
    ("shingles-64@1", "thai", "9e7ea6d8a23517fe", 41),
    ("shingles-64@1", "russian", "1ce52d0a7b30be70", 14),
    ("shingles-64@1", "arabic", "85d75acab59e6b37", 15),
    ("shingles-64@1", "hindi", "846d279f0349325c", 16),
    ("shingles-64@1", "mixed", "27ce22c9a7d9c858", 32),
    ("shingles-64@1", "emoji", "2595d7e2cfd0383d", 3),
    ("keywords-zh@1", "empty", "0000000000000000", 0),
    ("keywords-zh@1", "punctuation", "0000000000000000", 0),
    ("keywords-zh@1", "one word", "c0a156d636da49df", 1),
    ("keywords-zh@1", "simplified", "be99404a0b8f5cd3", 11),
    ("keywords-zh@1", "traditional", "be99404a0b8f5cd3", 11),
    ("keywords-zh@1", "english", "1a8db43591574c5c", 8),
    ("keywords-zh@1", "english with other marks", "1a8db43591574c5c", 8),
    ("keywords-zh@1", "full width", "299767a08c980f55", 2),
    ("keywords-zh@1", "japanese", "c417c4d8e6c90365", 11),
    ("keywords-zh@1", "korean", "b5919ff6557a9bbc", 8),
    ("keywords-zh@1", "thai", "6bc4bf7c8abb71f8", 13),
    ("keywords-zh@1", "russian", "4b72d0a8079f519c", 6),
    ("keywords-zh@1", "arabic", "8da7573f4552a7c2", 8),
    ("keywords-zh@1", "hindi", "a3fc53c75f9367bd", 10),
    ("keywords-zh@1", "mixed", "232296ad19c5926d", 10),
    ("keywords-zh@1", "emoji", "299767a08c980f55", 1),
    ("cppjieba@1", "empty", "0000000000000000", 0),
    ("cppjieba@1", "punctuation", "0000000000000000", 0),
    ("cppjieba@1", "one word", "922253703ca65a3d", 1),
    ("cppjieba@1", "simplified", "655b31f3c8cbdca2", 11),
    ("cppjieba@1", "traditional", "32c21c9d692e9cc5", 15),
    ("cppjieba@1", "english", "b20d9923daf14471", 9),
    ("cppjieba@1", "english with other marks", "b20d9923daf14471", 9),
    ("cppjieba@1", "full width", "0000000000000000", 0),
    ("cppjieba@1", "japanese", "17aec5333aa8bc30", 4),
    ("cppjieba@1", "korean", "0000000000000000", 0),
    ("cppjieba@1", "thai", "0000000000000000", 0),
    ("cppjieba@1", "russian", "0000000000000000", 0),
    ("cppjieba@1", "arabic", "0000000000000000", 0),
    ("cppjieba@1", "hindi", "0000000000000000", 0),
    ("cppjieba@1", "mixed", "9e652645e0f74f99", 11),
    ("cppjieba@1", "emoji", "a72c29515bc54be3", 1),
    ("fnv-zh@1", "empty", "ffffffffffffffff", 0),
    ("fnv-zh@1", "punctuation", "ffffffffffffffff", 0),
    ("fnv-zh@1", "one word", "7058fcf636683f3d", 1),
    ("fnv-zh@1", "simplified", "534a1608986eef07", 11),
    ("fnv-zh@1", "traditional", "534a1608986eef07", 11),
    ("fnv-zh@1", "english", "ea5b147a6f23bea3", 8),
    ("fnv-zh@1", "english with other marks", "ea5b147a6f23bea3", 8),
    ("fnv-zh@1", "full width", "ea7f577eefe3b7b7", 2),
    ("fnv-zh@1", "japanese", "d227de08172ccb08", 11),
    ("fnv-zh@1", "korean", "93ff505aea8ddae9", 8),
    ("fnv-zh@1", "thai", "db1ea44ba15854e9", 13),
    ("fnv-zh@1", "russian", "660ddd57f677df1b", 6),
    ("fnv-zh@1", "arabic", "af791e37b72e2bae", 8),
    ("fnv-zh@1", "hindi", "05746b07c8f17354", 10),
    ("fnv-zh@1", "mixed", "cbfe991c3675ef8f", 10),
    ("fnv-zh@1", "emoji", "624c45762521b794", 1),
    ("shingle-md5-128@1", "empty", "ffffffffffffffffffffffffffffffff", 0),
    ("shingle-md5-128@1", "punctuation", "a0e64ea590138c1fc7cc3bb4e0779716", 9),
    ("shingle-md5-128@1", "one word", "dfff3feadbfa7bef7dfff7beef2bdff9", 2),
    ("shingle-md5-128@1", "simplified", "b6d307bd47c5102d480e6169b697493b", 37),
    ("shingle-md5-128@1", "traditional", "118090c81e1573ee749e925984a5d85d", 37),
    ("shingle-md5-128@1", "english", "7fbfd8b567961f3a0dcd0d98220f5bae", 67),
    ("shingle-md5-128@1", "english with other marks", "3fbb58a1f7961f9a0dc60d9a23cf4b0e", 71),
    ("shingle-md5-128@1", "full width", "ddaec6a0ca277fb0fd6ecd35eaeea896", 12),
    ("shingle-md5-128@1", "japanese", "abdf2336a39d07be582d768eb103f1aa", 37),
    ("shingle-md5-128@1", "korean", "90c3428b85fa1cdadf69923480fedbf9", 35),
    ("shingle-md5-128@1", "thai", "4a7159cf089744a370f920acdeafc34a", 60),
    ("shingle-md5-128@1", "russian", "371341eaed2365fa93ece481292a8bc6", 51),
    ("shingle-md5-128@1", "arabic", "e2efd5e65b2eeee26d94fe629415db5d", 46),
    ("shingle-md5-128@1", "hindi", "f9b9496bf879f773247c47df187bd424", 50),
    ("shingle-md5-128@1", "mixed", "954229028211456311da30867fcbd8a1", 71),
    ("shingle-md5-128@1", "emoji", "bd7d77b74f9b1d6b7f84ad331d3d4f7c", 20),
    ("python-simhash@1", "empty", "e9800998ecf8427e", 0),
    ("python-simhash@1", "punctuation", "e9800998ecf8427e", 0),
    ("python-simhash@1", "one word", "3245f128b5fde62a", 1),
    ("python-simhash@1", "simplified", "93200819e7438cb6", 34),
    ("python-simhash@1", "traditional", "265201787ca52216", 34),
    ("python-simhash@1", "english", "ce893d9dc8983078", 59),
    ("python-simhash@1", "english with other marks", "4a893cddc8983838", 59),
    ("python-simhash@1", "full width", "16431252b4efe69f", 9),
    ("python-simhash@1", "japanese", "d8def3e4c97f9e9d", 33),
    ("python-simhash@1", "korean", "40d117ecd16eb8c4", 25),
    ("python-simhash@1", "thai", "5086401ca7088a2c", 53),
    ("python-simhash@1", "russian", "f1aaa274abf8664c", 41),
    ("python-simhash@1", "arabic", "60445aa0244e979f", 38),
    ("python-simhash@1", "hindi", "c83a4badaba9ec3d", 23),
    ("python-simhash@1", "mixed", "0c2b4495c02f8ccb", 54),
    ("python-simhash@1", "emoji", "12193281084e02c8", 6),
    ("minhash@1", "empty", "d3c4f706d8fc547f093c29f27ecfcf21", 0),
    ("minhash@1", "punctuation", "2cf986941864987bcd400e62d627d0a2", 9),
    ("minhash@1", "one word", "3266417b85abcdfd49ae442022819712", 2),
    ("minhash@1", "simplified", "0ebf1ea18cae7b795c2902af4b522a48", 37),
    ("minhash@1", "traditional", "ffdf122a45ed348b65c7a682d770d71f", 37),
    ("minhash@1", "english", "25cb4244b9ce0e642bbad4c987673801", 67),
    ("minhash@1", "english with other marks", "ad7b636f3a6e7152f29103b9f948ffd4", 71),
    ("minhash@1", "full width", "88d0f1603374552a01e095858d61101b", 12),
    ("minhash@1", "japanese", "c8dda111122ada75a98fb4fc6d51132e", 37),
    ("minhash@1", "korean", "f2fff1dc0cd38572c143aafeae77a066", 35),
    ("minhash@1", "thai", "e5471d4959f6909eccb916cb28cabded", 60),
    ("minhash@1", "russian", "ef059f2b0fd46e606373ce1c23969b15", 51),
    ("minhash@1", "arabic", "44dc4355691101f2336bbd868b66cfd2", 46),
    ("minhash@1", "hindi", "71c95dcadfab352edd4c8429e04c7e5f", 50),
    ("minhash@1", "mixed", "5e236adfa23901d2acfdd76c0df18856", 71),
    ("minhash@1", "emoji", "30a7beea687447bad375bcae6e80e733", 20),
    ("minhash-copies@1", "empty", "68ac297d87ba6fb2f24858a3a3e3018f", 0),
    ("minhash-copies@1", "punctuation", "68ac297d87ba6fb2f24858a3a3e3018f", 0),
    ("minhash-copies@1", "one word", "002404a7ade99adee8208e88f404482b", 1),
    ("minhash-copies@1", "simplified", "f68899e56fb1940a225f660480796c10", 38),
    ("minhash-copies@1", "traditional", "f68899e56fb1940a225f660480796c10", 38),
    ("minhash-copies@1", "english", "8fc18f296450e336f875653de9e9254d", 26),
    ("minhash-copies@1", "english with other marks", "7622847ad9e65084d3115408d0e61419", 26),
    ("minhash-copies@1", "full width", "0683173e87ee21ad67c018dd839a40d1", 4),
    ("minhash-copies@1", "japanese", "05c2f31787e7e685240756926d3eb2f2", 39),
    ("minhash-copies@1", "korean", "a9494310aedc4c6aa8d9fd81b718f9a7", 26),
    ("minhash-copies@1", "thai", "5e11c39bc126d3172bada529b5aa7cba", 41),
    ("minhash-copies@1", "russian", "4c3142f21d0b877f5d31643c56675340", 14),
    ("minhash-copies@1", "arabic", "3e3e6fffa4fc37950230b5d7d960ae26", 15),
    ("minhash-copies@1", "hindi", "29790c27bddf7fb587daa753adb8ae88", 16),
    ("minhash-copies@1", "mixed", "2098eed961faf7c7d5d2b3e1bf44a004", 32),
    ("minhash-copies@1", "emoji", "5f8d0047dad79022a7f69fea6684d265", 3),
    ("minhash-code@1", "empty", "eba01432c5dcf325e2da45c7400ad882", 0),
    ("minhash-code@1", "punctuation", "eba01432c5dcf325e2da45c7400ad882", 0),
    ("minhash-code@1", "one word", "6019cdc1899e47910c317c2917239ad4", 1),
    ("minhash-code@1", "simplified", "4ff9ba86cb8c194d7ca4c09e92e07d51", 1),
    ("minhash-code@1", "traditional", "4ff9ba86cb8c194d7ca4c09e92e07d51", 1),
    ("minhash-code@1", "english", "51e038ce3f6ef9314aa40f4cfa71e521", 8),
    ("minhash-code@1", "english with other marks", "1abfea0b1afea50694c699f99c9d0029", 7),
    ("minhash-code@1", "full width", "50f0c8ecad4e6705c9606bdfae99283e", 1),
    ("minhash-code@1", "japanese", "50f0c8ecad4e6705c9606bdfae99283e", 1),
    ("minhash-code@1", "korean", "1dbbb47b82e691dcdf7f0255c8e6a322", 1),
    ("minhash-code@1", "thai", "b196c55cec007b01371292bc77f6ba0a", 1),
    ("minhash-code@1", "russian", "c8c0482e04187716ee65cf0e813bf62f", 1),
    ("minhash-code@1", "arabic", "1dbbb47b82e691dcdf7f0255c8e6a322", 1),
    ("minhash-code@1", "hindi", "1dbbb47b82e691dcdf7f0255c8e6a322", 1),
    ("minhash-code@1", "mixed", "be2ba664d21710c058b65b21dbf565b0", 3),
    ("minhash-code@1", "emoji", "3a0ef1f4fb52bb7c6dc50fa83b0db94a", 1),
    ("longest-sentences@1", "empty", "10e45c7ce2292320743df94ee4c78a2a", 0),
    ("longest-sentences@1", "punctuation", "10e45c7ce2292320743df94ee4c78a2a", 0),
    ("longest-sentences@1", "one word", "b9e6c2bb95ebe5fdbc7cf6735d262316", 1),
    ("longest-sentences@1", "simplified", "22acf6643d6193ddde751dca0cff2f5f", 1),
    ("longest-sentences@1", "traditional", "22acf6643d6193ddde751dca0cff2f5f", 1),
    ("longest-sentences@1", "english", "9f99dc4326b3f4e7be4d95e84b2ea3fd", 1),
    ("longest-sentences@1", "english with other marks", "1fe65aa6ef4a1f739d43b9a823a3761d", 1),
    ("longest-sentences@1", "full width", "c2288e888e7529add30935901c8df299", 1),
    ("longest-sentences@1", "japanese", "cb1cbfe33536c84438fd7e3990054e1c", 2),
    ("longest-sentences@1", "korean", "e52bffe272f18c88b1624ec81e894bac", 2),
    ("longest-sentences@1", "thai", "0617ed85a72eedf0c848019c47f40bae", 1),
    ("longest-sentences@1", "russian", "abcd5470dcc9474681a9422c14740d88", 1),
    ("longest-sentences@1", "arabic", "5f89051ecd342fe36c0e817abb79886c", 1),
    ("longest-sentences@1", "hindi", "9c6ac568cdc9919084d5c60e49c8ec75", 1),
    ("longest-sentences@1", "mixed", "f1aa8ecbfa4c9ca570bc6a978b23be99", 1),
    ("longest-sentences@1", "emoji", "0e7b76b06b70ad94652049afeafbddae", 1),
    ("longest-sentences-md5@1", "empty", "00000000000000000000000000000000", 0),
    ("longest-sentences-md5@1", "punctuation", "00000000000000000000000000000000", 0),
    ("longest-sentences-md5@1", "one word", "c47d187067c6cf953245f128b5fde62a", 1),
    ("longest-sentences-md5@1", "simplified", "c1a7b7e43cb0ab68995fa072cd2ba2d5", 1),
    ("longest-sentences-md5@1", "traditional", "c1a7b7e43cb0ab68995fa072cd2ba2d5", 1),
    ("longest-sentences-md5@1", "english", "1639c9603bc944629e4b7d2f0a049b28", 1),
    ("longest-sentences-md5@1", "english with other marks", "10c5db4bfd5f8a7a9c17a35ff4492701", 1),
    ("longest-sentences-md5@1", "full width", "7ec3a81af4475583c6a982188e444665", 1),
    ("longest-sentences-md5@1", "japanese", "48a550d44f58840c76f9392fdccb69a1", 1),
    ("longest-sentences-md5@1", "korean", "880e136e525d16c44a4c2d7aef203ee5", 1),
    ("longest-sentences-md5@1", "thai", "7030a3f09e0548f393b5cbfd34d57d70", 1),
    ("longest-sentences-md5@1", "russian", "d36c880386e48849f2873408711ec323", 1),
    ("longest-sentences-md5@1", "arabic", "27a0114a9636f520ebdea3e64d4ee811", 1),
    ("longest-sentences-md5@1", "hindi", "002331151f01a3a50b5721d8ba8e7d41", 1),
    ("longest-sentences-md5@1", "mixed", "53b2d06501907540c4a562e1a0cff2c4", 1),
    ("longest-sentences-md5@1", "emoji", "e2298f597c2acc92c583f2e26b6a765a", 1),
];

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
