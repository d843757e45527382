//! TCP ports for servers that cannot choose one themselves.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;

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
        Port::reserve_in(&std::env::temp_dir())
    }

    /// With the files in `directory`. One that cannot be opened may be that of another user.
    fn reserve_in(directory: &Path) -> Port {
        let mut refused = None;
        let start = u16::try_from(std::process::id() % u32::from(COUNT)).expect("a remainder of 8,000");
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            let path = directory.join(format!("seawall-test-port-{number}"));
            let lock = match File::options().create(true).truncate(false).write(true).open(&path) {
                Ok(lock) => lock,
                Err(error) => {
                    refused = Some(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Port { number, _lock: lock };
            }
        }
        panic!("no port from {FIRST} to {} is free; refused last: {refused:?}", FIRST + COUNT);
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

    #[test]
    fn a_file_that_cannot_be_opened_is_passed_over() {
        let directory = std::env::temp_dir().join(format!("seawall-test-ports-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let first = Port::reserve_in(&directory).number;
        // Of all users, root included, a directory in its place lets nobody open it.
        std::fs::remove_dir_all(&directory).unwrap();
        std::fs::create_dir_all(directory.join(format!("seawall-test-port-{first}"))).unwrap();
        let second = Port::reserve_in(&directory).number;
        std::fs::remove_dir_all(&directory).unwrap();
        assert_ne!(first, second);
    }
}
