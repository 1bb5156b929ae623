//! Who is let in, who takes a seat, and who makes room, by a clock that the tests advance.

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

fn is_there(peers: &Peers, admitted: &Admitted) -> bool {
    peers.table().entries.contains_key(&admitted.peer.number)
}

#[test]
fn the_address_with_most_connections_makes_room_and_requests_never_do() {
    let peers = Arc::new(Peers::new(limits()));
    let lone = peers.admit(address(1)).unwrap();
    let crowd: Vec<Admitted> = (0..3).map(|_| peers.admit(address(2)).unwrap()).collect();
    assert!(crowd[0].peer.begins_request());
    let late = peers.admit(address(3)).unwrap();
    assert!(is_there(&peers, &lone), "the longest silent one has an address of its own");
    assert!(is_there(&peers, &crowd[0]) && !is_there(&peers, &crowd[1]) && is_there(&peers, &crowd[2]));
    assert!(!crowd[1].peer.begins_request(), "what was ended begins nothing");
    for admitted in [&lone, &crowd[2], &late] {
        assert!(admitted.peer.begins_request());
    }
    assert!(peers.admit(address(4)).is_none(), "all are at work");
    late.peer.ends_request();
    assert!(peers.admit(address(4)).is_some());
    assert!(!is_there(&peers, &late));
}

fn asks(admitted: &Admitted) -> bool {
    admitted.peer.begins_request() && admitted.takes_seat(true)
}

#[test]
fn who_came_a_moment_ago_has_the_time_to_ask_and_who_never_asked_goes_first() {
    let peers = Arc::new(Peers::new(EdgeLimits { header: Duration::from_secs(9), ..limits() }));
    let asked = peers.admit(address(1)).unwrap();
    assert!(asks(&asked));
    asked.peer.ends_request();
    let silent: Vec<Admitted> = (0..3).map(|_| peers.admit(address(1)).unwrap()).collect();
    assert!(silent.iter().all(|silent| is_there(&peers, silent)), "one stands beyond the three places");
    (0..=STANDING).for_each(|_| peers.tick());
    assert!(is_there(&peers, &asked) && !is_there(&peers, &silent[0]) && is_there(&peers, &silent[1]));
    let _other = peers.admit(address(1)).unwrap();
    assert!(is_there(&peers, &asked) && !is_there(&peers, &silent[1]) && is_there(&peers, &silent[2]));
}

#[test]
fn no_more_of_an_address_are_at_work_than_it_has_places() {
    let peers = Arc::new(Peers::new(EdgeLimits { connections: 100, ..limits() }));
    let all: Vec<Admitted> = (0..5).map(|_| peers.admit(address(1)).unwrap()).collect();
    assert!(all[..3].iter().all(asks));
    assert!(!asks(&all[3]), "all three are at work");
    all[1].peer.ends_request();
    assert!(asks(&all[4]) && !is_there(&peers, &all[1]), "the idle one makes room");
    drop(all);
    assert!(peers.table().entries.is_empty() && peers.table().addresses.is_empty());
}

#[test]
fn a_request_that_is_there_is_heard_before_one_whose_body_is_not() {
    let peers = Arc::new(Peers::new(EdgeLimits { connections: 100, ..limits() }));
    let all: Vec<Admitted> = (0..5).map(|_| peers.admit(address(1)).unwrap()).collect();
    assert!(all[..3].iter().all(asks));
    all[..2].iter().for_each(|admitted| admitted.peer.awaits_body());
    assert!(!asks(&all[3]), "their bodies may yet come");
    peers.tick();
    let other = peers.admit(address(1)).unwrap();
    assert!(other.peer.begins_request() && !other.takes_seat(false), "its own body is not there either");
    assert!(asks(&all[4]) && !is_there(&peers, &all[0]) && is_there(&peers, &all[1]));
}

#[test]
fn a_body_that_drips_makes_room_and_one_that_flows_does_not() {
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
            admitted.peer.has_body(bytes);
            admitted.peer.awaits_body();
        }
        peers.tick();
    }
    assert!(peers.admit(address(5)).is_some());
    assert!(!is_there(&peers, &both[0]) && is_there(&peers, &both[1]));
    assert!(peers.admit(address(6)).is_some(), "the one before is gone again");
}

#[test]
fn places_are_given_back() {
    let peers = Arc::new(Peers::new(limits()));
    for round in 0..20 {
        let admitted: Vec<_> = (0..4).map(|i| peers.admit(address(i + round)).unwrap()).collect();
        drop(admitted);
    }
    assert!(peers.table().entries.is_empty() && peers.table().addresses.is_empty());
}

#[test]
fn the_silent_the_slow_and_the_idle_end_and_who_works_does_not() {
    let peers = Arc::new(Peers::new(limits()));
    let [silent, dripping, idle, working] = [1, 2, 3, 4].map(|last| peers.admit(address(last)).unwrap());
    dripping.peer.received();
    assert!(asks(&idle) && asks(&working));
    idle.peer.ends_request();
    for _ in 0..=5 {
        dripping.peer.received();
        peers.tick();
    }
    let there = [&silent, &dripping, &idle, &working].map(|admitted| is_there(&peers, admitted));
    assert_eq!(there, [false, false, true, true]);
    (0..=8).for_each(|_| peers.tick());
    let there = [&idle, &working].map(|admitted| is_there(&peers, admitted));
    assert_eq!(there, [false, true]);
}

#[test]
fn who_does_not_read_its_answer_ends() {
    let peers = Arc::new(Peers::new(limits()));
    let [stuck, slow, fast] = [1, 2, 3].map(|last| peers.admit(address(last)).unwrap());
    for peer in [&stuck, &slow, &fast] {
        assert!(peer.peer.begins_request());
        peer.peer.took(100_000, true);
    }
    for _ in 0..12 {
        slow.peer.took(10, true);
        fast.peer.took(1_024, true);
        peers.tick();
    }
    let there = [&stuck, &slow, &fast].map(|admitted| is_there(&peers, admitted));
    assert_eq!(there, [false, false, true]);
}
