//! Tests: the order of the layers, the message of each error, and `config/default.toml` compared with the
//! code.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;

use super::keys::{self, KEYS, Key};
use super::*;

const DEFAULT_FILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/default.toml"));

type Flags<'a> = &'a [(&'static str, &'a str)];

fn merged(text: &str, variables: &[(&str, &str)], flags: Flags<'_>) -> Result<Settings, ConfigError> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(*value)));
    let flags: Vec<_> = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    merge(Some((Path::new("a.toml"), text)), variables, &flags).map(Layers::into_settings)
}

fn file(text: &str) -> Result<Settings, ConfigError> {
    merged(text, &[], &[])
}

fn variable(name: &str, value: &str) -> Result<Settings, ConfigError> {
    merged("", &[(name, value)], &[])
}

fn message(result: Result<Settings, ConfigError>) -> String {
    result.expect_err("the settings are wrong").to_string()
}

#[test]
fn without_any_layer_the_settings_are_the_built_in_defaults() {
    assert_eq!(load(None, [].into_iter(), &[]).unwrap(), Settings::default());
}

#[test]
fn each_layer_overrides_the_ones_below_it() {
    let text = "[pool]\nqueue = 2";
    let variables = [("LOOKALIKE_POOL__QUEUE", "3")];
    let flags = [("pool.queue", "4")];
    let queue = |settings: Result<Settings, _>| settings.unwrap().pool.queue;
    assert_eq!(queue(merged("", &[], &[])), 64);
    assert_eq!(queue(merged(text, &[], &[])), 2);
    assert_eq!(queue(merged(text, &variables, &[])), 3);
    assert_eq!(queue(merged(text, &variables, &flags)), 4);
    assert_eq!(queue(merged("", &variables, &[])), 3);
    assert_eq!(queue(merged(text, &[], &flags)), 4);
}

#[test]
fn layers_replace_keys_and_not_sections() {
    let settings = merged("[pool]\nqueue = 2\npermits = 5", &[("LOOKALIKE_POOL__QUEUE", "3")], &[]).unwrap();
    assert_eq!(settings.pool, Pool { permits: 5, queue: 3, wait_ms: 50 });
}

#[test]
fn a_value_out_of_range_is_accepted_if_a_later_layer_overrides_it() {
    assert_eq!(merged("[snapshots]\nkeep = 1", &[], &[("snapshots.keep", "3")]).unwrap().snapshots.keep, 3);
}

#[test]
fn a_value_of_the_wrong_type_is_an_error_even_if_a_later_layer_overrides_it() {
    assert!(merged("[snapshots]\nkeep = true", &[], &[("snapshots.keep", "3")]).is_err());
}

#[test]
fn every_key_can_be_set_by_its_variable_and_by_its_flag() {
    for key in &KEYS {
        let value = match key.kind.expected().as_str() {
            "a string" => "other".to_owned(),
            // A value that differs from the default.
            "true or false" => (!["server.console", "store.verify"].contains(&key.path)).to_string(),
            text if text.starts_with('"') => text.rsplit('"').nth(1).unwrap().to_owned(),
            text if text.starts_with("an IP") => "[::1]:9".to_owned(),
            text if text.starts_with("host names") => "a.example,b".to_owned(),
            text if text.contains("gs://") => "gs://bucket/other".to_owned(),
            text if text.starts_with("origins") => "https://a.example, http://localhost:3000".to_owned(),
            _ => key.kind.range().unwrap().most.to_string(),
        };
        // These are lower bounds of others, or below them, which must be raised with them.
        let raised: &[(&str, &str)] = match key.path {
            "limits.document_bytes" => &[("LOOKALIKE_LIMITS__BATCH_BYTES", "1 GiB")],
            "limits.default_matches" => &[("LOOKALIKE_LIMITS__MATCHES", "100000")],
            _ => &[],
        };
        let variable = format!("LOOKALIKE_{}__{}", key.section(), key.name()).to_ascii_uppercase();
        let before = merged("", raised, &[]).unwrap();
        let by_variable = merged("", &[raised, &[(&variable, &value)]].concat(), &[]).unwrap();
        let by_flag = merged("", raised, &[(key.path, &value)]).unwrap();
        assert_ne!(by_variable, before, "{}", key.path);
        assert_eq!(by_variable, by_flag, "{}", key.path);
    }
}

