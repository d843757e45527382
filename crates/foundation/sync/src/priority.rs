//! How a thread stands back behind others.

/// What is added to the nice value: a thread that works for a user gets nine times the time of one that gives way, where both want one
/// processor, and takes the processor at once when it wakes up.
#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
const STEPS: i32 = 10;

/// Lets threads that somebody waits for go first, for as long as the calling thread lives. Threads that the calling thread starts from then on
/// do the same. A processor that nobody else wants is still used in full.
///
/// Linux only: elsewhere threads have no priority of their own, and nothing happens. Nor does anything where the system refuses it.
pub fn give_way() {
    #[cfg(all(target_os = "linux", not(feature = "shuttle")))]
    {
        let own = rustix::thread::gettid();
        // The system takes the highest value for one that is too high.
        let lowered = rustix::process::getpriority_process(Some(own))
            .and_then(|nice| rustix::process::setpriority_process(Some(own), nice + STEPS));
        if lowered.is_err() {
            // The priority is a courtesy: without it all goes on as before.
        }
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
    fn a_thread_gives_way_with_those_that_it_starts_and_no_other() {
        let before = nice();
        let (own, started) = std::thread::spawn(|| {
            give_way();
            (nice(), std::thread::spawn(nice).join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(own, (before + STEPS).min(19));
        assert_eq!(started, own);
        assert_eq!(nice(), before);
    }
}
