//! The histories of `histories` while parts of the network are cut off from each other, in one direction or
//! in both. Each process of etcd and each server is in a network namespace of its own; the clients reach all.

use std::time::Duration;

use super::etcd;
use super::histories::judge;
use super::network::Network;
use super::server::BINARY;
use super::servers::Replicas;

/// The processes of etcd in the network, and the servers.
const ETCD: [usize; 3] = [0, 1, 2];
const SERVERS: [usize; 3] = [3, 4, 5];
/// The operations of a client are spread over the time for which something is cut off.
const REST_MS: u64 = 500;

/// Cuts something, waits for up to some elections of etcd, and mends it. Returns what it was.
async fn cut_something(
    network: &Network,
    replicas: &mut Replicas,
    random: &mut fastrand::Rng,
) -> &'static str {
    tokio::time::sleep(Duration::from_millis(random.u64(50..400))).await;
    let leader = replicas.etcd.leader().await.unwrap_or(0);
    let (node, server) = (random.usize(0..3), random.usize(0..3));
    let others: Vec<usize> = ETCD.into_iter().filter(|at| *at != leader).collect();
    let at = SERVERS[server];
    let what = match random.u8(0..12) {
        0 => {
            network.part(&[at], &ETCD);
            "a server and etcd"
        }
        1 => {
            ETCD.iter().for_each(|node| network.cut(*node, at));
            "a server receives nothing from etcd"
        }
        2 => {
            ETCD.iter().for_each(|node| network.cut(at, *node));
            "etcd receives nothing from a server"
        }
        3 => {
            network.part(&[leader], &others);
            "the leader of etcd and the others, which the servers reach"
        }
        4 => {
            others.iter().for_each(|other| network.cut(leader, *other));
            "the others receive nothing from the leader of etcd"
        }
        5 => {
            others.iter().for_each(|other| network.cut(*other, leader));
            "the leader of etcd receives nothing from the others"
        }
        6 => {
            ETCD.iter().for_each(|node| network.part(&[*node], &ETCD[node + 1..]));
            "all of etcd from each other"
        }
        7 => {
            let rest: Vec<usize> = (0..6).filter(|rest| *rest != leader && *rest != at).collect();
            network.part(&[leader, at], &rest);
            "the leader of etcd with a server, and the others"
        }
        8 => {
            network.part(&[others[0]], &[leader]);
            "the leader of etcd and one of the others, which reach the third"
        }
        9 => {
            for (one, its) in SERVERS.iter().zip(ETCD) {
                let further: Vec<usize> = ETCD.into_iter().filter(|at| *at != its).collect();
                network.part(&[*one], &further);
            }
            network.part(&[leader], &others);
            "each server reaches one process of etcd, and the leader reaches no other"
        }
        10 => {
            network.part(&[leader], &others);
            replicas.kill(server);
            "the leader of etcd and the others, and a server is killed"
        }
        _ => {
            network.part(&[node], &SERVERS);
            network.part(&[at], &ETCD);
            "a server and etcd, the other servers and one of etcd"
        }
    };
    tokio::time::sleep(Duration::from_millis(random.u64(300..5_000))).await;
    network.heal();
    what
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_have_a_serial_order_whatever_is_cut_off() {
    if !etcd::is_installed() {
        return;
    }
    let Some(network) = Network::create(6) else { return };
    let (of_etcd, of_servers) = (ETCD.map(|at| network.place(at)), SERVERS.map(|at| network.place(at)));
    let variables = [("LOOKALIKE_SERVER__OPEN", "true")];
    let mut replicas = Replicas::start_at(&of_etcd, &of_servers, &variables, BINARY.as_ref()).await;
    judge(&mut replicas, REST_MS, async |replicas: &mut Replicas, random: &mut fastrand::Rng| {
        cut_something(&network, replicas, random).await
    })
    .await;
}
