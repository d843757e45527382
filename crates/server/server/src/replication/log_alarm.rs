//! Wakes the thread of a stream when the log grows, while it waits for its socket.
//!
//! ```text
//!   thread of the stream:    set --> look at the log --> poll(socket, pipe) --> reads the pipe, sends
//!   thread that flushes:                    the log has grown; set? --> writes a byte --^
//! ```
//! An alarm that has rung rests until it is set again: a log that grows fast wakes nobody who is awake.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_engine::LogBell;
use seawall_replication::Sender;

use crate::socket::Socket;

/// Between two looks at a log that has not come to the position.
const LOOK: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug)]
pub(super) struct LogAlarm {
    bell: Arc<Bell>,
    pipe: UnixStream,
}

#[derive(Debug)]
struct Bell {
    /// The thread of the stream sleeps, or is about to.
    is_set: AtomicBool,
    pipe: UnixStream,
}

impl LogBell for Bell {
    fn ring(&self) {
        if self.is_set.swap(false, Ordering::SeqCst) {
            // A pipe that is full wakes as well, and one that nobody reads belongs to a stream that ends.
            (&self.pipe).write(&[1]).unwrap_or_default();
        }
    }
}

impl LogAlarm {
    /// Of the log that `sender` sends.
    pub(super) fn start(sender: &mut Sender) -> io::Result<LogAlarm> {
        let (pipe, bell) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let bell = Arc::new(Bell { is_set: AtomicBool::new(false), pipe: bell });
        sender.set_bell(Arc::<Bell>::clone(&bell));
        Ok(LogAlarm { bell, pipe })
    }

    /// Sleeps until the socket has input, or `sender` has log to send, at most for `limit`.
    pub(super) fn wait(&self, socket: &Socket, sender: &Sender, limit: Duration) -> io::Result<()> {
        self.bell.is_set.store(true, Ordering::SeqCst);
        // After it was set: what becomes durable from here on rings.
        match sender.has_more() {
            Some(true) => {}
            Some(false) => socket.wait_readable_or(&self.pipe, limit)?,
            None => socket.wait_readable_or(&self.pipe, limit.min(LOOK))?,
        }
        self.bell.is_set.store(false, Ordering::SeqCst);
        // Each time: a bell that rang late has left a byte for the wait that follows. One that rings now makes the next wait a short one.
        let mut bytes = [0; 64];
        match (&self.pipe).read(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_engine::{Database, Options};
    use seawall_io::{Clock, SystemClock};
    use seawall_replication::Step;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_commit_ends_the_wait_of_a_stream_that_has_sent_everything() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), Options::default()).unwrap();
        let table = database.create_table("t").unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let socket = Socket::unix(ours).unwrap();
        let mut sender = Sender::begin(&database, database.log().flushed(), None).unwrap();
        let alarm = LogAlarm::start(&mut sender).unwrap();
        let mut sent = Vec::new();
        for key in 0..1000_u32 {
            let began = SystemClock.monotonic();
            std::thread::scope(|scope| {
                scope.spawn(|| database.put(&table, key.to_be_bytes(), b"v").unwrap());
                while sender.next(&mut sent, 0).unwrap() == Step::Idle {
                    alarm.wait(&socket, &sender, LONG).unwrap();
                }
            });
            assert!(
                SystemClock.monotonic().saturating_sub(began) < LONG / 2,
                "the commit has not ended the wait"
            );
        }
        // Nothing comes any more: the end is not waited for either.
        let began = SystemClock.monotonic();
        while sender.next(&mut sent, 0).unwrap() != Step::Idle {}
        alarm.wait(&socket, &sender, Duration::from_millis(1)).unwrap();
        assert!(SystemClock.monotonic().saturating_sub(began) < LONG / 2);
        // A bell that rings when its wait is over shortens one wait, and no more.
        (&alarm.bell.pipe).write_all(&[1]).unwrap();
        alarm.wait(&socket, &sender, LONG).unwrap();
        let began = SystemClock.monotonic();
        let short = Duration::from_millis(50);
        alarm.wait(&socket, &sender, short).unwrap();
        assert!(SystemClock.monotonic().saturating_sub(began) >= short, "the stream does not sleep");
        database.close().unwrap();
    }
}
