//! The whole path from a text to its neighbours, in several languages and at both widths.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, directory, ids};

/// Language, text and near copy, written for this test.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "zh",
        "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以在馆内阅\
         读到晚上十点。馆长表示，这项安排是根据去年的读者调查做出的，希望给\
         上班族和学生更多安静学习的机会。图书馆还将增加自习座位，并改善照明\
         设备。",
        "市图书馆昨天宣布，从下个月开始延长周末的开放时间，读者可以在馆内阅\
         读到晚上十点。馆长表示，这项安排是根据去年的读者调查做出的，希望给\
         上班族和学生更多安静学习的机会。图书馆还将增加自习座位，并改善照明\
         设施。",
    ),
    (
        "zh-hant",
        "臺灣的電腦軟體公司今天發表新的資料庫產品，執行速度比上一代快了兩倍\
         。公司負責人說，新產品採用全新的索引結構，可以在普通伺服器上處理上\
         億筆資料，而且記憶體用量只有原來的一半。",
        "台湾的电脑软件公司今天发表新的数据库产品，执行速度比上一代快了两倍\
         。公司负责人说，新产品采用全新的索引结构，可以在普通服务器上处理上\
         亿笔数据，而且内存用量只有原来的一半。",
    ),
    (
        "en",
        "The harbour ferry will run every twenty minutes during the summer festival, the city council \
         said on Tuesday. Extra boats have been hired from a neighbouring town, and tickets bought in \
         advance remain valid for the whole weekend. Visitors are asked to leave their cars at the \
         northern terminal.",
        "The harbour ferry will run every twenty minutes during the summer festival, the city council \
         said on Wednesday. Extra boats have been hired from a neighbouring town, and tickets bought in \
         advance remain valid for the whole weekend. Visitors are asked to leave their cars at the \
         northern terminal.",
    ),
    (
        "ja",
        "市立動物園は来月から開園時間を一時間延長すると発表しました。夏休み\
         の間は夜の特別見学会も行われ、子どもたちは飼育員と一緒に夜行性の動\
         物を観察することができます。入場券は駅前の案内所でも買えます。",
        "市立動物園は来月から開園時間を一時間延長すると発表しました。夏休み\
         の間は夜の特別見学会も行われ、子どもたちは飼育員と一緒に夜行性の動\
         物を観察することができます。入場券は駅前の案内所でも購入できます。",
    ),
    (
        "ko",
        "시립 박물관은 다음 달부터 주말 관람 시간을 두 시간 연장한다고 밝혔다. \
         새로운 전시에는 지역 예술가들의 작품 백여 점이 포함되며 학생들은 \
         무료로 입장할 수 있다. 박물관은 또한 매주 토요일 오후에 가족을 위한 \
         강연을 연다.",
        "시립 박물관은 다음 달부터 주말 관람 시간을 두 시간 연장한다고 밝혔다. \
         새로운 전시에는 지역 예술가들의 작품 백여 점이 포함되며 학생들은 \
         무료로 입장할 수 있다. 박물관은 또한 매주 일요일 오후에 가족을 위한 \
         강연을 연다.",
    ),
    (
        "th",
        "เทศบาลประกาศเปิดสวนสาธารณะแห่งใหม\
         ่ริมแม่น้ำในเดือนหน้า ประชาชนสามา\
         รถเข้ามาออกกำลังกายและพักผ่อนได้ต\
         ั้งแต่เช้าจนถึงค่ำ นอกจากนี้ยังมี\
         สนามเด็กเล่นและห้องสมุดขนาดเล็กสำ\
         หรับครอบครัว",
        "เทศบาลประกาศเปิดสวนสาธารณะแห่งใหม\
         ่ริมแม่น้ำในเดือนหน้า ประชาชนสามา\
         รถเข้ามาออกกำลังกายและพักผ่อนได้ต\
         ั้งแต่เช้าจนถึงเย็น นอกจากนี้ยังม\
         ีสนามเด็กเล่นและห้องสมุดขนาดเล็กส\
         ำหรับครอบครัว",
    ),
    (
        "ru",
        "Городская библиотека объявила о продлении часов \
         работы по выходным дням начиная со следующего месяца. \
         По словам директора, решение принято после опроса \
         читателей, которые просили дать им больше времени для \
         занятий в тишине. Кроме того, в залах установят новые \
         лампы.",
        "Городская библиотека объявила о продлении часов \
         работы по выходным дням начиная со следующего месяца. \
         По словам директора, решение принято после опроса \
         читателей, которые просили дать им больше времени для \
         занятий в тишине. Кроме того, в залах установят новые \
         столы.",
    ),
    (
        "ar",
        "أعلنت المكتبة العامة في المدينة تمديد ساعات العمل في \
         عطلة نهاية الأسبوع ابتداء من الشهر القادم. وقال \
         المدير إن القرار جاء بعد استطلاع آراء القراء الذين \
         طلبوا مزيدا من الوقت للدراسة في هدوء. وستضاف مقاعد \
         جديدة إلى قاعات القراءة.",
        "أعلنت المكتبة العامة في المدينة تمديد ساعات العمل في \
         عطلة نهاية الأسبوع ابتداء من الشهر القادم. وقال \
         المدير إن القرار جاء بعد استطلاع آراء القراء الذين \
         طلبوا مزيدا من الوقت للدراسة في هدوء. وستضاف طاولات \
         جديدة إلى قاعات القراءة.",
    ),
];

