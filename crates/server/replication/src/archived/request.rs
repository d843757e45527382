//! A request to a source that may hang: a thread of its own makes it, and is left behind when the standby ends.
//!
//! ```text
//!   asking thread: recv (looks whether it is over) <--pieces, answer-- request's thread --> repository
//! ```
//! A source is asked nothing more while a request that was left behind is under way: there is one such thread at most, and what it keeps
//! in memory is bounded.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_types::Lsn;

use super::{LogSource, LogSourceError};

/// Takes bytes of the log, of which the first one is at a position.
pub(super) type Put<'p> = dyn FnMut(Lsn, &[u8]) -> ControlFlow<()> + 'p;

/// So much log is made durable at a time.
const PIECE_BYTES: usize = 4 << 20;
/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// Where log is.
pub(super) struct Source {
    log: Arc<dyn LogSource>,
    /// The request that was left behind.
    left: Mutex<Option<JoinHandle<()>>>,
}

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<T> {
    Answer(T),
    Problem(String),
    /// It is not waited for.
    Over,
}

enum Told<T> {
    Piece(Lsn, Vec<u8>),
    Answer(Result<T, LogSourceError>),
}

impl Source {
    pub(super) fn new(log: Arc<dyn LogSource>) -> Source {
        Source { log, left: Mutex::new(None) }
    }

    pub(super) fn name(&self) -> String {
        self.log.name()
    }

    /// Makes the request; `take` gets what it puts, in pieces, and is not called again once it says so. A source that gives nothing for
    /// `patience` is left behind.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&dyn LogSource, &mut Put<'_>) -> Result<T, LogSourceError> + Send + 'static,
        take: &mut Put<'_>,
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Asked<T> {
        let mut left = self.left.lock();
        if left.take_if(|thread| thread.is_finished()).is_none() && left.is_some() {
            return Asked::Problem("it has not answered the last request yet".to_owned());
        }
        let (sender, told) = sync_channel(1);
        let is_enough = Arc::new(AtomicBool::new(false));
        let run = {
            let (log, is_enough) = (Arc::clone(&self.log), Arc::clone(&is_enough));
            move || {
                let answer = request(&*log, &mut |at, bytes| put(&sender, &is_enough, at, bytes));
                // A standby that has ended does not hear it.
                sender.send(Told::Answer(answer)).unwrap_or_default();
            }
        };
        let thread = match std::thread::Builder::new().name("archive".to_owned()).spawn(run) {
            Ok(thread) => thread,
            Err(error) => return Asked::Problem(format!("the system gives no thread: {error}")),
        };
        let mut silent = Duration::ZERO;
        let asked = loop {
            match told.recv_timeout(LOOK) {
                Ok(Told::Piece(at, bytes)) => {
                    silent = Duration::ZERO;
                    // One may have been on its way when the one before was enough.
                    if !is_enough.load(Ordering::SeqCst) && take(at, &bytes).is_break() {
                        is_enough.store(true, Ordering::SeqCst);
                    }
                }
                Ok(Told::Answer(Ok(answer))) => return Asked::Answer(answer),
                Ok(Told::Answer(Err(LogSourceError(problem)))) => return Asked::Problem(problem),
                Err(RecvTimeoutError::Timeout) => silent += LOOK,
                Err(RecvTimeoutError::Disconnected) => {
                    return Asked::Problem("the request has panicked".to_owned());
                }
            }
            if is_over() {
                break Asked::Over;
            }
            if silent >= patience {
                break Asked::Problem(format!("it has given nothing for {silent:?}"));
            }
        };
        *left = Some(thread);
        asked
    }
}

