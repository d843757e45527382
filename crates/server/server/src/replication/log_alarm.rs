//! Wakes the thread of a stream when the log grows, while it waits for its socket.
//!
//! ```text
//!   thread of the stream:  set: log, position --> poll(socket, pipe) -----> reads the pipe, sends
//!   thread of the alarm:        wait for the log there --> writes a byte ----^
//! ```
//! An alarm that has rung rests until it is set again: a log that grows fast wakes nobody who is awake.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use seawall_engine::LogWatch;
use seawall_types::Lsn;

use crate::socket::Socket;

/// Between two looks whether the alarm is to end.
const SLICE: Duration = Duration::from_secs(1);
/// Between two looks at a log that does not reach the position.
const LOOK: Duration = Duration::from_millis(10);

/// See the module. Dropped, it ends its thread.
pub(super) struct LogAlarm {
    shared: Arc<Shared>,
    pipe: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    is_set: Condvar,
}

#[derive(Default)]
struct State {
    /// What is waited for.
    awaited: Option<(LogWatch, Lsn)>,
    is_to_end: bool,
}

impl LogAlarm {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<LogAlarm> {
        let (pipe, bell) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        let watching = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("log-alarm".to_owned()).spawn(move || watching.watch(&bell))?;
        Ok(LogAlarm { shared, pipe, thread: Some(thread) })
    }

    /// Sleeps until the socket has input, or there is log at `position`, at most for `limit`.
    pub(super) fn wait(
        &self,
        socket: &Socket,
        watch: Option<LogWatch>,
        position: Lsn,
        limit: Duration,
    ) -> io::Result<()> {
        let limit = if watch.is_some() { limit } else { limit.min(LOOK) };
        if let Some(watch) = watch {
            let mut state = self.shared.state.lock();
            // The thread waits for that already.
            if state.awaited.as_ref().is_none_or(|(_, before)| *before != position) {
                state.awaited = Some((watch, position));
                self.shared.is_set.notify_one();
            }
        }
        socket.wait_readable_or(&self.pipe, limit)?;
        let mut bytes = [0; 64];
        match (&self.pipe).read(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for LogAlarm {
    fn drop(&mut self) {
        let watch = {
            let mut state = self.shared.state.lock();
            state.is_to_end = true;
            state.awaited.take()
        };
        self.shared.is_set.notify_one();
        if let Some((watch, _)) = watch {
            watch.wake();
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a log alarm has panicked");
        }
    }
}

impl Shared {
    fn watch(&self, mut bell: &UnixStream) {
        while let Some((watch, position)) = self.awaited() {
            if !watch.wait_beyond(position, SLICE) {
                continue;
            }
            {
                let mut state = self.state.lock();
                if state.awaited.as_ref().is_some_and(|(_, awaited)| *awaited == position) {
                    state.awaited = None;
                }
            }
            // A pipe that is full wakes as well.
            match bell.write(&[1]) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }

    /// Sleeps until the alarm is set; `None`: it ends.
    fn awaited(&self) -> Option<(LogWatch, Lsn)> {
        let mut state = self.state.lock();
        loop {
            if state.is_to_end {
                return None;
            }
            if let Some(awaited) = &state.awaited {
                return Some(awaited.clone());
            }
            self.is_set.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_engine::{Database, Options};
    use seawall_io::{Clock, SystemClock};

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_commit_ends_the_wait_of_a_stream_that_has_sent_everything() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), Options::default()).unwrap();
        let table = database.create_table("t").unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let socket = Socket::unix(ours).unwrap();
        let stream = database.log().stream(database.log().flushed()).unwrap();
        let alarm = LogAlarm::start().unwrap();
        for key in 0..100_u32 {
            let position = database.log().flushed();
            let began = SystemClock.monotonic();
            std::thread::scope(|scope| {
                scope.spawn(|| database.put(&table, key.to_be_bytes(), b"v").unwrap());
                while database.log().flushed() == position {
                    alarm.wait(&socket, Some(stream.watch()), position, LONG).unwrap();
                }
            });
            assert!(
                SystemClock.monotonic().saturating_sub(began) < LONG / 2,
                "the commit has not ended the wait"
            );
        }
        // Nothing comes any more: the end is not waited for either.
        let began = SystemClock.monotonic();
        alarm
            .wait(&socket, Some(stream.watch()), database.log().flushed(), Duration::from_millis(1))
            .unwrap();
        drop(alarm);
        assert!(SystemClock.monotonic().saturating_sub(began) < LONG / 2);
        database.close().unwrap();
    }
}
