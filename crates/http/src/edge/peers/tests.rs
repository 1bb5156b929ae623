//! Which connections are admitted, get a slot, and are closed. The tests advance the clock.

use super::*;

fn limits() -> EdgeLimits {
    EdgeLimits {
        connections: 4,
        connections_per_address: 3,
        header: Duration::from_secs(1),
        idle: Duration::from_secs(2),
        body: Duration::from_secs(1),
        bytes_per_second: 1_024,
        stall: Duration::from_secs(1),
        drain: Duration::from_secs(1),
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn is_open(peers: &Peers, admitted: &Admitted) -> bool {
    peers.table().entries.contains_key(&admitted.peer.number)
}

#[test]
fn at_the_limit_the_address_with_most_connections_loses_one_that_has_no_request() {
    let peers = Arc::new(Peers::new(limits()));
    let single = peers.admit(address(1)).unwrap();
    let crowd: Vec<Admitted> = (0..3).map(|_| peers.admit(address(2)).unwrap()).collect();
    assert!(crowd[0].peer.begins_request());
    let late = peers.admit(address(3)).unwrap();
    assert!(is_open(&peers, &single), "the oldest silent connection is alone at its address");
    assert!(is_open(&peers, &crowd[0]) && !is_open(&peers, &crowd[1]) && is_open(&peers, &crowd[2]));
    assert!(!crowd[1].peer.begins_request(), "a closed connection begins no request");
    for admitted in [&single, &crowd[2], &late] {
        assert!(admitted.peer.begins_request());
    }
    assert!(peers.admit(address(4)).is_none(), "all have running requests");
    late.peer.ends_request();
    assert!(peers.admit(address(4)).is_some());
    assert!(!is_open(&peers, &late));
}

fn begins_whole(admitted: &Admitted) -> bool {
    admitted.peer.begins_request() && admitted.takes_slot(true)
}

#[test]
fn a_new_connection_may_exceed_the_limit_of_its_address_for_a_second() {
    let peers = Arc::new(Peers::new(EdgeLimits { header: Duration::from_secs(9), ..limits() }));
    let idle = peers.admit(address(1)).unwrap();
    assert!(begins_whole(&idle));
    idle.peer.ends_request();
    let silent: Vec<Admitted> = (0..3).map(|_| peers.admit(address(1)).unwrap()).collect();
    assert!(silent.iter().all(|silent| is_open(&peers, silent)), "one exceeds the limit of three");
    (0..=PENDING_TICKS).for_each(|_| peers.tick());
    assert!(is_open(&peers, &idle) && !is_open(&peers, &silent[0]) && is_open(&peers, &silent[1]));
    let _other = peers.admit(address(1)).unwrap();
    assert!(is_open(&peers, &idle) && !is_open(&peers, &silent[1]) && is_open(&peers, &silent[2]));
}

#[test]
fn an_address_has_at_most_its_limit_of_connections_with_requests() {
    let peers = Arc::new(Peers::new(EdgeLimits { connections: 100, ..limits() }));
    let all: Vec<Admitted> = (0..5).map(|_| peers.admit(address(1)).unwrap()).collect();
    assert!(all[..3].iter().all(begins_whole));
    assert!(!begins_whole(&all[3]), "all three have running requests");
    all[1].peer.ends_request();
    assert!(begins_whole(&all[4]) && !is_open(&peers, &all[1]), "the idle one is closed");
    drop(all);
    assert!(peers.table().entries.is_empty() && peers.table().addresses.is_empty());
}

#[test]
fn a_complete_request_displaces_one_that_waits_for_its_body() {
    let peers = Arc::new(Peers::new(EdgeLimits { connections: 100, ..limits() }));
    let all: Vec<Admitted> = (0..5).map(|_| peers.admit(address(1)).unwrap()).collect();
    assert!(all[..3].iter().all(begins_whole));
    all[..2].iter().for_each(|admitted| admitted.peer.awaits_body());
    assert!(!begins_whole(&all[3]), "their bodies may still arrive");
    peers.tick();
    let other = peers.admit(address(1)).unwrap();
    assert!(other.peer.begins_request() && !other.takes_slot(false), "it waits for its body, too");
    assert!(begins_whole(&all[4]) && !is_open(&peers, &all[0]) && is_open(&peers, &all[1]));
}

#[test]
fn at_the_limit_a_connection_with_a_slow_body_is_closed_and_a_fast_one_stays() {
    let peers = Arc::new(Peers::new(limits()));
    let both = [1, 2].map(|last| peers.admit(address(last)).unwrap());
    both.iter().for_each(|admitted| assert!(admitted.peer.begins_request()));
    let _others = [3, 4].map(|last| {
        let other = peers.admit(address(last)).unwrap();
        assert!(other.peer.begins_request());
        other
    });
    for _ in 0..8 {
        for (admitted, bytes) in both.iter().zip([1, 5_000]) {
            admitted.peer.awaits_body();
            admitted.peer.receives_body(bytes);
            admitted.peer.awaits_body();
        }
        peers.tick();
    }
    assert!(peers.admit(address(5)).is_some());
    assert!(!is_open(&peers, &both[0]) && is_open(&peers, &both[1]));
    assert!(peers.admit(address(6)).is_some(), "the previous connection was dropped");
}

#[test]
fn dropped_connections_leave_the_table() {
    let peers = Arc::new(Peers::new(limits()));
    for round in 0..20 {
        let admitted: Vec<_> = (0..4).map(|i| peers.admit(address(i + round)).unwrap()).collect();
        drop(admitted);
    }
    assert!(peers.table().entries.is_empty() && peers.table().addresses.is_empty());
}

#[test]
fn silent_slow_and_idle_connections_are_closed_and_working_ones_stay() {
    let peers = Arc::new(Peers::new(limits()));
    let [silent, dripping, idle, working] = [1, 2, 3, 4].map(|last| peers.admit(address(last)).unwrap());
    dripping.peer.received();
    assert!(begins_whole(&idle) && begins_whole(&working));
    idle.peer.ends_request();
    for _ in 0..=5 {
        dripping.peer.received();
        peers.tick();
    }
    let open = [&silent, &dripping, &idle, &working].map(|admitted| is_open(&peers, admitted));
    assert_eq!(open, [false, false, true, true]);
    (0..=8).for_each(|_| peers.tick());
    let open = [&idle, &working].map(|admitted| is_open(&peers, admitted));
    assert_eq!(open, [false, true]);
}

#[test]
fn a_connection_that_does_not_read_its_answer_is_closed() {
    let peers = Arc::new(Peers::new(limits()));
    let [stuck, slow, fast] = [1, 2, 3].map(|last| peers.admit(address(last)).unwrap());
    for peer in [&stuck, &slow, &fast] {
        assert!(peer.peer.begins_request());
        peer.peer.record_write(100_000, true);
    }
    for _ in 0..12 {
        slow.peer.record_write(10, true);
        fast.peer.record_write(1_024, true);
        peers.tick();
    }
    let open = [&stuck, &slow, &fast].map(|admitted| is_open(&peers, admitted));
    assert_eq!(open, [false, false, true]);
}
