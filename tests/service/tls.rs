//! TLS with certificate and key from files: served, reloaded when the files change, and refused at the
//! start when they do not match.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::server::{Server, command, directory, serve};

/// Writes a new certificate for `localhost` and its key. Returns the certificate in DER.
fn write_pair(directory: &Path) -> Vec<u8> {
    let generated = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(directory.join("tls.key"), generated.signing_key.serialize_pem()).unwrap();
    fs::write(directory.join("tls.crt"), generated.cert.pem()).unwrap();
    generated.cert.der().to_vec()
}

/// A server with a certificate for a name that it is not reached by is found ready by its settings alone.
#[tokio::test]
async fn healthcheck_trusts_the_certificate_of_the_settings() {
    let data = directory();
    write_pair(data.path());
    fs::create_dir(data.path().join("other")).unwrap();
    write_pair(&data.path().join("other"));
    let file = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("tls.crt"), file("tls.key"));
    let variables =
        [("LOOKALIKE_TLS__CERTIFICATE", certificate.as_str()), ("LOOKALIKE_TLS__KEY", key.as_str())];
    let server = Server::spawn(serve(&data.path().join("data"), &variables)).unwrap();
    let address = server.url.strip_prefix("https://").unwrap();
    let check = |certificate: &str| {
        let mut check = command(&["healthcheck"]);
        check.env("LOOKALIKE_SERVER__LISTEN", address).env("LOOKALIKE_TLS__KEY", &key);
        let output = check.env("LOOKALIKE_TLS__CERTIFICATE", certificate).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for _ in 0..100 {
        if check(&certificate).0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (succeeded, stderr) = check(&certificate);
    assert!(succeeded, "{stderr}");
    // The settings may be in a file, as those of `serve`.
    let settings =
        format!("[server]\nlisten = {address:?}\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    fs::write(file("settings.toml"), settings).unwrap();
    let output = command(&["healthcheck", "--config", &file("settings.toml")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = command(&["healthcheck", "--config", &file("none.toml")]).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("none.toml"));
    let (succeeded, stderr) = check(&file("other/tls.crt"));
    assert!(!succeeded && stderr.contains("no TLS with"), "{stderr}");
    let (succeeded, stderr) = check(&key);
    assert!(!succeeded && stderr.contains("holds no certificate"), "{stderr}");
}

/// The answer of a server to a request over TLS, or `None` if its certificate is not trusted.
async fn get_over_tls(url: &str, trusted: &[u8]) -> Option<String> {
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
    let mut roots = RootCertStore::empty();
    roots.add(trusted.to_vec().into()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = url.strip_prefix("https://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    Some(answer)
}

#[tokio::test]
async fn a_certificate_is_served_and_replaced_without_a_restart() {
    let data = directory();
    let first = write_pair(data.path());
    fs::create_dir(data.path().join("other")).unwrap();
    let file = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("tls.crt"), file("tls.key"));
    let variables =
        [("LOOKALIKE_TLS__CERTIFICATE", certificate.as_str()), ("LOOKALIKE_TLS__KEY", key.as_str())];
    let server = Server::spawn(serve(&data.path().join("data"), &variables)).unwrap();
    assert!(get_over_tls(&server.url, &first).await.unwrap().ends_with("live\n"));
    fs::write(&certificate, "no certificate").unwrap();
    server.wait_for_log("the changed certificate is not used").await;
    assert!(get_over_tls(&server.url, &first).await.is_some(), "the previous certificate stays in use");
    write_pair(&data.path().join("other"));
    for (state, replacement) in
        [("missing", None), ("of another key", Some(data.path().join("other/tls.crt")))]
    {
        let warnings = server.log().matches("the changed certificate is not used").count();
        match replacement {
            None => fs::remove_file(&certificate).unwrap(),
            Some(foreign) => drop(fs::copy(foreign, &certificate).unwrap()),
        }
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        let log = server.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("certificate is not used")).collect();
        assert_eq!(lines.len(), warnings + 1, "{state}: {log}");
        assert!(lines[warnings].contains(&certificate) && lines[warnings].contains(&key), "{state}: {log}");
    }
    let second = write_pair(data.path());
    for _ in 0..200 {
        if get_over_tls(&server.url, &second).await.is_some() {
            assert!(get_over_tls(&server.url, &first).await.is_none());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the new certificate is not served:\n{}", server.log());
}

#[tokio::test]
async fn the_commands_use_tls_with_the_configured_certificate_authority() {
    let data = directory();
    write_pair(data.path());
    let file = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let variables =
        [("LOOKALIKE_TLS__CERTIFICATE", file("tls.crt")), ("LOOKALIKE_TLS__KEY", file("tls.key"))];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = Server::spawn(serve(&data.path().join("data"), &variables)).unwrap();
    server.wait_for_log("ready, listening").await;
    let url = server.url.replace("127.0.0.1", "localhost");
    let run = |arguments: &[&str], trusted: Option<&str>, url: &str| {
        let mut command = command(&[arguments, &["--url", url]].concat());
        command.envs(trusted.map(|path| ("LOOKALIKE_CACERT", path)));
        let output = command.output().unwrap();
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success(), printed)
    };
    let documents = file("documents.jsonl");
    fs::write(&documents, "{\"id\":\"a\",\"hash\":\"00000000000000ff\"}\n").unwrap();
    let trusted = file("tls.crt");
    for arguments in
        [&["healthcheck", "--cacert", &trusted][..], &["import", &documents, "--cacert", &trusted]]
    {
        let (succeeded, printed) = run(arguments, None, &url);
        assert!(succeeded, "{printed}");
    }
    let (_, exported) = run(&["export"], Some(&trusted), &url);
    assert!(exported.contains("\"00000000000000ff\""), "{exported}");
    let (other, key) = (directory(), file("tls.key"));
    write_pair(other.path());
    let untrusted = other.path().join("tls.crt").to_str().unwrap().to_owned();
    let by_address = server.url.as_str();
    let refused = [
        (None, url.as_str(), "is its certificate trusted"),
        (Some(untrusted.as_str()), &url, "is its certificate trusted"),
        (Some(&trusted), by_address, "is its certificate trusted"),
        (Some(&key), &url, "tls.key holds no certificate"),
        (Some("/nowhere"), &url, "/nowhere cannot be read"),
    ];
    for (trusted, url, expected) in refused {
        let (succeeded, printed) = run(&["healthcheck"], trusted, url);
        assert!(!succeeded && printed.contains(expected), "no {expected:?} in {printed}");
    }
}

/// Writes a certificate like those of `openssl req -x509`: self-signed, and a certificate authority.
fn write_authority(directory: &Path, expired: bool) {
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    if expired {
        parameters.not_after = rcgen::date_time_ymd(2000, 1, 1);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    fs::write(directory.join("tls.crt"), parameters.self_signed(&key).unwrap().pem()).unwrap();
}

#[tokio::test]
async fn a_self_signed_authority_is_trusted_when_it_is_configured() {
    for expired in [false, true] {
        let data = directory();
        write_authority(data.path(), expired);
        let file = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (file("tls.crt"), file("tls.key"));
        let variables =
            [("LOOKALIKE_TLS__CERTIFICATE", certificate.as_str()), ("LOOKALIKE_TLS__KEY", key.as_str())];
        let server = Server::spawn(serve(&data.path().join("data"), &variables)).unwrap();
        server.wait_for_log("ready, listening").await;
        let other = directory();
        write_authority(other.path(), false);
        let untrusted = other.path().join("tls.crt").to_str().unwrap().to_owned();
        let (by_address, by_name) = (server.url.clone(), server.url.replace("127.0.0.1", "localhost"));
        let cases = [
            (&certificate, &by_name, !expired),
            (&certificate, &by_address, false),
            (&untrusted, &by_name, false),
        ];
        for (trusted, url, expected) in cases {
            let output = command(&["healthcheck", "--cacert", trusted, "--url", url]).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.success(), expected, "{url} {expired}: {stderr}");
        }
    }
}

#[test]
fn files_that_do_not_match_are_refused_at_the_start() {
    let data = directory();
    write_pair(data.path());
    let file = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let other = directory();
    write_pair(other.path());
    let foreign = other.path().join("tls.key").to_str().unwrap().to_owned();
    for (name, text) in [
        ("none.crt", "no certificate"),
        ("cut.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n"),
        ("false.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("false.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ] {
        fs::write(file(name), text).unwrap();
    }
    let cases = [
        (Some(file("tls.crt")), None, "tls.certificate and tls.key go together"),
        (Some(file("none")), Some(file("tls.key")), "none cannot be read"),
        (Some(file("tls.key")), Some(file("tls.key")), "tls.key holds no certificate"),
        (Some(file("tls.crt")), Some(file("tls.crt")), "tls.crt holds no private key"),
        (Some(file("tls.crt")), Some(foreign), "tls.key is not the key of the certificate in"),
        (Some(file("none.crt")), Some(file("tls.key")), "BEGIN CERTIFICATE-----"),
        (Some(file("cut.crt")), Some(file("tls.key")), "-----END CERTIFICATE----- is missing"),
        (Some(file("false.crt")), Some(file("tls.key")), "false.crt cannot be decoded"),
        (Some(file("tls.crt")), Some(file("false.key")), "no private key of RSA, ECDSA or Ed25519"),
    ];
    for (certificate, key, expected) in cases {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--data", &file("data")]);
        command.envs(certificate.map(|path| ("LOOKALIKE_TLS__CERTIFICATE", path)));
        command.envs(key.map(|path| ("LOOKALIKE_TLS__KEY", path)));
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{stderr}");
        assert!(stderr.contains(expected), "no {expected:?} in {stderr}");
    }
}
