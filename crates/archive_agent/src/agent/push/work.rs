//! One upload: read, identified, packed once, put into every repository, acknowledged.

use std::io::Read;
use std::path::Path;

use seawall_archive::{
    ArchiveError, Expected, LogFileName, Packed, Packer, Packing, Repository, SegmentError, StoreCause,
    identify,
};
use seawall_io::Clock;

use super::Permits;
use crate::agent::Shared;
use crate::spool::FileIdentity;

/// A file of a log is no longer: segments have at most 1 GiB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Why a file is not archived.
#[derive(Debug)]
pub(super) struct Failure {
    /// For PostgreSQL's log.
    pub(super) message: String,
    /// Other files would fare no better now.
    pub(super) is_of_store: bool,
    /// The store asks for fewer requests.
    pub(super) is_too_much: bool,
}

impl Failure {
    fn of_file(message: String) -> Failure {
        Failure { message, is_of_store: false, is_too_much: false }
    }

    fn of(error: &ArchiveError) -> Failure {
        let cause = match error {
            ArchiveError::Store(error) => Some(error.cause),
            _ => None,
        };
        Failure {
            message: error.to_string(),
            is_of_store: cause.is_some(),
            is_too_much: cause == Some(StoreCause::Busy),
        }
    }
}

/// Uploads one file after another.
pub(super) struct Worker {
    packer: Packer,
}

impl Worker {
    pub(super) fn new(packing: Packing) -> Worker {
        Worker { packer: Packer::new(packing) }
    }

    /// Archives one file. When this returns, it is durable in every repository, and acknowledged.
    pub(super) fn push(
        &mut self,
        shared: &Shared,
        processors: &Permits,
        name: &str,
        path: &str,
    ) -> Result<(), Failure> {
        let full = shared.data.full(path);
        let (packed, identity) = {
            // The content is in memory only while a processor works on it.
            let _permit = processors.take();
            let (content, identity) = read(&full)?;
            (self.pack(shared, name, &content)?, identity)
        };
        put_everywhere(&shared.repositories, &packed)?;
        let acknowledged = shared.spool.acknowledge(name, identity);
        // It is archived all the same, and whoever waits is told so; the next who asks will find it there.
        acknowledged.unwrap_or_else(|error| eprintln!("{name} is archived, and not acknowledged: {error}"));
        Ok(())
    }

    fn pack(&mut self, shared: &Shared, name: &str, content: &[u8]) -> Result<Packed, Failure> {
        // A segment says itself whose it is, and that is held against the control file's.
        let system = shared.system().map_err(Failure::of_file)?;
        let mut expected = Expected { system: Some(system), fork: None };
        let described = match identify(name, content, &expected) {
            // The last segment of a timeline that was left: if so, a history says it.
            Err(SegmentError::EndsEarly { .. } | SegmentError::PostgreSql { .. }) => {
                let timeline = LogFileName::parse(name).map(LogFileName::timeline);
                let fork = timeline.map(|timeline| shared.data.fork_of(timeline));
                let fork = fork.transpose().map_err(|error| Failure::of_file(error.to_string()))?;
                expected.fork = fork.flatten();
                identify(name, content, &expected)
            }
            described => described,
        };
        let described = described.map_err(|error| Failure::of_file(error.to_string()))?;
        Ok(self.packer.pack(described.header(shared.clock.wall_micros()), content))
    }
}

/// The content of a file that nobody writes to meanwhile, and which file that was.
fn read(path: &Path) -> Result<(Vec<u8>, FileIdentity), Failure> {
    let failed = |error: std::io::Error| Failure::of_file(format!("cannot read {}: {error}", path.display()));
    let mut file = std::fs::OpenOptions::new().read(true).open(path).map_err(failed)?;
    let before = file.metadata().map_err(failed)?;
    if before.len() > FILE_BYTES_MAX {
        return Err(Failure::of_file(format!("{} is longer than any file of a log", path.display())));
    }
    let mut content = Vec::new();
    content.reserve_exact(usize::try_from(before.len()).expect("at most 1 GiB"));
    file.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(failed)?;
    let after = file.metadata().map_err(failed)?;
    let identity = FileIdentity::of(&before);
    if identity != FileIdentity::of(&after) || content.len() as u64 != before.len() {
        return Err(Failure::of_file(format!("{} was changed while it was read", path.display())));
    }
    Ok((content, identity))
}

/// Into all of them at once: one that is slow does not make the others wait, but the file is archived only when all have it.
fn put_everywhere(repositories: &[Repository], packed: &Packed) -> Result<(), Failure> {
    let put =
        |repository: &Repository| repository.push(packed).map(|_| ()).map_err(|error| Failure::of(&error));
    if let [only] = repositories {
        return put(only);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            repositories.iter().map(|repository| scope.spawn(move || put(repository))).collect();
        let results = threads.into_iter().map(|thread| thread.join().expect("a put does not panic"));
        // All are waited for; the first failure is told.
        results.collect::<Vec<_>>().into_iter().collect()
    })
}
