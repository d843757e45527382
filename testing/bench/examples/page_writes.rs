//! Ways of writing a chunk of pages in place and making it durable, measured against each other.
//!
//! ```text
//! cargo run --release -p seawall-bench --example page_writes -- DIRECTORY
//! ```
//! 2,048 pages of 8 KiB, sorted, spread evenly over a file of 1 GiB that is allocated and in the page cache: each way five
//! times, in turns; printed is the median. Direct writes are synchronous calls, as many threads as writes under way, and one
//! `fdatasync` at the end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seawall_io::{AlignedBuffer, Disk, DiskFile, OpenMode, OsDisk};

const PAGE_BYTES: usize = 8192;
const PAGES: u64 = 2048;
const FILE_BYTES: u64 = 1 << 30;
const STEP_BYTES: u64 = FILE_BYTES / PAGES;
const ROUNDS: usize = 5;

fn main() -> io::Result<()> {
    let directory =
        std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from).join("page-writes");
    let disk = OsDisk::new(&directory);
    disk.create_directory("")?;
    let file = disk.open("pages", OpenMode::Create)?;
    file.fill_zeros(0, FILE_BYTES)?;
    file.sync_data()?;
    let path = directory.join("pages");
    let mut direct = OpenOptions::new();
    direct.write(true).custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    let mut ways: Vec<(String, Vec<Duration>)> = Vec::new();
    for round in 0..ROUNDS {
        let mut take = |name: &str, elapsed: io::Result<Duration>| -> io::Result<()> {
            if round == 0 {
                ways.push((name.to_owned(), Vec::new()));
            }
            let way = ways.iter_mut().find(|way| way.0 == name).expect("pushed in the first round");
            way.1.push(elapsed?);
            Ok(())
        };
        take("through the cache, sync", through_the_cache(&*file, false))?;
        take("through the cache, started, sync", through_the_cache(&*file, true))?;
        for threads in [1, 4, 16, 32] {
            take(&format!("direct, {threads} under way"), direct_writes(&direct, &path, threads))?;
        }
    }
    for (name, mut times) in ways {
        times.sort_unstable();
        println!("{name:36} {:7.1} ms", times[ROUNDS / 2].as_secs_f64() * 1000.0);
    }
    std::fs::remove_dir_all(directory)
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the real clock")]
fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn page() -> AlignedBuffer {
    let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
    page.fill(7);
    page
}

fn through_the_cache(file: &dyn DiskFile, is_started: bool) -> io::Result<Duration> {
    let page = page();
    timed(|| {
        for number in 0..PAGES {
            file.write_all_at(&page, number * STEP_BYTES)?;
        }
        if is_started {
            file.start_writing(0, FILE_BYTES);
        }
        file.sync_data()
    })
}

fn direct_writes(options: &OpenOptions, path: &Path, threads: u64) -> io::Result<Duration> {
    let file = options.open(path)?;
    timed(|| {
        std::thread::scope(|scope| {
            let write = |first: u64, file: &File| {
                let page = page();
                (first..PAGES)
                    .step_by(usize::try_from(threads).expect("a few"))
                    .try_for_each(|number| file.write_all_at(&page, number * STEP_BYTES))
            };
            let file = &file;
            let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || write(first, file))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a writer panicked"))
        })?;
        file.sync_data()
    })
}
