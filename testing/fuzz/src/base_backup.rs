//! The archives that PostgreSQL's `pg_basebackup` writes.

use seawall_base_backup::check_base_backup;
use seawall_codec::checksum::crc32c;

use crate::input::{Choices, Entries, Input, mutate};

/// The entry functions of this file, by the name of their target.
pub const ENTRIES: &Entries = &[("base_backup", base_backup)];

/// A member of a tar archive, with its checksum.
fn member(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000600");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut header);
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn seal(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// The archive of a base backup with changes all over it, or cut; the checksums of its headers are made right or not. What is
/// accepted has the one file that it had.
pub fn base_backup(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let content = b"the content of a file";
    let digits: String = crc32c(content).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!(
        "{{\"Files\":[{{\"Path\":\"base/1\",\"Size\":{},\"Checksum-Algorithm\":\"CRC32C\",\"Checksum\":\"{digits}\"}}],\
         \"WAL-Ranges\":[{{\"Timeline\":1,\"Start-LSN\":\"0/700028\",\"End-LSN\":\"0/700100\"}}]}}",
        content.len()
    );
    let mut archive = [member("base/1", content), member("backup_manifest", list.as_bytes())].concat();
    mutate(&mut archive, &mut input);
    if choices.has(0) {
        for start in [0, 1024] {
            if let Some(header) = archive.get_mut(start..start + 512) {
                seal(header);
            }
        }
    }
    archive.extend_from_slice(&[0; 1024]);
    // A list that was changed may list something else, or nothing at all.
    if let Ok(files) = check_base_backup(&archive[..]) {
        assert!(files <= 1, "{files} files");
    }
}
