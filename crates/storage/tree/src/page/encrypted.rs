//! What encryption changes of a page on its way to the disk. In memory a page is always plain.
//!
//! | offset | bytes | field      | on disk                                                                       |
//! |-------:|------:|------------|-------------------------------------------------------------------------------|
//! |      0 |     4 | checksum   | CRC-32C of all bytes that follow, as they are on disk                         |
//! |      4 |    36 | header     | readable, authenticated: place, kind, counts and stamp, no key and no value   |
//! |     40 |    24 | nonce      | drawn for this writing of the page                                            |
//! |     64 |    16 | tag        | over the header, an extent's header and the content (XAES-256-GCM)            |
//! |     80 |    40 | extent     | of an extent only: its header, readable, authenticated; with `own_mark` filled |
//! |        |       |            | in, by which the header alone shows which image it belongs to                 |
//! |        |  rest | content    | encrypted: all pages of an extent as one message                              |
//!
//! The checksum is that of the encrypted bytes: it tells damage, and only a page that is not damaged is tried with the
//! key. The envelope, nonce and tag together, is zero in a plain page, and a plain page in an encrypted database is
//! refused. An older image of the same page authenticates too; it is refused by its mark (`reference`). Only whoever puts
//! back all files of an older database at once is not noticed.

use seawall_codec::bytes::u32_at;
use seawall_codec::encryption::NotAuthentic;
use seawall_keys::{Cipher, ENVELOPE_BYTES, Envelope};
use seawall_types::PageId;

use super::header::{ENVELOPE, PAGE_HEADER_BYTES, PageDamage, PageKind, seal, verify_checksum};
use super::overflow::{EXTENT_HEADER_BYTES, ExtentHeader, OWN_MARK_AT};
use super::{PageFormat, PageMark, header};

const HEADER_FIELDS: std::ops::Range<usize> = 4..ENVELOPE.start;
const OWN_MARK: std::ops::Range<usize> = OWN_MARK_AT..OWN_MARK_AT + 4;
const EXTENT_FIELDS: std::ops::Range<usize> = PAGE_HEADER_BYTES..EXTENT_HEADER_BYTES;
const ASSOCIATED_BYTES_MAX: usize = 36 + 40;

/// The parts of an image: what stays readable, and where the encrypted content starts.
fn associated_data(image: &[u8]) -> ([u8; ASSOCIATED_BYTES_MAX], usize, usize) {
    let mut associated = [0; ASSOCIATED_BYTES_MAX];
    let (header, extent) = associated.split_at_mut(HEADER_FIELDS.len());
    header.copy_from_slice(&image[HEADER_FIELDS]);
    if header::kind_of(image) == Some(PageKind::Overflow) {
        extent.copy_from_slice(&image[EXTENT_FIELDS]);
        (associated, ASSOCIATED_BYTES_MAX, EXTENT_HEADER_BYTES)
    } else {
        (associated, HEADER_FIELDS.len(), PAGE_HEADER_BYTES)
    }
}

/// The mark of a plain image where it stands in the clear on disk: with a key it tells nothing about the content.
pub(crate) fn stored_mark(cipher: Option<&Cipher>, image: &[u8]) -> PageMark {
    // Checksum, place and stamp.
    cipher.map_or_else(|| header::mark_of(image), |cipher| PageMark::new(cipher.mark(&image[..32])))
}

/// Appends the image of a page or of an extent to `output`, encrypted.
pub(crate) fn append_encrypted(cipher: &Cipher, image: &[u8], output: &mut Vec<u8>) {
    let start = output.len();
    output.extend_from_slice(image);
    let encrypted = &mut output[start..];
    if header::kind_of(image) == Some(PageKind::Overflow) {
        let mark = stored_mark(Some(cipher), image);
        encrypted[OWN_MARK].copy_from_slice(&mark.get().to_le_bytes());
    }
    let (associated, associated_bytes, content_at) = associated_data(encrypted);
    let envelope = cipher.encrypt(&associated[..associated_bytes], &mut encrypted[content_at..]);
    encrypted[ENVELOPE].copy_from_slice(&envelope.to_bytes());
    seal(encrypted);
}

/// Makes the image read as page `page` plain again, as it was in memory; [`super::Page::decode`] checks the rest.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn decrypt_page(
    format: &PageFormat,
    cipher: &Cipher,
    page: PageId,
    image: &mut [u8],
) -> Result<(), PageDamage> {
    verify_checksum(image)?;
    let envelope = take_envelope(image)?;
    // Before the key is tried, so that a page of another place or database is called that.
    header::PageHeader::decode_fields(format, page, image)?;
    decrypt(cipher, &envelope, image).map_err(|NotAuthentic| PageDamage::NotAuthentic)
}

/// As `decrypt_page`, of an extent; `image` may have more bytes after it, which stay as they are. Returns its mark.
///
/// # Errors
/// What is wrong with it; `Length` if it has more pages than `image`.
pub(crate) fn decrypt_extent(
    format: &PageFormat,
    cipher: &Cipher,
    first: PageId,
    image: &mut [u8],
) -> Result<PageMark, PageDamage> {
    let stored: [u8; ENVELOPE_BYTES] = image[ENVELOPE].try_into().expect("40 bytes");
    let mark = take_extent_envelope(image);
    // Not trusted before the checksum holds, but the number of pages is bounded.
    let header = ExtentHeader::decode(format, first, image)?;
    image[ENVELOPE].copy_from_slice(&stored);
    image[OWN_MARK].copy_from_slice(&mark.get().to_le_bytes());
    let (expected, found) = (header.pages * format.page_bytes(), image.len());
    let extent = image.get_mut(..expected).ok_or(PageDamage::Length { expected, found })?;
    verify_checksum(extent)?;
    let envelope = take_envelope(extent)?;
    decrypt(cipher, &envelope, extent).map_err(|NotAuthentic| PageDamage::NotAuthentic)?;
    Ok(mark)
}

/// Makes the header of an extent as it is in memory, for readers of the header alone, and returns the mark in it.
pub(crate) fn take_extent_envelope(image: &mut [u8]) -> PageMark {
    image[ENVELOPE].fill(0);
    let mark = PageMark::new(u32_at(image, OWN_MARK_AT));
    image[OWN_MARK].fill(0);
    mark
}

fn take_envelope(image: &mut [u8]) -> Result<Envelope, PageDamage> {
    let stored: [u8; ENVELOPE_BYTES] = image[ENVELOPE].try_into().expect("40 bytes");
    if stored == [0; ENVELOPE_BYTES] {
        return Err(PageDamage::NotEncrypted);
    }
    image[ENVELOPE].fill(0);
    Ok(Envelope::from_bytes(&stored))
}

fn decrypt(cipher: &Cipher, envelope: &Envelope, image: &mut [u8]) -> Result<(), NotAuthentic> {
    let (associated, associated_bytes, content_at) = associated_data(image);
    cipher.decrypt(envelope, &associated[..associated_bytes], &mut image[content_at..])?;
    if header::kind_of(image) == Some(PageKind::Overflow) {
        image[OWN_MARK].fill(0);
    }
    seal(image);
    Ok(())
}
