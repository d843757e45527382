//! Randomness for identifiers. Nothing that must be repeatable uses it.

/// 16 bytes that no other call, process or machine draws again.
pub fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    if !system::fill(&mut bytes) {
        bytes[..8].copy_from_slice(&hashed().to_le_bytes());
        bytes[8..].copy_from_slice(&hashed().to_le_bytes());
    }
    bytes
}

/// The standard library seeds its hash maps from the operating system's randomness.
fn hashed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::rand::{GetRandomFlags, getrandom};

    /// 16 bytes always come in one piece: the kernel promises it up to 256.
    pub(super) fn fill(bytes: &mut [u8; 16]) -> bool {
        getrandom(&mut bytes[..], GetRandomFlags::empty()).is_ok_and(|count| count == bytes.len())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn fill(_bytes: &mut [u8; 16]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let drawn: std::collections::BTreeSet<_> = (0..1000).map(|_| random_bytes()).collect();
        assert_eq!(drawn.len(), 1000);
        assert_ne!(hashed(), hashed());
    }
}
