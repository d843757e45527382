//! The numbers by which the kernel knows files and directories, and what each stands for on the simulated disk.
//!
//! The disk knows paths and open files; the kernel knows numbers, and goes on using one after its file was renamed or
//! removed. So a file is opened once, when the kernel first asks for it, and stays open until the kernel forgets it:
//! what happens to its name meanwhile changes nothing for those who have it open, as on any disk.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use seawall_io::{Disk, DiskFile, OpenMode};
use seawall_simulation::SimulatedDisk;

/// The number of the directory that is mounted, fixed by the kernel.
pub(crate) const ROOT: u64 = 1;

/// What a number stands for.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Directory { path: String },
    File(Arc<dyn DiskFile>),
}

#[derive(Debug)]
struct Entry {
    node: Node,
    /// `None`: it was removed, or its name was given to another file.
    path: Option<String>,
    /// How many answers with this number the kernel has not yet forgotten.
    lookups: u64,
}

#[derive(Debug)]
pub(crate) struct Inodes {
    entries: HashMap<u64, Entry>,
    by_path: HashMap<String, u64>,
    next: u64,
}

impl Inodes {
    pub(crate) fn new() -> Inodes {
        let root = Node::Directory { path: String::new() };
        let entry = Entry { node: root, path: Some(String::new()), lookups: 1 };
        Inodes {
            entries: HashMap::from([(ROOT, entry)]),
            by_path: HashMap::from([(String::new(), ROOT)]),
            next: ROOT + 1,
        }
    }

    pub(crate) fn node(&self, number: u64) -> io::Result<Node> {
        // ESTALE would be as right; the kernel never asks for a number that it was not given.
        self.entries
            .get(&number)
            .map(|entry| entry.node.clone())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn file(&self, number: u64) -> io::Result<Arc<dyn DiskFile>> {
        match self.node(number)? {
            Node::File(file) => Ok(file),
            Node::Directory { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// The path of a directory.
    pub(crate) fn directory(&self, number: u64) -> io::Result<String> {
        match self.node(number)? {
            Node::Directory { path } => Ok(path),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// The path of `name` in the directory `parent`.
    pub(crate) fn child(&self, parent: u64, name: &str) -> io::Result<String> {
        let directory = self.directory(parent)?;
        Ok(if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") })
    }

    /// Finds what has the path, gives it a number if it has none, and counts the answer.
    pub(crate) fn look_up(&mut self, disk: &SimulatedDisk, path: &str) -> io::Result<(u64, Node)> {
        if let Some(number) = self.by_path.get(path).copied() {
            let entry = self.entries.get_mut(&number).expect("each path in the map has an entry");
            entry.lookups += 1;
            return Ok((number, entry.node.clone()));
        }
        let node = match disk.open(path, OpenMode::Write) {
            Ok(file) => Node::File(file),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                Node::Directory { path: path.to_owned() }
            }
            Err(error) => return Err(error),
        };
        Ok(self.add(path, node))
    }

    /// Gives something new at `path` a number, and counts the answer.
    pub(crate) fn add(&mut self, path: &str, node: Node) -> (u64, Node) {
        let number = self.next;
        self.next += 1;
        self.by_path.insert(path.to_owned(), number);
        self.entries.insert(number, Entry { node: node.clone(), path: Some(path.to_owned()), lookups: 1 });
        (number, node)
    }

    pub(crate) fn renamed(&mut self, from: &str, to: &str) {
        self.removed(to);
        if let Some(number) = self.by_path.remove(from) {
            self.by_path.insert(to.to_owned(), number);
            self.entries.get_mut(&number).expect("each path in the map has an entry").path =
                Some(to.to_owned());
        }
    }

    pub(crate) fn removed(&mut self, path: &str) {
        if let Some(number) = self.by_path.remove(path) {
            self.entries.get_mut(&number).expect("each path in the map has an entry").path = None;
        }
    }

    /// The kernel has given up `count` answers.
    pub(crate) fn forget(&mut self, number: u64, count: u64) {
        let Some(entry) = self.entries.get_mut(&number).filter(|_| number != ROOT) else { return };
        entry.lookups = entry.lookups.saturating_sub(count);
        if entry.lookups == 0 {
            let entry = self.entries.remove(&number).expect("it was just looked at");
            if let Some(path) = entry.path {
                self.by_path.remove(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_can_be_read_until_the_kernel_forgets_it() {
        let disk = SimulatedDisk::new(0);
        disk.write_file("a", b"one");
        let mut inodes = Inodes::new();
        let (number, _) = inodes.look_up(&disk, "a").unwrap();
        disk.remove("a").unwrap();
        inodes.removed("a");
        let file = inodes.file(number).unwrap();
        let mut bytes = [0; 3];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"one");
        assert_eq!(inodes.look_up(&disk, "a").unwrap_err().kind(), io::ErrorKind::NotFound);
        inodes.forget(number, 1);
        assert!(inodes.file(number).is_err());
    }

    #[test]
    fn a_renamed_file_keeps_its_number_and_takes_the_name_from_another() {
        let disk = SimulatedDisk::new(0);
        disk.write_file("d/a", b"one");
        disk.write_file("d/b", b"two");
        let mut inodes = Inodes::new();
        let (a, _) = inodes.look_up(&disk, "d/a").unwrap();
        let (b, _) = inodes.look_up(&disk, "d/b").unwrap();
        disk.rename("d/a", "d/b").unwrap();
        inodes.renamed("d/a", "d/b");
        assert_eq!(inodes.look_up(&disk, "d/b").unwrap().0, a);
        inodes.forget(b, 1);
        assert_eq!(inodes.look_up(&disk, "d/b").unwrap().0, a, "the forgotten file no longer had the name");
        assert!(matches!(inodes.look_up(&disk, "d").unwrap().1, Node::Directory { .. }));
    }
}
