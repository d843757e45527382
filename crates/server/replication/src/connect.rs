//! The upstream among several servers: the first one that lets this one in, in the order of the settings.

use crate::client::{Client, ClientError, Dial};
use crate::settings::UpstreamSettings;

/// Logs in to a host, beginning with the one at `first`; which one that is.
pub(crate) fn connect(
    settings: &UpstreamSettings,
    dial: &dyn Dial,
    first: usize,
) -> Result<(Client, usize), ClientError> {
    let count = settings.hosts.len();
    let mut refused = ClientError::from(std::io::Error::other("no host is given"));
    for place in (first..first + count).map(|place| place % count) {
        let host = &settings.hosts[place];
        let connected = dial.dial(host).map_err(ClientError::from);
        match connected.and_then(|wire| Client::log_in(wire, settings)) {
            Ok(client) => return Ok((client, place)),
            Err(error) => {
                if count > 1 {
                    tracing::info!(host = %host.name, port = host.port, %error, "this host is not the upstream");
                }
                refused = error;
            }
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read, Write};
    use std::time::Duration;

    use super::*;
    use crate::client::Wire;
    use crate::settings::UpstreamHost;

    /// What a host says at the login.
    struct Says(Cursor<Vec<u8>>);

    impl Read for Says {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Says {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Wire for Says {
        fn set_read_timeout(&self, _limit: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    /// Hosts are named for what they are.
    struct Hosts;

    impl Dial for Hosts {
        fn dial(&self, host: &UpstreamHost) -> io::Result<Box<dyn Wire>> {
            let is_standby = match host.name.as_str() {
                "primary" => "off",
                "standby" => "on",
                _ => return Err(io::ErrorKind::ConnectionRefused.into()),
            };
            let mut said = Vec::new();
            for (kind, body) in [
                (b'R', vec![0; 4]),
                (b'S', format!("in_hot_standby\0{is_standby}\0").into_bytes()),
                (b'Z', b"I".to_vec()),
            ] {
                said.push(kind);
                said.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
                said.extend_from_slice(&body);
            }
            Ok(Box::new(Says(Cursor::new(said))))
        }
    }

    fn place(settings: &str, first: usize) -> Result<usize, ClientError> {
        connect(&settings.parse().unwrap(), &Hosts, first).map(|(_, place)| place)
    }

    #[test]
    fn the_first_host_that_is_what_is_asked_for_is_connected_to() {
        let any = "host=gone,standby,primary target_session_attrs=any";
        assert_eq!(place(any, 0).unwrap(), 1);
        assert_eq!(place(any, 2).unwrap(), 2);
        // Around, and beyond.
        assert_eq!(place(any, 3).unwrap(), 1);
        assert_eq!(place("host=gone,standby,primary", 0).unwrap(), 2);
        assert_eq!(place("host=standby", 0).unwrap(), 0);
        let refused = place("host=gone,standby", 0);
        assert!(matches!(refused, Err(ClientError::NotPrimary)), "{refused:?}");
        let refused = place("host=gone", 7);
        assert!(matches!(refused, Err(ClientError::Io(_))), "{refused:?}");
    }
}
