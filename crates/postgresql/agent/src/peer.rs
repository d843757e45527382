//! Who is at the other end of a socket.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::trust::is_believed;

/// Refuses a process of a user who is neither this one nor root.
///
/// # Errors
/// `PermissionDenied` with the user, or what the system says.
pub(crate) fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let user = user_of(stream)?;
    match is_believed(user)? {
        true => Ok(()),
        false => {
            let problem =
                format!("the process at the other end runs as user {user}, and not as this user or root");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
        }
    }
}

/// The user that the process at the other end ran as when it connected, or began to listen.
#[expect(unsafe_code, reason = "a system call that no safe crate wraps here")]
fn user_of(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).expect("it is a few bytes long");
    // SAFETY: the descriptor is open for as long as `stream` is borrowed; the kernel writes at most `length` bytes to `peer`, which is
    // as long and may hold any bytes, and how many they were to `length`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut peer).cast(),
            &mut length,
        )
    };
    match result {
        0 => Ok(peer.uid),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_same_user_is_believed() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(user_of(&one).unwrap(), rustix::process::geteuid().as_raw());
        check_peer(&one).unwrap();
    }
}
