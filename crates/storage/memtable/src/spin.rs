//! Waiting for a latch that is held for a moment only.

use seawall_sync::{hint, thread};

/// Waits a moment for the holder of a latch. `spins` counts the calls: after 64 of them the holder may need this core.
pub(crate) fn spin(spins: &mut u32) {
    *spins += 1;
    if *spins < 64 { hint::spin_loop() } else { thread::yield_now() }
}
