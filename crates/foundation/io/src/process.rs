//! What a program says to the operating system about its own process. A library decides none of this for the program that it is
//! part of: these are for `main`.

use std::io;

/// Keeps the memory of this process, and with it keys and rows in clear, out of core files, and its environment from being read by
/// other processes of the same user. Debuggers of that user are kept out, too. Does nothing where the system has no such call.
///
/// # Errors
/// What the system says.
pub fn forbid_core_files() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Lets a write past the limit on the size of files (`ulimit -f`) fail with an error, as on a full disk. The system would end the process
/// otherwise.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call that no safe crate wraps")]
pub fn ignore_file_size_signal() {
    // SAFETY: an ignored signal runs no code. The call cannot fail: the signal exists, and can be ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Not done where only Linux's calls are known.
#[cfg(not(target_os = "linux"))]
pub fn ignore_file_size_signal() {}
