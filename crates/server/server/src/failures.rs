//! Failed logins by address: who fails often waits longer for each answer, so that guessing passwords takes long.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

/// Failures are forgotten after this.
const MEMORY: Duration = Duration::from_secs(60);
/// As many addresses are known at most; of IPv6, networks of 64 bits are.
const ADDRESSES_MAX: usize = 4096;
/// Failures that cost nothing: somebody mistypes a password.
const FREE: u32 = 3;
const FIRST_DELAY: Duration = Duration::from_millis(250);
const DELAY_MAX: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    last: Duration,
}

/// The failures of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    by_address: Mutex<HashMap<IpAddr, Failed>>,
}

impl Failures {
    /// A login has failed at `now`.
    pub(crate) fn note(&self, address: IpAddr, now: Duration) {
        let mut by_address = self.by_address.lock();
        if by_address.len() >= ADDRESSES_MAX {
            by_address.retain(|_, failed| now.saturating_sub(failed.last) < MEMORY);
        }
        // Full of recent ones: the oldest gives way.
        if by_address.len() >= ADDRESSES_MAX
            && let Some(oldest) = by_address.iter().min_by_key(|(_, failed)| failed.last).map(|(key, _)| *key)
        {
            by_address.remove(&oldest);
        }
        let failed = by_address.entry(network_of(address)).or_insert(Failed { count: 0, last: now });
        let is_forgotten = now.saturating_sub(failed.last) >= MEMORY;
        failed.count = if is_forgotten { 1 } else { failed.count.saturating_add(1) };
        failed.last = now;
    }

    /// A login has succeeded.
    pub(crate) fn forget(&self, address: IpAddr) {
        self.by_address.lock().remove(&network_of(address));
    }

    /// How long the next login from there waits.
    pub(crate) fn delay(&self, address: IpAddr, now: Duration) -> Duration {
        match self.by_address.lock().get(&network_of(address)) {
            Some(failed) if failed.count > FREE && now.saturating_sub(failed.last) < MEMORY => {
                let doublings = (failed.count - FREE - 1).min(5);
                FIRST_DELAY.saturating_mul(1 << doublings).min(DELAY_MAX)
            }
            Some(_) | None => Duration::ZERO,
        }
    }
}

fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn address(last: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + last).into())
    }

    #[test]
    fn who_fails_often_waits_longer() {
        let failures = Failures::default();
        let delays: Vec<u128> = (0..12)
            .map(|_| {
                failures.note(address(1), NOW);
                failures.delay(address(1), NOW).as_millis()
            })
            .collect();
        assert_eq!(delays, [0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]);
        assert_eq!(failures.delay(address(2), NOW), Duration::ZERO);
        assert_eq!(failures.delay(address(1), NOW + MEMORY), Duration::ZERO);
        failures.forget(address(1));
        assert_eq!(failures.delay(address(1), NOW), Duration::ZERO);
    }

    #[test]
    fn many_addresses_take_little_memory() {
        let failures = Failures::default();
        (0..10_000)
            .for_each(|index| failures.note(address(index), NOW + Duration::from_micros(index.into())));
        let known = failures.by_address.lock();
        assert!(known.len() == ADDRESSES_MAX && known.contains_key(&address(9_999)), "{}", known.len());
    }
}