/// Stores every text, looks up every copy, and expects exactly the original of the copy.
async fn copies_find_their_originals(server: &Server, prefix: &str, k: u32) {
    for (language, text, _) in TEXTS {
        let body = json!({"id": language, "text": text, "metadata": {"language": language}});
        let (status, answer) = server.post(&format!("{prefix}/documents"), body).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!(answer["outcome"], "created", "{answer}");
        assert_eq!(answer["similar"], json!([]), "{language}");
    }
    for (language, _, copy) in TEXTS {
        let (status, answer) = server.post(&format!("{prefix}/similar"), json!({"text": copy, "k": k})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(ids(&answer), [*language], "{answer}");
        assert_eq!(answer["similar"][0]["metadata"]["language"], *language);
    }
}

#[tokio::test]
async fn near_copies_are_found_in_every_language_at_both_widths() {
    let data = directory();
    let server = Server::start(data.path()).await;
    // An edit changes more bits of the fingerprint of a short text than of an article, so that k is large.
    copies_find_their_originals(&server, "", 20).await;
    let (status, created) = server.put("/collections/wide", json!({"profile": "copies-128"})).await;
    assert_eq!(
        (status, created["bits"].as_u64(), created["k"].as_u64()),
        (StatusCode::CREATED, Some(128), Some(23))
    );
    copies_find_their_originals(&server, "/collections/wide", 40).await;
    let (status, _) = server.put("/collections/topics", json!({"profile": "keywords-zh"})).await;
    assert_eq!(status, StatusCode::CREATED);
    copies_find_their_originals(&server, "/collections/topics", 20).await;
}

#[tokio::test]
async fn a_document_is_created_updated_read_and_deleted() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (_, text, copy) = TEXTS[2];
    let body = format!(r#"{{"text": {}, "metadata": {{"n": 12345678901234567890123}}}}"#, json!(text));
    let request = server.client.put(format!("{}/documents/a%2Fb", server.url));
    let status = request.header("content-type", "application/json").body(body).send().await.unwrap().status();
    assert_eq!(status, StatusCode::CREATED);
    let stored = server.json("/documents/a%2Fb").await;
    assert_eq!(stored["id"], "a/b");
    assert!(
        server.get("/documents/a%2Fb").await.text().await.unwrap().contains("12345678901234567890123"),
        "metadata is returned unchanged"
    );
    let (status, updated) = server.put("/documents/a%2Fb", json!({"text": copy})).await;
    assert_eq!((status, updated["outcome"].as_str()), (StatusCode::OK, Some("updated")));
    assert_ne!(updated["hash"], stored["hash"]);
    assert_eq!(
        ids(&server.json(&format!("/similar?hash={}&k=0", stored["hash"].as_str().unwrap())).await),
        [""; 0]
    );
    assert_eq!(
        ids(&server.json(&format!("/similar?hash={}&k=0", updated["hash"].as_str().unwrap())).await),
        ["a/b"]
    );
    assert_eq!(server.delete("/documents/a%2Fb").await, StatusCode::NO_CONTENT);
    assert_eq!(server.delete("/documents/a%2Fb").await, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/documents/a%2Fb").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(
        ids(&server.json(&format!("/similar?hash={}&k=64", updated["hash"].as_str().unwrap())).await),
        [""; 0]
    );
    assert_eq!(server.json("/collections/default").await["distinct_hashes"], 0);
}

/// `count` documents with hashes as NDJSON; every third one shares its hash with others.
fn hash_lines(count: u64) -> String {
    (0..count)
        .map(|i| {
            let hash = if i % 3 == 0 { i / 30 } else { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
            let (id, hash) = (format!("doc-{i:05}"), format!("{hash:016x}"));
            format!("{}\n", json!({"id": id, "hash": hash, "metadata": {"even": i % 2 == 0}}))
        })
        .collect()
}

#[tokio::test]
async fn every_page_of_every_answer_equals_the_scan_in_order() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let (_, summary) = server.stream("/documents", hash_lines(3_000)).await;
    assert_eq!(summary["created"], 3_000);
    let hash = format!("{:016x}", 5u64);
    for k in [0, 2, 3, 7, 11, 20, 32, 40, 64] {
        let scan =
            server.json(&format!("/similar?hash={hash}&k={k}&limit=1000&verify=scan&stats=true")).await;
        assert_eq!(scan["stats"]["method"], "scan");
        for limit in [7, 100, 1000] {
            let mut pages: Vec<Value> = Vec::new();
            let mut cursor = String::new();
            while pages.len() < 1_000 {
                let page = server.json(&format!("/similar?hash={hash}&k={k}&limit={limit}{cursor}")).await;
                pages.extend(page["similar"].as_array().unwrap().iter().cloned());
                match page["next"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            pages.truncate(1_000);
            assert_eq!(pages, *scan["similar"].as_array().unwrap(), "k {k}, limit {limit}");
        }
    }
    let all = server.json(&format!("/similar?hash={hash}&k=64&limit=1000")).await;
    let order: Vec<(u64, String)> = all["similar"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["distance"].as_u64().unwrap(), found["id"].as_str().unwrap().to_owned()))
        .collect();
    assert!(order.is_sorted(), "by distance, then id");
    assert_eq!(order.len(), 1_000);
}

#[tokio::test]
async fn filters_and_batches_answer_like_single_queries() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.stream("/documents", hash_lines(300)).await;
    let hash = format!("{:016x}", 5u64);
    let filter = json!({"metadata": {"even": true}, "exclude": ["doc-00000"]});
    let (_, filtered) =
        server.post("/similar", json!({"hash": hash, "k": 3, "limit": 1000, "filter": filter})).await;
    let (_, plain) = server.post("/similar", json!({"hash": hash, "k": 3, "limit": 1000})).await;
    let wanted: Vec<String> = ids(&plain)
        .into_iter()
        .filter(|id| id != "doc-00000" && id[4..].parse::<u64>().unwrap() % 2 == 0)
        .collect();
    assert!(!wanted.is_empty());
    assert_eq!(ids(&filtered), wanted);
    let (_, none) = server
        .post("/similar", json!({"hash": hash, "k": 3, "filter": {"written_before": "2020-01-01T00:00:00Z"}}))
        .await;
    assert_eq!(ids(&none), [""; 0]);
    let queries = json!([{"hash": hash, "k": 3, "limit": 1000}, {"id": "doc-00003", "k": 0, "stats": true}]);
    let (_, batch) = server.post("/batch/similar", json!({ "queries": queries })).await;
    assert_eq!(batch["results"][0]["similar"], plain["similar"]);
    let alone = server.json("/documents/doc-00003/similar?k=0").await;
    assert_eq!(batch["results"][1]["similar"], alone["similar"]);
    assert!(!ids(&alone).contains(&"doc-00003".to_owned()) && ids(&alone).contains(&"doc-00000".to_owned()));
}

/// Cheap lookups, expensive lookups and lookups by id are mixed, in bodies smaller and larger than the size
/// from which the server parses them on the pool.
#[tokio::test]
async fn a_batch_of_any_size_and_mixture_answers_like_single_queries() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.stream("/documents", hash_lines(3_000)).await;
    let hash = |i: u64| if i.is_multiple_of(3) { i / 30 } else { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
    let by_hash = |i: u64| {
        let hash = format!("{:016x}", hash(i * 7 % 4_000) ^ (i % 3));
        json!({"hash": hash, "k": i % 9, "limit": 1 + i % 20})
    };
    let query_number = |i: u64, mixed: bool| match i % 10 {
        3 if mixed => json!({"hash": format!("{:016x}", i), "k": 5, "verify": "scan", "stats": true}),
        5 if mixed => json!({"id": format!("doc-{:05}", i), "k": 2}),
        6 if mixed => json!({"hash": format!("{:016x}", i / 30), "k": 64, "limit": 3}),
        8 if mixed => {
            json!({"hash": format!("{:016x}", i / 30), "k": 3, "filter": {"metadata": {"even": true}}})
        }
        _ => by_hash(i),
    };
    let untimed = |mut answer: Value| {
        if let Some(stats) = answer.get_mut("stats") {
            stats["microseconds"] = json!(0);
        }
        answer
    };
    // The index of the first mixed query: no mixed queries, only mixed ones, and mixed ones after cheap ones.
    for (count, mixed_from) in [(20, 20), (20, 0), (1_000, 1_000), (1_000, 0), (1_000, 700)] {
        let queries: Vec<Value> = (0..count).map(|i| query_number(i, i >= mixed_from)).collect();
        let (status, batch) = server.post("/batch/similar", json!({"queries": queries})).await;
        assert_eq!(status, StatusCode::OK, "{batch}");
        let results = batch["results"].as_array().unwrap();
        assert_eq!(results.len(), queries.len());
        for (query, result) in queries.iter().zip(results).step_by(if count > 100 { 7 } else { 1 }) {
            let (_, alone) = server.post("/similar", query.clone()).await;
            assert_eq!(untimed(result.clone()), untimed(alone), "{query}");
        }
    }
    // One invalid query among many valid ones.
    for (wrong, status) in [
        (json!({"hash": "0123456789abcdef0123456789abcdef"}), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({"hash": "0123456789abcdef", "k": 65}), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({"hash": "0123456789abcdef", "limit": 0}), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({"id": "nobody"}), StatusCode::NOT_FOUND),
    ] {
        let (_, alone) = server.post("/similar", wrong.clone()).await;
        assert_eq!(alone["status"], status.as_u16());
        for at in [0, 63, 64, 800, 989] {
            let mut queries: Vec<Value> = (0..990).map(by_hash).collect();
            queries[at] = wrong.clone();
            let (found, batch) = server.post("/batch/similar", json!({"queries": queries})).await;
            let results = batch["results"].as_array().unwrap();
            assert_eq!((found, results.len()), (StatusCode::OK, 990));
            let problem = &results[at]["error"];
            let facts = |problem: &Value| {
                [&problem["code"], &problem["status"], &problem["detail"]].map(Value::clone)
            };
            assert_eq!(facts(problem), facts(&alone), "{problem}");
            let pointer = problem["errors"][0]["pointer"].as_str().unwrap();
            assert!(pointer.starts_with(&format!("/queries/{at}")), "{problem}");
            let is_answered = |(other, result): (usize, &Value)| other == at || result["similar"].is_array();
            assert!(results.iter().enumerate().all(is_answered));
        }
    }
}

#[tokio::test]
async fn an_export_imports_into_an_equal_collection() {
    let data = directory();
    let server = Server::start(data.path()).await;
    server.stream("/documents", hash_lines(1_234)).await;
    let export = server.export("/export").await;
    assert_eq!(export.lines().count(), 1_234);
    server.put("/collections/copy", json!({})).await;
    let (_, summary) = server.stream("/collections/copy/documents", export.clone()).await;
    assert_eq!(summary["created"], 1_234);
    assert_eq!(server.export("/collections/copy/export").await, export);
    assert_eq!(server.delete("/collections/copy").await, StatusCode::NO_CONTENT);
    assert_eq!(server.get("/collections/copy/export").await.status(), StatusCode::NOT_FOUND);
    let (status, created) = server.put("/collections/copy", json!({"keep_text": true})).await;
    assert_eq!(
        (status, created["documents"].as_u64()),
        (StatusCode::CREATED, Some(0)),
        "no document of the deleted collection is left"
    );
    server.post("/collections/copy/documents", json!({"id": "kept", "text": TEXTS[0].1})).await;
    assert_eq!(server.json("/collections/copy/documents/kept").await["text"], TEXTS[0].1);
    let line: Value = serde_json::from_str(&server.export("/collections/copy/export").await).unwrap();
    assert_eq!(line, json!({"id": "kept", "text": TEXTS[0].1}));
}

#[tokio::test]
async fn a_page_is_fingerprinted_by_its_main_text() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let paragraph = TEXTS[2].1;
    let page = format!(
        "<html><head><title>News</title></head><body><nav><a href='/'>Home</a><a href='/s'>Sport</a></nav>\
         <article><h1>Ferry</h1><p>{paragraph}</p><p>{paragraph}</p></article></body></html>"
    );
    let request =
        server.client.post(format!("{}/fingerprint", server.url)).header("content-type", "text/html");
    let mut raw: Value = request.body(page.clone()).send().await.unwrap().json().await.unwrap();
    // Only bytes have a charset.
    let charset = raw.as_object_mut().unwrap().remove("charset");
    assert_eq!(charset, Some(json!({"name": "UTF-8", "guessed": false, "replaced": 0})));
    let (status, wrapped) = server.post("/fingerprint", json!({"html": page})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(raw, wrapped);
    let (_, stored) = server.post("/documents", json!({"html": page})).await;
    assert_eq!(stored["hash"], raw["hash"]);
    let (_, explained) = server.post("/fingerprint", json!({"text": paragraph, "explain": true})).await;
    assert_eq!(explained["explanation"]["votes"].as_array().unwrap().len(), 64);
    let hash = u64::from_str_radix(explained["hash"].as_str().unwrap(), 16).unwrap();
    for (bit, vote) in explained["explanation"]["votes"].as_array().unwrap().iter().enumerate() {
        let vote = vote.as_f64().unwrap();
        assert!(vote == 0.0 || (vote > 0.0) == (hash >> bit & 1 == 1), "bit {bit}");
    }
}

/// A recipe whose page has the same notice and menus as other pages of its site.
fn recipe(name: &str, steps: &str) -> String {
    let notice = "This website uses cookies to improve your experience. We'll assume you're ok with this, \
                  but you can opt out if you wish. We and our partners store data on your device.";
    format!(
        "<html><head><title>{name}</title></head><body><div id=cookie-law-info-bar><p>{notice}</p>\
         <a role=button>Accept</a> <a href=/privacy>Read more</a></div><ul><li><a href=/>Home</a></ul>\
         <div><div><h2>{name}</h2><p>{steps}</p></div></div><div><p>{notice}</p></div></body></html>"
    )
}

#[tokio::test]
async fn two_recipes_with_one_notice_have_different_hashes() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let recipes = [recipe("Ferry", TEXTS[0].1), recipe("Bridge", TEXTS[2].1)];
    let (_, compared) =
        server.post("/compare", json!({"a": {"html": recipes[0]}, "b": {"html": recipes[1]}})).await;
    assert_eq!(compared["match"], false, "{compared}");
    assert_eq!(compared["containment"]["count"], 0, "{compared}");
    // The whole pages have the notice in common.
    let visible = |page: &str| json!({"html": page, "page": "visible"});
    let (_, compared) =
        server.post("/compare", json!({"a": visible(&recipes[0]), "b": visible(&recipes[1])})).await;
    assert!(compared["containment"]["count"].as_u64().unwrap() > 0, "{compared}");
}