#[test]
fn strings_are_taken_from_variables_verbatim() {
    let settings = variable("LOOKALIKE_DATA__DIR", " true # \"x\\").unwrap();
    assert_eq!(settings.data.dir, Path::new(" true # \"x\\"));
    assert_eq!(variable("LOOKALIKE_COLLECTION__PROFILE", "7").unwrap().collection.profile, "7");
}

#[test]
fn a_variable_that_is_not_utf8_is_refused() {
    let value = <OsString as std::os::unix::ffi::OsStringExt>::from_vec(b"/data/\xff".to_vec());
    let variables = [("LOOKALIKE_DATA__DIR".to_owned(), value.clone())].into_iter();
    let error = load(None, variables, &[]).unwrap_err().to_string();
    assert!(error.contains("LOOKALIKE_DATA__DIR") && error.contains("UTF-8"), "{error}");
    let others = [("LOOKALIKE_KEY".to_owned(), value.clone()), ("PATH".to_owned(), value)].into_iter();
    assert!(load(None, others, &[]).is_ok());
}

#[test]
fn a_settings_file_without_an_end_is_refused() {
    let error = load(Some(Path::new("/dev/zero")), std::iter::empty(), &[]).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("1048576 bytes"), "{cause}");
}

#[test]
fn variables_that_are_not_settings_are_ignored() {
    let variables = [
        ("PATH", "x"),
        ("lookalike_pool__queue", "x"),
        ("LOOKALIKE_CONFIG", "a.toml"),
        ("LOOKALIKE_KEY", "lk_0"),
        ("LOOKALIKE_CACERT", "/etc/ca.pem"),
        ("LOOKALIKE_SERVICE_HOST", "10.0.0.7"),
        ("LOOKALIKE_PORT", "tcp://10.0.0.7:8080"),
        ("LOOKALIKE_PORT_8080_TCP_ADDR", "10.0.0.7"),
    ];
    assert_eq!(merged("", &variables, &[]).unwrap(), Settings::default());
}

#[test]
fn sizes_may_have_a_unit_in_the_file_and_in_variables() {
    let size = |text: &str| {
        variable("LOOKALIKE_STORE__CACHE_BYTES", text).map(|settings| settings.store.cache_bytes)
    };
    for (text, bytes) in
        [("2097152", 2 << 20), ("2048 KiB", 2 << 20), ("32MiB", 32 << 20), ("1 GiB", 1 << 30)]
    {
        assert_eq!(size(text).unwrap(), bytes);
        assert_eq!(file(&format!("[store]\ncache_bytes = \"{text}\"")).unwrap().store.cache_bytes, bytes);
    }
    for text in ["", "MiB", "32 mib", "32 MB", "1.5 GiB", "32  MiB", "1 MiB 1", "+-1"] {
        assert!(matches!(size(text), Err(ConfigError::WrongType { .. })), "{text:?}");
    }
}

#[test]
fn huge_numbers_are_out_of_range_and_not_of_a_wrong_type() {
    let huge = "99999999999999999999";
    let errors = [
        variable("LOOKALIKE_POOL__QUEUE", huge),
        variable("LOOKALIKE_STORE__CACHE_BYTES", &format!("{huge} GiB")),
        variable("LOOKALIKE_STORE__CACHE_BYTES", "-1"),
        file(&format!("[pool]\nqueue = {huge}")),
    ];
    for error in errors {
        assert!(matches!(error, Err(ConfigError::OutOfRange { .. })), "{error:?}");
    }
}

#[test]
fn a_file_may_write_numbers_in_any_toml_syntax() {
    assert_eq!(file("pool.queue = 1_0").unwrap().pool.queue, 10);
    assert_eq!(file("pool = { queue = 0x1F }").unwrap().pool.queue, 31);
}

#[test]
fn a_byte_order_mark_is_ignored_and_shifts_no_quoted_value() {
    assert_eq!(file("\u{feff}[pool]\nqueue = 3").unwrap().pool.queue, 3);
    assert_eq!(
        message(file("\u{feff}[pool]\nqueue = 6.5")),
        "a.toml:2: pool.queue is 6.5; expected a whole number"
    );
}

