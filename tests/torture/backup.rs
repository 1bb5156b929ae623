//! Backups: all collections of a server, restored into another one, match the ledger.

use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, OFTEN, cycles, seeded};
use crate::load::Load;
use crate::server::Server;

/// Backups of all collections of a server, with their names.
async fn backups(server: &Server) -> Vec<(String, Vec<u8>)> {
    let all = server.json("/collections").await;
    let mut backups = Vec::new();
    for info in all["collections"].as_array().unwrap() {
        let name = info["name"].as_str().unwrap();
        let response = server.get(&format!("/collections/{name}/backup")).await;
        assert!(response.status().is_success(), "{}", response.status());
        backups.push((name.to_owned(), response.bytes().await.unwrap().to_vec()));
    }
    backups
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_collections_match_the_acknowledged_writes() {
    let (bench, mut rng) = (Bench::new(), seeded());
    let mut restored = 0;
    for cycle in 0..cycles(3) {
        let server = Server::start_with(&bench.data, OFTEN).await;
        let load = Load::start(&server.url, &bench.ledger, 5, &mut rng);
        tokio::time::sleep(Duration::from_millis(400)).await;
        // A backup while clients write must not disturb them.
        assert!(server.get("/collections/default/backup").await.bytes().await.is_ok());
        load.stop().await;
        bench.audit(&server, &format!("cycle {cycle}")).await;
        let backups = backups(&server).await;
        server.kill();
        let fresh = bench.elsewhere();
        let other = Server::start_with(&fresh.data, OFTEN).await;
        // A new server has the collection `default`; delete it, so that the restore can use the name.
        assert_eq!(other.delete("/collections/default").await.as_u16(), 204);
        for (name, tar) in backups {
            let url = format!("{}/collections/{name}/restore", other.url);
            let request = other.client.post(url).header("content-type", "application/x-tar");
            let response = request.body(tar).send().await.unwrap();
            let (status, answer) = (response.status(), response.json::<Value>().await.unwrap_or_default());
            assert!(status.is_success(), "{name}: {status} {answer}");
            restored += 1;
        }
        fresh.audit(&other, "restored").await;
        other.kill();
        let other = Server::start_with(&fresh.data, OFTEN).await;
        fresh.audit(&other, "restored and killed").await;
    }
    eprintln!("{restored} collections restored");
}
