//! How fast bytes are encrypted and decrypted: nanoseconds a message and, in brackets, GB/s, in the fastest of 300 short
//! rounds. Other processes make rounds slower; nothing makes them faster.
//!
//! ```text
//! cargo run --release -p seawall-bench --example encryption_rate
//! ```

use std::time::Duration;

use seawall_codec::encryption::{CipherKey, SecretKey};

fn main() {
    let key = CipherKey::new(&SecretKey::from_bytes([7; 32]));
    println!("{:>10} {:>14} {:>14}", "bytes", "encrypt ns", "decrypt ns");
    for length in [32, 128, 1024, 8192, 65_536, 1 << 20] {
        let count = (2_usize << 20).div_ceil(length + 2000);
        let mut bytes = vec![1; length];
        let encrypt = fastest(|| {
            for _ in 0..count {
                std::hint::black_box(key.encrypt(&[3; 24], b"place", std::hint::black_box(&mut bytes)));
            }
        });
        let tag = key.encrypt(&[3; 24], b"place", &mut bytes);
        let sealed = bytes.clone();
        let decrypt = fastest(|| {
            for _ in 0..count {
                bytes.copy_from_slice(&sealed);
                let decrypted = key.decrypt(&[3; 24], b"place", std::hint::black_box(&mut bytes), &tag);
                assert!(decrypted.is_ok(), "what was just encrypted authenticates");
            }
        });
        println!("{length:>10} {} {}", rate(encrypt, count, length), rate(decrypt, count, length));
    }
}

#[expect(clippy::disallowed_methods, reason = "an example that measures has no simulated clock")]
fn fastest(mut run: impl FnMut()) -> Duration {
    let rounds = (0..300).map(|_| {
        let start = std::time::Instant::now();
        run();
        start.elapsed()
    });
    rounds.min().expect("there are rounds")
}

fn rate(time: Duration, count: usize, length: usize) -> String {
    let nanos = time.as_secs_f64() * 1e9 / count as f64;
    format!("{nanos:>8.0} ({:.1})", length as f64 / nanos)
}