#[test]
fn an_unknown_section_in_the_file_is_named_with_the_existing_ones() {
    assert_eq!(
        message(file("\n[sever]\nlisten = \"x\"")),
        "a.toml:2: there is no section \"sever\"; \
         the sections are server, tls, keys, data, limits, pool, store, memory, snapshots, profiles, \
         collection, log, traces, shared_log, replicas"
    );
}

#[test]
fn an_unknown_key_in_the_file_is_named_with_the_existing_ones() {
    assert_eq!(
        message(file("[server]\n# é\n\nlistn = \"x\"")),
        "a.toml:4: section server has no key \"listn\"; its keys are listen, open, hosts, origins, \
         console, deletion_seconds, connections, connections_per_address, header_seconds, idle_seconds, \
         body_seconds, bytes_per_second, stall_seconds, lame_duck_seconds, drain_seconds"
    );
}

#[test]
fn a_value_in_the_place_of_a_section_is_named() {
    let expected = "a.toml:1: data is a section and has no value; its keys are dir";
    assert_eq!(message(file("data = \"./data\"")), expected);
    assert_eq!(message(file("data = [{ dir = \"./data\" }]")), expected);
}

#[test]
fn a_wrong_type_in_the_file_is_named_with_its_line() {
    let cases = [
        ("[pool]\r\nqueue = \"64\"", "a.toml:2: pool.queue is \"64\"; expected a whole number"),
        ("[pool]\nqueue = 6.5", "a.toml:2: pool.queue is 6.5; expected a whole number"),
        ("[pool]\nqueue = [\n1]", "a.toml:2: pool.queue is an array; expected a whole number"),
        ("pool.queue.x = 1", "a.toml:1: pool.queue is a table; expected a whole number"),
        (
            "[collection]\nkeep_text = \"true\"",
            "a.toml:2: collection.keep_text is \"true\"; expected true or false",
        ),
        ("[data]\ndir = 7", "a.toml:2: data.dir is 7; expected a string"),
        ("[log]\nformat = \"xml\"", "a.toml:2: log.format is \"xml\"; expected \"text\" or \"json\""),
        (
            "[server]\nlisten = \"localhost:8080\"",
            "a.toml:2: server.listen is \"localhost:8080\"; \
             expected an IP address with a port, such as \"127.0.0.1:8080\"",
        ),
        (
            "[limits]\nbatch_bytes = \"32 MB\"",
            "a.toml:2: limits.batch_bytes is \"32 MB\"; \
             expected a number of bytes, or a string with a unit such as \"32 MiB\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(message(file(text)), expected);
    }
}

#[test]
fn an_unknown_variable_is_named_with_the_existing_keys_or_sections() {
    assert_eq!(
        message(variable("LOOKALIKE_SERVER__LISTN", "x")),
        "LOOKALIKE_SERVER__LISTN: section server has no key \"listn\"; its keys are listen, open, hosts, \
         origins, console, deletion_seconds, connections, connections_per_address, header_seconds, \
         idle_seconds, body_seconds, bytes_per_second, stall_seconds, lame_duck_seconds, drain_seconds"
    );
    assert_eq!(
        message(variable("LOOKALIKE_SEVER__LISTEN", "x")),
        "LOOKALIKE_SEVER__LISTEN: there is no section \"sever\"; \
         the sections are server, tls, keys, data, limits, pool, store, memory, snapshots, profiles, \
         collection, log, traces, shared_log, replicas"
    );
}

#[test]
fn a_variable_of_another_form_is_refused() {
    for name in ["LOOKALIKE_LISTEN", "LOOKALIKE_SERVER_LISTEN", "LOOKALIKE_server__listen", "LOOKALIKE_"] {
        assert_eq!(
            message(variable(name, "127.0.0.1:1")),
            format!(
                "{name}: a variable names a section and a key in capitals, as LOOKALIKE_SERVER__LISTEN does; \
                 the sections are server, tls, keys, data, limits, pool, store, memory, snapshots, profiles, \
                 collection, log, traces, shared_log, replicas"
            )
        );
    }
}

#[test]
fn a_wrong_type_in_a_variable_is_named_with_the_variable() {
    assert_eq!(
        message(variable("LOOKALIKE_POOL__QUEUE", "many")),
        "LOOKALIKE_POOL__QUEUE: pool.queue is \"many\"; expected a whole number"
    );
    assert_eq!(
        message(variable("LOOKALIKE_COLLECTION__KEEP_TEXT", "yes")),
        "LOOKALIKE_COLLECTION__KEEP_TEXT: collection.keep_text is \"yes\"; expected true or false"
    );
}

#[test]
fn a_list_is_an_array_in_the_file_and_has_commas_in_a_variable() {
    let hosts = |settings: Result<Settings, _>| settings.unwrap().server.hosts;
    assert_eq!(hosts(file("[server]\nhosts = [\"a.example\",\n  \"b\"]")), ["a.example", "b"]);
    assert_eq!(hosts(variable("LOOKALIKE_SERVER__HOSTS", " a.example , b,")), ["a.example", "b"]);
    assert!(hosts(merged("server.hosts = [\"a\"]", &[("LOOKALIKE_SERVER__HOSTS", "")], &[])).is_empty());
    let wrong =
        ["server.hosts = \"a\"", "server.hosts = [1]", "server.hosts = [\"a:80\"]", "server.hosts = [\"\"]"];
    for text in wrong {
        let message = message(file(text));
        assert!(message.contains("expected host names without a port"), "{message}");
    }
    for origin in [
        "a.example",
        "null",
        "*",
        "https://",
        "https://a.example/",
        "https://a:443",
        "http://a:80",
        "https://u@a",
    ] {
        let message = message(variable("LOOKALIKE_SERVER__ORIGINS", origin));
        assert!(message.contains("expected origins as browsers send them"), "{message}");
    }
    let origins = "https://a.example:8443,chrome-extension://abc,http://[::1]:3000";
    assert_eq!(variable("LOOKALIKE_SERVER__ORIGINS", origins).unwrap().server.origins.len(), 3);
}

#[test]
fn a_wrong_flag_is_named_by_its_key() {
    assert_eq!(
        message(merged("", &[], &[("pool.queue", "many")])),
        "command-line flag: pool.queue is \"many\"; expected a whole number"
    );
    assert_eq!(
        message(merged("", &[], &[("data", "x")])),
        "command-line flag: section data has no key \"\"; its keys are dir"
    );
}

#[test]
fn a_value_out_of_range_is_named_with_the_range_and_its_unit() {
    assert_eq!(
        message(file("[snapshots]\nkeep = 1")),
        "a.toml:2: snapshots.keep is 1; it must be 2 to 100 snapshots"
    );
    assert_eq!(
        message(variable("LOOKALIKE_LIMITS__DOCUMENT_BYTES", "2 GiB")),
        "LOOKALIKE_LIMITS__DOCUMENT_BYTES: limits.document_bytes is \"2 GiB\"; it must be 1 byte to 1 GiB"
    );
    assert_eq!(
        message(merged("", &[], &[("store.queue_operations", "1023")])),
        "command-line flag: store.queue_operations is \"1023\"; it must be 1024 to 1048576 operations"
    );
}

#[test]
fn an_empty_text_is_refused() {
    assert_eq!(
        message(variable("LOOKALIKE_DATA__DIR", "")),
        "LOOKALIKE_DATA__DIR: data.dir is \"\"; it must not be empty"
    );
    assert_eq!(message(file("log.level = \" \"")), "a.toml:1: log.level is \" \"; it must not be empty");
}

#[test]
fn a_limit_below_its_lower_bound_is_named_with_both_places() {
    assert_eq!(
        message(variable("LOOKALIKE_LIMITS__DOCUMENT_BYTES", "64 MiB")),
        "built-in default: limits.batch_bytes is 33554432; it must not be less than limits.document_bytes, \
         which is \"64 MiB\" (LOOKALIKE_LIMITS__DOCUMENT_BYTES)"
    );
    assert_eq!(
        message(merged("[limits]\nmatches = 5", &[], &[])),
        "a.toml:2: limits.matches is 5; it must not be less than limits.default_matches, \
         which is 10 (built-in default)"
    );
}

#[test]
fn broken_toml_is_named_with_its_line_and_its_cause() {
    let error = file("[pool]\nqueue = 1\nqueue 2").unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("a.toml:3: this is not TOML: key with no value, expected `=`;"), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn a_key_written_twice_is_named_by_the_line_of_the_second() {
    let message = message(file("[pool]\nqueue = 1\n\nqueue = 2"));
    assert!(message.starts_with("a.toml:4: this is not TOML: duplicate key"), "{message}");
}

#[test]
fn text_that_ends_too_early_is_named_by_its_last_line() {
    let message = message(file("[pool]\nqueue ="));
    assert!(message.starts_with("a.toml:2: this is not TOML: "), "{message}");
}

#[test]
fn a_file_that_was_named_must_exist() {
    let path = Path::new("no-such-directory/a.toml");
    let error = load(Some(path), [].into_iter(), &[]).unwrap_err();
    assert_eq!(error.to_string(), "the settings file no-such-directory/a.toml cannot be read");
    let source = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn the_default_file_holds_the_built_in_defaults() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config/default.toml"));
    assert_eq!(load(Some(path), [].into_iter(), &[]).unwrap(), Settings::default());
    assert_eq!(toml::from_str::<Settings>(DEFAULT_FILE).unwrap(), Settings::default());
}

/// The keys of the default file, commented out or not, as paths, each with the comment above it.
fn documented() -> Vec<(String, String)> {
    let (mut section, mut comment, mut found) = ("", String::new(), Vec::new());
    for line in DEFAULT_FILE.lines() {
        let bare = line.trim_start_matches("# ");
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            (section, comment) = (name, String::new());
        } else if let Some((name, _)) = bare.split_once(" = ") {
            found.push((format!("{section}.{name}"), std::mem::take(&mut comment)));
        } else {
            comment = comment + bare + "\n";
        }
    }
    found
}

#[test]
fn the_default_file_has_every_key_in_the_order_of_the_table() {
    let documented: Vec<_> = documented().into_iter().map(|(path, _)| path).collect();
    assert_eq!(documented, KEYS.iter().map(|key| key.path).collect::<Vec<_>>());
}

#[test]
fn the_default_file_gives_the_range_and_unit_that_the_table_has() {
    for (key, (_, comment)) in KEYS.iter().zip(documented()) {
        let range = key.kind.range().map(|range| format!("\n{range}")).unwrap_or_default();
        assert!(comment.contains(&range), "{}: {range} is not in {comment}", key.path);
        assert!(comment.contains(key.floor.unwrap_or_default()), "{}", key.path);
    }
}

#[test]
fn the_table_has_exactly_the_fields_of_the_settings() {
    let mut settings = Settings::default();
    settings.collection.k = Some(0);
    settings.collection.sketch_bytes = Some(0);
    settings.memory = super::Memory { budget: Some(0), posting_cache: Some(0), requests: Some(0) };
    settings.profiles.file = Some("profiles.toml".into());
    settings.tls = Tls { certificate: Some("c".into()), key: Some("k".into()) };
    settings.keys.file = Some("f".into());
    settings.traces.endpoint = Some("http://c".into());
    settings.shared_log = SharedLog { url: Some("u".into()), ..SharedLog::default() };
    settings.replicas = Replicas {
        server: Some("s".into()),
        address: Some("a".into()),
        peer_key_file: Some("k".into()),
        peer_ca_file: Some("c".into()),
        ..Replicas::default()
    };
    let fields = toml::Table::try_from(settings).unwrap();
    assert_eq!(fields.len(), keys::sections().len());
    for (section, keys) in &fields {
        let mut names = keys::names(section);
        names.sort_unstable();
        let mut fields: Vec<_> = keys.as_table().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, names, "{section}");
    }
}

#[test]
fn both_ends_of_every_range_are_accepted() {
    for key in &KEYS {
        let Some(range) = key.kind.range() else { continue };
        for end in [range.least, range.most] {
            assert!(is_accepted(key, end), "{} = {end}", key.path);
        }
        for outside in [range.least - 1, range.most + 1] {
            assert!(!is_accepted(key, outside), "{} = {outside}", key.path);
        }
    }
}

/// Whether the key accepts the number, if the keys that bound it do not restrict it.
fn is_accepted(key: &'static Key, number: i64) -> bool {
    let wide = [
        ("limits.document_bytes", "1"),
        ("limits.default_matches", "1"),
        ("limits.batch_bytes", "1 GiB"),
        ("limits.matches", "100000"),
    ];
    let number = number.to_string();
    let flags: Vec<_> = wide.into_iter().chain([(key.path, number.as_str())]).collect();
    merged("", &[], &flags).is_ok()
}
