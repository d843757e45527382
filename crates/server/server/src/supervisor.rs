//! What the program that started the server is told, if it wants to know: systemd, with `Type=notify`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Names the socket of whoever wants to know.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Says `state`, such as `READY=1`, as `sd_notify` does. Nobody may be there to hear it.
pub(crate) fn tell(state: &str) {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(name.as_bytes(), state) {
        tracing::debug!(%error, state, "the service manager is not told");
    }
}

fn send(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(name))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_arrives_by_a_path_or_a_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("@{}", path.display());
        let by_name = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        for (socket, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes()),
            (UnixDatagram::bind_addr(&by_name).unwrap(), name.as_bytes()),
        ] {
            send(address, "READY=1").unwrap();
            let mut buffer = [0; 64];
            let count = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"READY=1");
        }
        send(b"/nowhere/notify", "READY=1").unwrap_err();
    }
}