/// Hands bytes over; the request is to end when they are not wanted any more.
fn put<T>(
    sender: &SyncSender<Told<T>>,
    is_enough: &AtomicBool,
    mut at: Lsn,
    bytes: &[u8],
) -> ControlFlow<()> {
    for piece in bytes.chunks(PIECE_BYTES) {
        if is_enough.load(Ordering::SeqCst) || sender.send(Told::Piece(at, piece.to_vec())).is_err() {
            return ControlFlow::Break(());
        }
        at = Lsn::new(at.get() + piece.len() as u64);
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use seawall_engine::TimelineHistory;
    use seawall_types::{DatabaseId, TimelineId};

    use super::*;
    use crate::archived::WantedLog;

    const LONG: Duration = Duration::from_secs(3600);

    /// A source that the tests' own requests do not look at.
    struct Nowhere;

    impl LogSource for Nowhere {
        fn name(&self) -> String {
            "nowhere".to_owned()
        }

        fn histories_after(
            &self,
            _database: DatabaseId,
            _timeline: TimelineId,
        ) -> Result<Vec<TimelineHistory>, LogSourceError> {
            Ok(Vec::new())
        }

        fn fetch(&self, _wanted: &WantedLog, _put: &mut Put<'_>) -> Result<(), LogSourceError> {
            Ok(())
        }
    }

    fn source() -> Source {
        Source::new(Arc::new(Nowhere))
    }

    fn takes_nothing(_at: Lsn, _bytes: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A request that is under way until its other end is dropped.
    fn hangs(until: Receiver<()>) -> impl FnOnce(&dyn LogSource, &mut Put<'_>) -> Result<u8, LogSourceError> {
        move |_, put| {
            until.recv().unwrap_err();
            assert!(put(Lsn::new(1), b"nobody hears").is_break());
            Ok(7)
        }
    }

    #[test]
    fn a_source_that_hangs_is_left_behind_and_asked_again_when_it_has_answered() {
        let (source, (hanging, until)) = (source(), channel());
        assert_eq!(source.ask(hangs(until), &mut takes_nothing, LONG, &|| true), Asked::Over);
        let again = source.ask(|_, _| Ok(8), &mut takes_nothing, LONG, &|| false);
        assert_eq!(again, Asked::Problem("it has not answered the last request yet".to_owned()));
        drop(hanging);
        let thread = source.left.lock().take().unwrap();
        thread.join().unwrap();
        assert_eq!(source.ask(|_, _| Ok(8), &mut takes_nothing, LONG, &|| false), Asked::Answer(8));
    }

    #[test]
    fn a_source_that_gives_nothing_for_too_long_is_left_behind() {
        let (source, (hanging, until)) = (source(), channel());
        let asked = source.ask(hangs(until), &mut takes_nothing, LOOK * 2, &|| false);
        assert_eq!(asked, Asked::Problem("it has given nothing for 200ms".to_owned()));
        drop(hanging);
        source.left.lock().take().unwrap().join().unwrap();
    }

    #[test]
    fn pieces_come_in_order_until_they_are_enough() {
        let bytes = vec![3; PIECE_BYTES * 5 + 1];
        let ask = |enough: usize| {
            let mut starts = Vec::new();
            let bytes = bytes.clone();
            let asked = source().ask(
                move |_, put| Ok(put(Lsn::new(10), &bytes)),
                &mut |at, piece| {
                    starts.push((at.get() - 10, piece.len()));
                    if starts.len() == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                },
                LONG,
                &|| false,
            );
            (starts, asked)
        };
        let expected: Vec<_> = (0..5).map(|piece| (piece * PIECE_BYTES as u64, PIECE_BYTES)).collect();
        let (starts, asked) = ask(9);
        assert_eq!(starts[..5], expected);
        assert_eq!(starts[5..], [(PIECE_BYTES as u64 * 5, 1)]);
        assert_eq!(asked, Asked::Answer(ControlFlow::Continue(())));
        let (starts, asked) = ask(2);
        assert_eq!(starts, expected[..2]);
        assert_eq!(asked, Asked::Answer(ControlFlow::Break(())));
    }

    #[test]
    fn problems_are_told() {
        let failed = source().ask::<u8>(
            |_, _| Err(LogSourceError("no".to_owned())),
            &mut takes_nothing,
            LONG,
            &|| false,
        );
        assert_eq!(failed, Asked::Problem("no".to_owned()));
        let panicked = source().ask::<u8>(|_, _| panic!("on purpose"), &mut takes_nothing, LONG, &|| false);
        assert_eq!(panicked, Asked::Problem("the request has panicked".to_owned()));
    }
}
