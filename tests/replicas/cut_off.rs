//! The histories of `histories` while parts of the network are cut off from each other, in one direction or
//! in both. The store and each server are in a network namespace of their own; the clients reach all.

use std::time::Duration;

use super::histories::judge;
use super::moto::Moto;
use super::network::Network;
use super::server::BINARY;
use super::servers::{Place, Replicas, bucket};

/// The store in the network, and the servers.
const STORE: usize = 0;
const SERVERS: [usize; 3] = [1, 2, 3];
/// The operations of a client are spread over the time for which something is cut off.
const REST_MS: u64 = 500;

/// Cuts something, waits for longer than an append is tried or not as long, and mends it. Returns what it
/// was.
async fn cut_something(
    network: &Network,
    replicas: &mut Replicas,
    random: &mut fastrand::Rng,
) -> &'static str {
    tokio::time::sleep(Duration::from_millis(random.u64(50..400))).await;
    let server = random.usize(0..3);
    let (at, next) = (SERVERS[server], SERVERS[(server + 1) % 3]);
    let what = match random.u8(0..8) {
        0 => {
            network.part(&[at], &[STORE]);
            "a server and the store"
        }
        1 => {
            network.cut(STORE, at);
            "a server receives nothing from the store"
        }
        2 => {
            network.cut(at, STORE);
            "the store receives nothing from a server"
        }
        3 => {
            network.part(&SERVERS, &[STORE]);
            "all servers and the store"
        }
        4 => {
            SERVERS.iter().for_each(|at| network.cut(STORE, *at));
            "all servers receive nothing from the store"
        }
        5 => {
            SERVERS.iter().zip(1..).for_each(|(at, rest)| network.part(&[*at], &SERVERS[rest..]));
            "all servers from each other"
        }
        6 => {
            network.part(&[at], &[STORE, next]);
            network.cut(STORE, next);
            "a server and the store and the next one, which receives nothing from the store"
        }
        _ => {
            network.part(&[at], &[STORE]);
            replicas.kill((server + 1) % 3);
            "a server and the store, and the next one is killed"
        }
    };
    tokio::time::sleep(Duration::from_millis(random.u64(300..7_000))).await;
    network.heal();
    what
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_have_a_serial_order_whatever_is_cut_off() {
    let Some(network) = Network::create(4) else { return };
    let store = network.place(STORE);
    let Some(moto) = Moto::start_in_order_at(&store.host, |server| store.inside(server)) else { return };
    let places: Vec<Place> = SERVERS.iter().map(|at| network.place(*at)).collect();
    let of_bucket = bucket(&moto);
    let mut variables: Vec<_> = of_bucket.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.extend([("LOOKALIKE_SERVER__OPEN", "true"), ("AWS_ALLOW_HTTP", "true")]);
    let mut replicas = Replicas::start_at(&places, &variables, BINARY.as_ref()).await;
    judge(&mut replicas, REST_MS, async |replicas: &mut Replicas, random: &mut fastrand::Rng| {
        cut_something(&network, replicas, random).await
    })
    .await;
}