#[tokio::test]
async fn all_visible_text_of_a_page_can_be_used() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let page = recipe("Ferry", TEXTS[0].1);
    let hash = async |body: Value| {
        let (status, made) = server.post("/fingerprint", body).await;
        assert_eq!(status, StatusCode::OK, "{made}");
        made["hash"].as_str().unwrap().to_owned()
    };
    let (main, visible) =
        (hash(json!({"html": page})).await, hash(json!({"html": page, "page": "visible"})).await);
    assert_eq!(main, hash(json!({"html": page, "page": "main"})).await);
    assert_ne!(main, visible);
    let (_, stored) = server.post("/documents", json!({"id": "a", "html": page, "page": "visible"})).await;
    assert_eq!(stored["hash"], visible);
    for (of_page, found) in [("visible", 1), ("main", 0)] {
        let (_, answer) = server.post("/similar", json!({"html": page, "page": of_page, "k": 0})).await;
        assert_eq!(answer["similar"].as_array().unwrap().len(), found, "{answer}");
        let queries = json!({"queries": [{"html": page, "page": of_page, "k": 0}]});
        let (_, answer) = server.post("/batch/similar", queries).await;
        assert_eq!(answer["results"][0]["similar"].as_array().unwrap().len(), found, "{answer}");
    }
    for (path, body, pointer) in [
        ("/fingerprint", json!({"text": "a b c", "page": "main"}), "/page"),
        ("/documents", json!({"text": "a b c", "page": "visible"}), "/page"),
        ("/similar", json!({"text": "a b c", "page": "visible"}), "/page"),
        ("/compare", json!({"a": {"text": "a b c", "page": "main"}, "b": {"text": "a"}}), "/a/page"),
        ("/fingerprint", json!({"html": "a b c", "page": "all"}), "/page"),
    ] {
        let (status, problem) = server.post(path, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {problem}");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{path}: {problem}");
    }
}

