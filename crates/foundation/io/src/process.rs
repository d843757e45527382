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

/// Lets the C library give memory that is freed back to the system. By itself it keeps, for each of up to eight heaps a processor, as much as was
/// ever in use there at a time, and up to 64 MiB of that at the end of each: a server whose threads come and go grew for hours.
///
/// For the whole process, so for `main` to call, before other threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a call of the C library that no safe crate wraps")]
pub fn give_back_freed_memory() {
    /// A longer piece is a mapping of its own, and a longer free end of a heap goes back.
    const BYTES: libc::c_int = 1 << 20;
    // SAFETY: both calls set a number. Of an unknown one they return 0, and nothing changes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, BYTES);
    }
}

/// Other C libraries do so by themselves, or cannot.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_freed_memory() {}
