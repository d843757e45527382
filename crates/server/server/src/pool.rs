//! Threads for sessions that are inside a statement.
//!
//! A statement may wait for a row whose holder's commit is another statement. So a statement never waits for a thread: there are as many as
//! connections, made when they are needed, and given up when they have rested for a while.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// A thread without work ends after this.
const REST_MAX: Duration = Duration::from_secs(10);
/// Of which only what is used takes memory. Statements have a limit of depth that fits into it several times: how much a level takes differs
/// from build to build, and a stack that overflows ends the server.
const STACK_BYTES: usize = 32 << 20;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    resting: usize,
    threads: usize,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    threads_max: usize,
}

/// The threads.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pool of {} threads", self.threads())
    }
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Pool {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), threads_max };
        Pool { shared: Arc::new(shared) }
    }

    pub(crate) fn threads(&self) -> usize {
        self.shared.state.lock().threads
    }

    /// Runs `job` on a thread. `Err`: the system gives no thread, or `job` has panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            // Whoever waits may have been dropped.
            if let Ok(value) = catch_unwind(AssertUnwindSafe(job)) {
                sender.send(value).unwrap_or_default();
            }
        };
        self.enter(Box::new(job))?;
        receiver.await.map_err(|_| io::Error::other("a thread of the pool has panicked"))
    }

    fn enter(&self, job: Job) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        if state.resting >= state.jobs.len() {
            self.shared.work.notify_one();
            return Ok(());
        }
        if state.threads == self.shared.threads_max {
            return Ok(());
        }
        state.threads += 1;
        let shared = Arc::clone(&self.shared);
        let made = std::thread::Builder::new()
            .name("session".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work_on());
        if let Err(error) = made {
            state.threads -= 1;
            state.jobs.pop_back();
            return Err(error);
        }
        Ok(())
    }
}

impl Shared {
    fn work_on(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            state.resting += 1;
            let waited = self.work.wait_for(&mut state, REST_MAX);
            state.resting -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    /// With fewer threads than jobs none of them would end.
    #[test]
    fn all_jobs_run_at_a_time() {
        const JOBS: usize = 50;
        let (pool, barrier) = (Pool::new(JOBS), Arc::new(Barrier::new(JOBS)));
        runtime().block_on(async {
            let jobs: Vec<_> = (0..JOBS)
                .map(|_| {
                    let (pool, barrier) = (pool.clone(), Arc::clone(&barrier));
                    tokio::spawn(async move { pool.run(move || barrier.wait().is_leader()).await })
                })
                .collect();
            for job in jobs {
                job.await.unwrap().unwrap();
            }
        });
        assert_eq!(pool.threads(), JOBS);
    }

    #[test]
    fn a_panic_is_an_error_and_takes_no_thread_away() {
        let pool = Pool::new(1);
        runtime().block_on(async {
            let panicked: io::Result<()> = pool.run(|| panic!("of a test")).await;
            panicked.unwrap_err();
            assert_eq!(pool.run(|| 7).await.unwrap(), 7);
        });
        assert_eq!(pool.threads(), 1);
    }
}
