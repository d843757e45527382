//! How a thread stands back behind others.

/// What is added to the nice value: a thread that works for a user gets nine times the time of one that gives way, where both want one
/// processor, and takes the processor at once when it wakes up.
#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
const STEPS: i32 = 10;

/// Runs `work` on a thread of lower priority, which the threads that `work` starts inherit. A processor that nobody else wants is still used
/// in full. The caller sleeps meanwhile, and keeps its own priority for what others wait for, before and after. Where the system gives no
/// thread, the caller runs `work`.
///
/// Linux only: elsewhere threads have no priority of their own, and the caller runs `work` as it is.
///
/// # Panics
/// If `work` does.
pub fn giving_way<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    #[cfg(all(target_os = "linux", not(feature = "shuttle")))]
    {
        let work = std::sync::Mutex::new(Some(work));
        let take = || work.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        std::thread::scope(|scope| {
            let name = std::thread::current().name().unwrap_or("giving-way").to_owned();
            let started = std::thread::Builder::new().name(name).spawn_scoped(scope, || {
                give_way();
                take().map(|work| work())
            });
            let done = match started {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => take().map(|work| work()),
            };
            done.expect("the work is done once, by one of the two")
        })
    }
    #[cfg(not(all(target_os = "linux", not(feature = "shuttle"))))]
    work()
}

/// Lowers the priority of the calling thread until the thread ends: only root could raise it again. A refusal of the system changes nothing.
#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
fn give_way() {
    let own = rustix::thread::gettid();
    // The system takes the highest value for one that is too high.
    let lowered = rustix::process::getpriority_process(Some(own))
        .and_then(|nice| rustix::process::setpriority_process(Some(own), nice + STEPS));
    if lowered.is_err() {
        // All goes on as before.
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn nice() -> i32 {
        rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap()
    }

    #[test]
    fn work_gives_way_with_the_threads_that_it_starts_and_the_caller_does_not() {
        let before = nice();
        let (own, started) = giving_way(|| (nice(), std::thread::spawn(nice).join().unwrap()));
        assert_eq!(own, (before + STEPS).min(19));
        assert_eq!(started, own);
        assert_eq!(nice(), before);
    }

    #[test]
    fn a_panic_of_the_work_is_the_callers() {
        let caught = std::panic::catch_unwind(|| giving_way(|| panic!("of the work")));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "of the work");
    }
}
