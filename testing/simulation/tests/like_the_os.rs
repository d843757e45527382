//! The simulated disk answers as the operating system's does: the same random calls on both give the same results.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{self, IoSlice};
use std::sync::Arc;

use seawall_io::{AlignedBuffer, BLOCK_BYTES, Disk, DiskFile, LockMode, OpenMode, OsDisk};
use seawall_simulation::{SeededRandom, SimulatedDisk, seeds};

const FILES: [&str; 7] = ["a", "b", "log/a", "log/b", "log/c", "deep/er/a", "missing/a"];
const DIRECTORIES: [&str; 6] = ["", "log", "deep", "deep/er", "missing/deeper", "plain"];
const MODES: [OpenMode; 5] =
    [OpenMode::Read, OpenMode::Write, OpenMode::Create, OpenMode::Create, OpenMode::Log];

/// A result as text that both disks must agree on: a value or the kind of an error.
fn answer<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    result.map_or_else(|error| format!("{:?}", error.kind()), |value| format!("{value:?}"))
}

struct Open {
    mode: OpenMode,
    files: [Arc<dyn DiskFile>; 2],
}

/// One random call on an open file, of each disk.
fn call_file(random: &mut SeededRandom, open: &Open) -> [String; 2] {
    let scale = *random.pick(&[100, 6000, 300_000]);
    let (offset, bytes) = (random.below(scale), random.below(scale));
    let length = usize::try_from(bytes).unwrap();
    // Calls for which a file is not open get many different errors; the reads and writes agree.
    let kinds: &[u64] = match open.mode {
        OpenMode::Read => &[0, 1, 2, 4, 5],
        OpenMode::Log => &[0, 1, 2, 3, 4, 5],
        OpenMode::Write | OpenMode::Create => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    };
    let kind = *random.pick(kinds);
    let data = random.bytes(length);
    open.files.each_ref().map(|file| match kind {
        0 => {
            let mut buffer = vec![0xEE; length];
            let result = file.read_exact_at(&mut buffer, offset);
            answer(result.map(|()| buffer))
        }
        1 => answer(file.write_all_at(&data, offset)),
        2 => {
            let (left, right) = data.split_at(length / 3);
            answer(
                file.write_vectored_at(&[IoSlice::new(left), IoSlice::new(&[]), IoSlice::new(right)], offset),
            )
        }
        3 => {
            let mut buffer = AlignedBuffer::zeroed(4 * BLOCK_BYTES);
            let filled = length.min(buffer.len());
            buffer[..filled].copy_from_slice(&data[..filled]);
            let offset = offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            answer(file.write_durable_at(&buffer, BLOCK_BYTES..3 * BLOCK_BYTES, offset))
        }
        4 => answer(file.sync_data()),
        5 => answer(file.length()),
        6 => answer(file.set_length(offset)),
        7 => answer(file.fill_zeros(offset, bytes)),
        8 => answer(file.punch_hole(offset, bytes)),
        _ => answer(file.extend(bytes)),
    })
}

/// One random call on each disk.
fn call_disk(random: &mut SeededRandom, disks: [&dyn Disk; 2], open: &mut Vec<Open>) -> [String; 2] {
    let (path, other) = (*random.pick(&FILES), *random.pick(&FILES));
    let directory = *random.pick(&DIRECTORIES);
    match random.below(11) {
        0..=2 => {
            let mode = *random.pick(&MODES);
            let [os, simulated] = disks.map(|disk| disk.open(path, mode));
            let answers = [
                answer(os.as_ref().map(|_| ()).map_err(copy)),
                answer(simulated.as_ref().map(|_| ()).map_err(copy)),
            ];
            if let (Ok(os), Ok(simulated)) = (os, simulated) {
                open.push(Open { mode, files: [os, simulated] });
            }
            answers
        }
        3 => disks.map(|disk| answer(disk.create_directory(directory))),
        4 => disks.map(|disk| answer(disk.list(directory))),
        5 => disks.map(|disk| answer(disk.rename(path, other))),
        6 => disks.map(|disk| answer(disk.rename_new(path, other))),
        7 => disks.map(|disk| answer(disk.list_subdirectories(directory))),
        8 => disks.map(|disk| answer(disk.is_empty(directory))),
        9 => {
            let path = *random.pick(&["a", "b", "log/a", "log/b", "log", "missing/a"]);
            disks.map(|disk| answer(disk.remove(path)))
        }
        _ => {
            let directory = *random.pick(&["", "log", "deep/er", "missing"]);
            disks.map(|disk| answer(disk.sync_directory(directory)))
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    error.kind().into()
}

#[test]
fn both_disks_give_the_same_answers() {
    for seed in seeds(60) {
        let directory = tempfile::tempdir().unwrap();
        let (os, simulated) = (OsDisk::new(directory.path()), SimulatedDisk::new(seed));
        let disks: [&dyn Disk; 2] = [&os, &simulated];
        for disk in disks {
            disk.create_directory("log").unwrap();
            disk.open("plain", OpenMode::Create).unwrap();
        }
        let mut random = SeededRandom::new(seed);
        let mut open: Vec<Open> = Vec::new();
        for step in 0..120 {
            let [of_os, of_simulated] = if open.is_empty() || random.chance(1, 3) {
                call_disk(&mut random, disks, &mut open)
            } else {
                let index = random.index(open.len());
                let answers = call_file(&mut random, &open[index]);
                if random.chance(1, 10) {
                    open.swap_remove(index);
                }
                answers
            };
            assert!(
                of_os == of_simulated,
                "seed {seed} step {step}: {:?}\n{of_os:.300}\n{of_simulated:.300}",
                simulated.trace().last()
            );
        }
        let [os_files, simulated_files] = disks.map(|disk| {
            let lists = ["", "log", "deep", "deep/er"].map(|directory| answer(disk.list(directory)));
            let bytes = FILES.map(|path| answer(contents(disk, path)));
            (lists, bytes)
        });
        assert!(os_files == simulated_files, "seed {seed}: {os_files:.2000?}\n{simulated_files:.2000?}");
    }
}

fn contents(disk: &dyn Disk, path: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; usize::try_from(file.length()?).unwrap()];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[test]
fn both_disks_lock_alike() {
    for seed in seeds(50) {
        let directory = tempfile::tempdir().unwrap();
        let (os, simulated) = (OsDisk::new(directory.path()), SimulatedDisk::new(seed));
        let disks: [&dyn Disk; 2] = [&os, &simulated];
        let mut random = SeededRandom::new(seed);
        let mut held = Vec::new();
        for step in 0..30 {
            if !held.is_empty() && random.chance(1, 3) {
                held.swap_remove(random.index(held.len()));
            }
            let mode = *random.pick(&[LockMode::Shared, LockMode::Shared, LockMode::Exclusive]);
            let path = *random.pick(&["lock", "other", "missing/lock"]);
            match disks.map(|disk| disk.lock(path, mode)) {
                [Ok(os), Ok(simulated)] => held.push((os, simulated)),
                [Err(os), Err(simulated)] => {
                    assert_eq!(os.kind(), simulated.kind(), "seed {seed} step {step}")
                }
                [os, simulated] => panic!("seed {seed} step {step}: {os:?} is not {simulated:?}"),
            }
        }
    }
}
