//! Images of an encrypted database in a region of the recovery file: encrypted after they were made smaller.
//!
//! | offset | bytes | field    | meaning                                                                     |
//! |-------:|------:|----------|-----------------------------------------------------------------------------|
//! |      0 |    40 | envelope | nonce, 24 bytes, and tag, 16 bytes (XAES-256-GCM)                           |
//! |     40 |       | image    | as its compression makes it, encrypted; the associated data are the numbers |
//! |        |       |          | of chunk and page and the compression, as integers of 8, 8 and 4 bytes      |
//!
//! These are the stored bytes that the table's checksum is of. `image_checksum` in the table, by which an image in place
//! is known when the stored one is lost, is not the page's checksum then, which would tell about its content, but a mark
//! that only who has the key can compute.

use seawall_keys::{Cipher, ENVELOPE_BYTES, Envelope};
use seawall_types::PageId;

/// What an encrypted image belongs to.
pub(super) struct StoredPlace {
    pub(super) chunk: u64,
    pub(super) page: PageId,
    pub(super) compression: u32,
}

impl StoredPlace {
    fn associated_data(&self) -> [u8; 20] {
        let mut data = [0; 20];
        data[..8].copy_from_slice(&self.chunk.to_le_bytes());
        data[8..16].copy_from_slice(&self.page.get().to_le_bytes());
        data[16..].copy_from_slice(&self.compression.to_le_bytes());
        data
    }

    /// Puts what is stored for `packed` into `output`.
    pub(super) fn encrypt(&self, cipher: &Cipher, packed: &[u8], output: &mut Vec<u8>) {
        output.clear();
        output.extend_from_slice(&[0; ENVELOPE_BYTES]);
        output.extend_from_slice(packed);
        let (envelope, bytes) = output.split_at_mut(ENVELOPE_BYTES);
        envelope.copy_from_slice(&cipher.encrypt(&self.associated_data(), bytes).to_bytes());
    }

    /// What was encrypted; `None` if it was not, or not for this place and with this key.
    pub(super) fn decrypt<'a>(&self, cipher: &Cipher, stored: &'a mut [u8]) -> Option<&'a [u8]> {
        let (envelope, bytes) = stored.split_first_chunk_mut()?;
        cipher.decrypt(&Envelope::from_bytes(envelope), &self.associated_data(), bytes).ok()?;
        Some(bytes)
    }
}

/// What an encrypted image takes beyond its bytes.
pub(super) fn envelope_bytes(cipher: Option<&Cipher>) -> usize {
    cipher.map_or(0, |_| ENVELOPE_BYTES)
}
