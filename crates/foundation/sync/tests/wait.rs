//! Threads that sleep on a word are woken by its change, however the two race.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use seawall_sync::WaitWord;

/// No wake-up is lost: without a time-out, a lost one would hang here for ever.
#[test]
fn two_threads_play_ping_pong_without_losing_a_wake() {
    let (word, turn) = (Arc::new(WaitWord::new()), Arc::new(AtomicU64::new(0)));
    let play = |mine: u64| {
        let (word, turn) = (word.clone(), turn.clone());
        thread::spawn(move || {
            for round in 0..2000 {
                loop {
                    let seen = word.read();
                    if turn.load(Ordering::SeqCst) == 2 * round + mine {
                        break;
                    }
                    word.wait(seen, None);
                }
                turn.fetch_add(1, Ordering::SeqCst);
                word.wake_all();
            }
        })
    };
    for player in [play(0), play(1)] {
        player.join().unwrap();
    }
    assert_eq!(turn.load(Ordering::SeqCst), 4000);
}

#[test]
fn one_change_wakes_all_sleepers() {
    let (word, goal) = (Arc::new(WaitWord::new()), Arc::new(AtomicU64::new(0)));
    let sleepers: Vec<_> = (0..16)
        .map(|_| {
            let (word, goal) = (word.clone(), goal.clone());
            thread::spawn(move || {
                loop {
                    let seen = word.read();
                    if goal.load(Ordering::SeqCst) == 1 {
                        return;
                    }
                    word.wait(seen, None);
                }
            })
        })
        .collect();
    goal.store(1, Ordering::SeqCst);
    word.wake_all();
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
}

/// One who takes an item and leaves more behind wakes the next.
#[test]
fn wake_one_hands_out_every_item() {
    let (word, items, taken) =
        (Arc::new(WaitWord::new()), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    const ITEMS: u64 = 4000;
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let (word, items, taken) = (word.clone(), items.clone(), taken.clone());
            thread::spawn(move || {
                while taken.load(Ordering::SeqCst) < ITEMS {
                    let seen = word.read();
                    let took =
                        items.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
                    if took.is_ok() {
                        if taken.fetch_add(1, Ordering::SeqCst) + 1 == ITEMS {
                            word.wake_all();
                        }
                    } else if taken.load(Ordering::SeqCst) < ITEMS {
                        word.wait(seen, None);
                    }
                }
            })
        })
        .collect();
    for _ in 0..ITEMS {
        items.fetch_add(1, Ordering::SeqCst);
        word.wake_one();
    }
    for taker in takers {
        taker.join().unwrap();
    }
    assert_eq!(taken.load(Ordering::SeqCst), ITEMS);
}

#[test]
fn a_word_that_changed_before_or_a_time_out_ends_the_wait() {
    let word = WaitWord::new();
    let seen = word.read();
    word.wake_one();
    assert_ne!(word.read(), seen);
    word.wait(seen, None);
    word.wait(word.read(), Some(Duration::from_millis(5)));
}