/// A page of 1.5 MB: an article with long scripts, styles, drawings and menus around it.
fn long_page(article: &str) -> String {
    let script = format!("<script>{}</script>", "var a = {\"b\": '<p>c</p>', d: [1, 2, 3]};".repeat(6_000));
    let style = format!("<style>{}</style>", ".a > .b { margin: 0 auto; color: #fff }\n".repeat(8_000));
    let drawing = format!("<svg><path d='{}'/></svg>", "M10 10 L20 20 ".repeat(500));
    let menu: String =
        (0..2_000).map(|n| format!("<li class='item x-{n}'><a href=/{n}>Page {n}</a>")).collect();
    let paragraph = format!("<p class=text>{article}</p>");
    format!(
        "<html><head><title>News</title>{script}{style}</head><body><nav><ul>{menu}</ul></nav>{drawing}\
         <main><article><h1>News</h1>{}</article></main>{script}{style}{script}<footer>{menu}</footer>",
        paragraph.repeat(8)
    )
}

#[tokio::test]
async fn long_pages_are_accepted_and_the_limits_are_named() {
    let data = directory();
    let server = Server::start(data.path()).await;
    let article = TEXTS[0].1;
    let page = long_page(article);
    assert!((1_400_000..1_700_000).contains(&page.len()), "{}", page.len());
    let (status, made) = server.post("/fingerprint", json!({"html": page})).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let (_, text) = server.post("/fingerprint", json!({"text": format!("{article}\n").repeat(8)})).await;
    assert_eq!(made["hash"], text["hash"]);
    let (status, stored) = server.post("/documents", json!({"id": "a", "html": page})).await;
    assert_eq!((status, &stored["hash"]), (StatusCode::CREATED, &made["hash"]), "{stored}");
    let line = json!({"id": "b", "html": page}).to_string();
    let (results, _) = server.stream("/documents", line).await;
    assert_eq!(results[0]["outcome"], "created", "{results:?}");
    let request = server.client.post(format!("{}/fingerprint", server.url));
    let raw = request.header("content-type", "text/html").body(page.clone()).send().await.unwrap();
    assert_eq!(raw.status(), StatusCode::OK);
    let (status, compared) = server.post("/compare", json!({"a": {"html": page}, "b": {"id": "a"}})).await;
    assert_eq!((status, &compared["match"]), (StatusCode::OK, &json!(true)), "{compared}");

    let words = |bytes: usize| "word ".repeat(bytes / 5);
    let large = format!("{}<!--{}-->", page, "x".repeat(4 << 20));
    let of_text = (413, "too_large", "limits.document_bytes");
    for (path, body, (status, code, limit)) in [
        ("/fingerprint", json!({"html": large}), (413, "too_large", "limits.page_bytes")),
        ("/documents", json!({"html": large}), (413, "too_large", "limits.page_bytes")),
        ("/fingerprint", json!({"text": words(3 << 19)}), of_text),
        ("/documents", json!({"text": words(3 << 19)}), of_text),
        ("/compare", json!({"a": {"text": words(3 << 19)}, "b": {"text": "a"}}), of_text),
        ("/fingerprint", json!({"html": words(3 << 19)}), (422, "invalid_field", "limits.document_bytes")),
        ("/documents", json!({"html": words(3 << 19)}), (422, "invalid_field", "limits.document_bytes")),
    ] {
        let (found, problem) = server.post(path, body).await;
        assert_eq!((found.as_u16(), problem["code"].as_str()), (status, Some(code)), "{path}: {problem}");
        let detail = problem["errors"][0]["detail"].as_str().or(problem["detail"].as_str()).unwrap();
        assert!(detail.contains(limit), "{path}: {problem}");
    }
}
