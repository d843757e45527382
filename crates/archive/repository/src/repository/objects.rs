//! Objects that are no files of a log: tails of segments that are not full yet, and what a backup consists of.

use seawall_codec::checksum::Crc64;

use crate::envelope::{Header, Packed};
use crate::error::ArchiveError;
use crate::layout;
use crate::name::LogFileName;
use crate::object_name::ObjectName;
use crate::repository::{ContentSink, Pushed, Repository};
use crate::system::System;

impl Repository {
    /// As [`Repository::push`], of an object that is no file of a log.
    ///
    /// # Errors
    /// As `push`.
    ///
    /// # Panics
    /// If the header's name is not that of such an object.
    pub fn push_object(&self, packed: &Packed) -> Result<Pushed, ArchiveError> {
        let header = packed.header();
        let name = ObjectName::parse(&header.name).expect("an object was described by its checked name");
        self.put(&path(header.system, &name), packed)
    }

    /// As [`Repository::fetch`], of an object that is no file of a log.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn fetch_object(
        &self,
        system: System,
        name: &ObjectName,
        sink: &mut dyn ContentSink,
    ) -> Result<Header, ArchiveError> {
        self.fetch_path(&path(system, name), system, name.as_str(), sink)
    }

    /// The objects of a system in `directory`, such as `backups`, and below it, in order of name; with their stored lengths.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn list_objects(
        &self,
        system: System,
        directory: &str,
    ) -> Result<Vec<(ObjectName, u64)>, ArchiveError> {
        let prefix = format!("{system}/");
        self.entries(&format!("{prefix}{directory}/"), |entry| {
            Some((ObjectName::parse(entry.path.strip_prefix(&prefix)?)?, entry.bytes))
        })
    }

    /// The names of the directories of a system in `directory`, in order.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn list_directories(&self, system: System, directory: &str) -> Result<Vec<String>, ArchiveError> {
        self.directories(&format!("{system}/{directory}/"), Some)
    }

    /// Whether a file of the log is there and has exactly this content, by its header alone.
    ///
    /// # Errors
    /// `Store`, `Damaged` for its header, `OtherObject`.
    pub fn has_content(
        &self,
        system: System,
        name: LogFileName,
        content: &[u8],
    ) -> Result<bool, ArchiveError> {
        let Some((header, stored)) = self.look_up(system, name)? else { return Ok(false) };
        let mut checksum = Crc64::new();
        checksum.update(content);
        Ok((header.plain_bytes, stored) == (content.len() as u64, checksum.finish()))
    }

    /// The histories of a system's timelines, with their stored lengths.
    ///
    /// # Errors
    /// `RepositoryGone`, `OtherRepository` or `Store`.
    pub fn list_histories(&self, system: System) -> Result<Vec<(LogFileName, u64)>, ArchiveError> {
        self.entries(&layout::timelines(system), |entry| Some((layout::parse(&entry.path)?.1, entry.bytes)))
    }

    /// Removes an object; one that is not there is fine.
    ///
    /// # Errors
    /// `Store`.
    pub fn remove_object(&self, system: System, name: &ObjectName) -> Result<(), ArchiveError> {
        Ok(self.request(|storage| storage.remove(&path(system, name)))?)
    }

    /// Whether what is put there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.header.is_encrypted
    }
}

fn path(system: System, name: &ObjectName) -> String {
    format!("{system}/{name}")
}
