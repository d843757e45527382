//! TCP ports for servers that cannot choose one themselves.

use std::fs::File;
use std::net::TcpListener;

/// Below the ports that systems give to whoever asks for any: no other program comes by one of these by chance.
const FIRST: u16 = 20_000;
const COUNT: u16 = 8_000;

/// A port of the loopback interface that no other test has until this is dropped.
#[derive(Debug)]
pub struct Port {
    /// Its number.
    pub number: u16,
    /// Locked: tests of all processes agree by these files.
    _lock: File,
}

impl Port {
    /// Reserves a port on which nobody listens.
    ///
    /// # Panics
    /// If there is none, or the directory of temporary files takes no file.
    pub fn reserve() -> Port {
        let start = u16::try_from(std::process::id() % u32::from(COUNT)).expect("a remainder of 8,000");
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            let path = std::env::temp_dir().join(format!("seawall-test-port-{number}"));
            let opened = File::options().create(true).truncate(false).write(true).open(&path);
            let lock = opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Port { number, _lock: lock };
            }
        }
        panic!("no port from {FIRST} to {} is free", FIRST + COUNT);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_is_reserved_once_until_it_is_given_back() {
        let ports: Vec<Port> = (0..20).map(|_| Port::reserve()).collect();
        let numbers: BTreeSet<u16> = ports.iter().map(|port| port.number).collect();
        assert_eq!(numbers.len(), ports.len());
        let path = std::env::temp_dir().join(format!("seawall-test-port-{}", ports[0].number));
        let own = File::options().read(true).open(path);
        assert!(own.unwrap().try_lock().is_err());
    }
}
