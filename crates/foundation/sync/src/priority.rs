//! How a thread stands back behind others.

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
use std::cell::OnceCell;

/// What is added to the nice value: a thread that works for a user gets nine times the time of one that gives way, where both want one
/// processor, and takes the processor at once when it wakes up.
#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
const STEPS: i32 = 10;

/// Runs `work` on a thread of lower priority, which the threads that `work` starts inherit. A processor that nobody else wants is still used
/// in full. The caller sleeps meanwhile, and keeps its own priority for what others wait for, before and after. Where the system gives no
/// thread, the caller runs `work`.
///
/// The thread stays for the caller's next work, and ends soon after the caller: of memory that short-lived threads free, the C library keeps
/// some for each. It is the only one of a pool of rayon, so what `work` does by means of rayon is done there, too.
///
/// Linux only: elsewhere threads have no priority of their own, and the caller runs `work` as it is.
///
/// # Panics
/// If `work` does.
pub fn giving_way<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    #[cfg(all(target_os = "linux", not(feature = "shuttle")))]
    {
        thread_local! {
            /// Tried again each time where the system has given no thread.
            static HELPER: OnceCell<rayon_core::ThreadPool> = const { OnceCell::new() };
        }
        HELPER.with(|helper| {
            if helper.get().is_none()
                && let Some(started) = start_helper()
            {
                helper.get_or_init(|| started);
            }
            match helper.get() {
                Some(helper) => helper.install(work),
                None => work(),
            }
        })
    }
    #[cfg(not(all(target_os = "linux", not(feature = "shuttle"))))]
    work()
}

/// A thread of lower priority, with the caller's name.
#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
fn start_helper() -> Option<rayon_core::ThreadPool> {
    let name = std::thread::current().name().unwrap_or("giving-way").to_owned();
    let builder = rayon_core::ThreadPoolBuilder::new().num_threads(1).thread_name(move |_| name.clone());
    builder.start_handler(|_| give_way()).build().ok()
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
    fn a_caller_has_one_such_thread_until_it_ends() {
        let (first, second) = (giving_way(rustix::thread::gettid), giving_way(rustix::thread::gettid));
        assert_eq!(first, second);
        let of_another = std::thread::spawn(|| giving_way(rustix::thread::gettid)).join().unwrap();
        assert_ne!(of_another, first);
        let is_there =
            || std::path::Path::new(&format!("/proc/self/task/{}", of_another.as_raw_nonzero())).exists();
        for _ in 0..6_000 {
            if !is_there() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the thread is left behind");
    }

    #[test]
    fn a_panic_of_the_work_is_the_callers() {
        let caught = std::panic::catch_unwind(|| giving_way(|| panic!("of the work")));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "of the work");
    }
}
