//! A network of namespaces, one for each process, whose parts can be cut off from each other.
//!
//! Each namespace has one interface at a bridge, which is in a namespace of its own, and so is this process.
//! A way from one process to another is cut by an entry in the neighbour table of the sender with a hardware
//! address that nobody has: packets are lost without a word, on open connections too. Needs root and
//! `iproute2`; without them a test prints `SKIPPED` with the reason.

use std::process::Command;

use super::servers::Place;
use super::skipped::skipped;

/// An address that no interface has.
const NOBODY: &str = "02:00:00:00:00:fe";
const INTERFACE: &str = "eth0";

/// A network, which is removed when it is dropped. The processes in it must have ended.
pub struct Network {
    /// Distinguishes the networks of this machine.
    name: String,
    /// The first three bytes of all addresses.
    prefix: String,
    size: usize,
}

impl Network {
    /// Creates a network with `size` places; `None` if that is not possible here.
    pub fn create(size: usize) -> Option<Network> {
        let name = format!("lt{:x}", std::process::id());
        let prefix = format!("10.213.{}", fastrand::u8(1..255));
        let network = Network { name, prefix, size };
        match network.build() {
            Ok(()) => Some(network),
            Err(reason) => {
                skipped(&format!("no network of namespaces can be made here: {reason}"));
                None
            }
        }
    }

    fn build(&self) -> Result<(), String> {
        let hub = self.namespace("hub");
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "bridge", "up"])?;
        self.plug("own", None, 254)?;
        (0..self.size).try_for_each(|at| {
            let namespace = self.namespace(&at.to_string());
            ip(&["netns", "add", &namespace])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
            self.plug(&at.to_string(), Some(&namespace), at + 1)
        })
    }

    /// Connects a namespace, or this one, with the bridge.
    fn plug(&self, name: &str, namespace: Option<&str>, number: usize) -> Result<(), String> {
        let (hub, near, far) = (self.namespace("hub"), self.namespace(name), format!("p{name}"));
        ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &hub])?;
        ip(&["-n", &hub, "link", "set", &far, "master", "bridge", "up"])?;
        let (mut start, mut interface) = (Vec::new(), near.as_str());
        if let Some(namespace) = namespace {
            ip(&["link", "set", &near, "netns", namespace, "name", INTERFACE])?;
            (start, interface) = (vec!["-n", namespace], INTERFACE);
        }
        let address = format!("{}.{number}/24", self.prefix);
        ip(&[&start[..], &["addr", "add", &address, "dev", interface]].concat())?;
        ip(&[&start[..], &["link", "set", interface, "up"]].concat())
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Where a process of this number runs.
    pub fn place(&self, at: usize) -> Place {
        Place { host: self.host(at), namespace: Some(self.namespace(&at.to_string())) }
    }

    fn host(&self, at: usize) -> String {
        format!("{}.{}", self.prefix, at + 1)
    }

    /// Loses all packets from one process to another.
    pub fn cut(&self, from: usize, to: usize) {
        self.neighbour(from, &["replace", &self.host(to), "lladdr", NOBODY, "nud", "permanent"]);
    }

    /// Loses all packets between the processes of two groups.
    pub fn part(&self, one: &[usize], other: &[usize]) {
        for (&a, &b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
            self.cut(a, b);
            self.cut(b, a);
        }
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        for (from, to) in (0..self.size).flat_map(|from| (0..self.size).map(move |to| (from, to))) {
            let namespace = self.namespace(&from.to_string());
            let shown = Command::new("ip").args(["-n", &namespace, "neigh", "show", &self.host(to)]).output();
            if String::from_utf8_lossy(&shown.unwrap().stdout).contains(NOBODY) {
                self.neighbour(from, &["del", &self.host(to)]);
            }
        }
    }

    fn neighbour(&self, from: usize, change: &[&str]) {
        let namespace = self.namespace(&from.to_string());
        ip(&[&["-n", &namespace, "neigh"], change, &["dev", INTERFACE]].concat()).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let names = (0..self.size).map(|at| at.to_string()).chain(["hub".to_owned()]);
        names.for_each(|name| drop(ip(&["netns", "del", &self.namespace(&name)])));
        // Its other end was in the namespace of the bridge; so that it may be gone already.
        let _ = ip(&["link", "del", &self.namespace("own")]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    match Command::new("ip").args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            Err(format!("ip {}: {}", arguments.join(" "), error.trim()))
        }
        Err(error) => Err(format!("ip: {error}")),
    }
}
