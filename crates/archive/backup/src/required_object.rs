//! An object that a backup needs.

use seawall_archive::ObjectName;

/// An object of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredObject {
    /// Its name.
    pub name: ObjectName,
    /// Bytes of its content, before compression.
    pub bytes: u64,
    /// CRC-64/NVME of these.
    pub checksum: u64,
}
