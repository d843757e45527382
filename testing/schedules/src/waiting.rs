//! Waiting for a word to change: the protocol around the system call, which is stood in for.
//!
//! Checked: no wake-up is lost, of all and of one.

use std::sync::Arc;

use seawall_sync::atomic::{AtomicU64, Ordering};
use seawall_sync::{WaitWord, thread};

/// Takers of items, who sleep when there is none, and one who brings them.
pub(crate) fn for_a_word(seed: u64) {
    const TAKERS: u64 = 2;
    const ITEMS: u64 = 3;
    let (word, items) = (Arc::new(WaitWord::new()), Arc::new(AtomicU64::new(0)));
    let takers: Vec<_> = (0..TAKERS)
        .map(|_| {
            let (word, items) = (Arc::clone(&word), Arc::clone(&items));
            thread::spawn(move || (0..ITEMS).for_each(|_| take(&word, &items)))
        })
        .collect();
    for item in 0..TAKERS * ITEMS {
        items.fetch_add(1, Ordering::SeqCst);
        // Where one of each kind may be lost without being missed, the other kind makes up for it.
        match seed % 3 {
            0 => word.wake_one(),
            1 => word.wake_all(),
            _ if item % 2 == 0 => word.wake_one(),
            _ => word.wake_all(),
        }
    }
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    assert_eq!(items.load(Ordering::SeqCst), 0);
}

fn take(word: &WaitWord, items: &AtomicU64) {
    loop {
        let seen = word.read();
        let taken = items.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        if taken.is_ok() {
            return;
        }
        word.wait(seen, None);
    }
}
