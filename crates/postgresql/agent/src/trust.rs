//! Which directories and which processes are believed. An answer of another user's could make PostgreSQL remove a segment that is
//! archived nowhere, or end a recovery where the archive does not end.
//!
//! A directory is believed if only this user and root could have put anything into it, or another one into its place: from `/` down,
//! along each link, every directory belongs to this user or to root, and others cannot write to it, or only as to `/tmp`, where
//! each name is its owner's (the sticky bit). A process is believed if it runs as this user or as root.
//!
//! What was believed once stays so: others could not change it in between. So one look, before anything else, is enough.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Group and others may write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The kernel's default.
const OVERFLOW_USER: u32 = 65_534;

/// Refuses a directory that is not believed. Returns where it really is, past all links. From the first part on that is missing, all
/// of it may be missing.
///
/// # Errors
/// `PermissionDenied` with the part of the path that is not believed, or what the system says of it.
pub(crate) fn check_directory(directory: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::from("/");
    check(&real, &std::fs::symlink_metadata(&real)?)?;
    let mut ahead = parts_of(directory);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let metadata = match std::fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                ahead.push(part);
                real.extend(ahead.into_iter().rev());
                return Ok(real);
            }
            metadata => metadata.map_err(|error| named(&next, error.kind(), &error.to_string()))?,
        };
        check(&next, &metadata)?;
        if !metadata.is_symlink() {
            real = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(named(&next, io::ErrorKind::InvalidInput, "is one link too many"));
        }
        let target = std::fs::read_link(&next)?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        ahead.extend(parts_of(&target));
    }
    Ok(real)
}

/// The parts of a path, the first one last.
fn parts_of(path: &Path) -> Vec<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(part).collect()
}

fn check(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let deny = |problem: &str| Err(named(path, io::ErrorKind::PermissionDenied, problem));
    if !is_believed(metadata.uid())? {
        return deny(&format!("belongs to user {}: it must belong to this user or to root", metadata.uid()));
    }
    // Anybody may write to a link: that means nothing.
    if metadata.is_symlink() {
        return Ok(());
    }
    if !metadata.is_dir() {
        return Err(named(path, io::ErrorKind::NotADirectory, "is not a directory"));
    }
    if metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0 {
        return deny(
            "is such that others can write to it: take their rights to the directory away (chmod go-w)",
        );
    }
    Ok(())
}

fn named(path: &Path, kind: io::ErrorKind, problem: &str) -> io::Error {
    io::Error::new(kind, format!("{} {problem}", path.display()))
}

/// Whether a user is this one or root. Root is also the owner of `/`: in a container with users of its own, root of the system
/// around has another number.
///
/// # Errors
/// What the system says of `/`.
pub(crate) fn is_believed(user: u32) -> io::Result<bool> {
    let own = rustix::process::geteuid().as_raw();
    Ok(user == own || user == 0 || is_root_around(user, std::fs::metadata("/")?.uid(), overflow_user()))
}

/// A number that stands for every user whom a container does not know says nothing about who it is, not even for `/`.
fn is_root_around(user: u32, owner_of_root: u32, overflow: u32) -> bool {
    user == owner_of_root && user != overflow
}

/// The user that the kernel shows for those that this container does not know.
fn overflow_user() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(OVERFLOW_USER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_user_that_stands_for_all_unknown_ones_is_not_root() {
        assert!(is_root_around(100_000, 100_000, OVERFLOW_USER));
        assert!(!is_root_around(100_001, 100_000, OVERFLOW_USER));
        assert!(!is_root_around(OVERFLOW_USER, OVERFLOW_USER, OVERFLOW_USER));
        assert_ne!(overflow_user(), 0);
    }

    #[test]
    fn every_directory_on_the_way_counts() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b/c");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(check_directory(&inner).unwrap(), inner.canonicalize().unwrap());
        let set =
            |mode| std::fs::set_permissions(directory.path().join("a"), PermissionsExt::from_mode(mode));
        for (mode, is_fine) in [(0o777, false), (0o720, false), (0o702, false), (0o1777, true), (0o755, true)]
        {
            set(mode).unwrap();
            let checked = check_directory(&inner);
            assert_eq!(checked.is_ok(), is_fine, "{mode:o}: {checked:?}");
            let missing = check_directory(&inner.join("d/e"));
            assert_eq!(missing.is_ok(), is_fine, "{mode:o}: {missing:?}");
        }
        assert_eq!(check_directory(&inner.join("d/e")).unwrap(), inner.canonicalize().unwrap().join("d/e"));
    }

    #[test]
    fn links_are_followed_and_what_they_lead_through_counts() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["open/inner", "shut/inner"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::set_permissions(root.join("open"), PermissionsExt::from_mode(0o777)).unwrap();
        symlink("shut/../shut/inner", root.join("good")).unwrap();
        symlink(root.join("open/inner"), root.join("bad")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        std::fs::write(root.join("file"), b"").unwrap();
        assert_eq!(check_directory(&root.join("good/x")).unwrap(), root.join("shut/inner/x"));
        for (name, problem) in
            [("bad", "others can write"), ("circle", "too many"), ("file/x", "not a directory")]
        {
            let error = check_directory(&root.join(name)).unwrap_err().to_string();
            assert!(error.contains(problem), "{name}: {error}");
        }
    }
}
