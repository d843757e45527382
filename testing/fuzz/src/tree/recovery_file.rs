//! The recovery file, with its images in regions or in the log.

use seawall_codec::checksum::crc32c;
use seawall_codec::compression::{Compression, Compressor};
use seawall_tree::{
    ImagePiece, ImageSource, ImageSpan, RECOVERY_FILE_PATH, StoredImage, Superblock, TreeError,
};
use seawall_types::PageId;

use super::exercise::exercise_with_log;
use super::sample::{DATABASE, PAGE_BYTES, SAMPLE, seal, seal_block};
use crate::input::{Choices, Input, mutate, patch_at};

const IMAGES_AT: usize = 12288;
const ENTRY_BYTES: usize = 40;
const REGION_AT: usize = 64;
const SECTOR_BYTES: usize = 512;
/// The sample has none so late.
const CHUNK: u64 = 1_000;

/// The recovery file of a tree: some of its pages, changed, as the images of the next chunk.
pub fn recovery_file(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = Choices::of(&mut input);
    let more = Choices::of(&mut input);
    let mut log = LoggedImages(Vec::new());
    let mut file = match (more.has(0), more.has(4)) {
        (true, _) => SAMPLE.recovery.clone(),
        (false, false) => built_recovery_file(&mut input),
        (false, true) => {
            log.0 = logged_images(&mut input, more);
            header_of_logged(&log.0)
        }
    };
    mutate(&mut file, &mut input);
    if !choices.has(0) {
        fix_up_recovery_file(&mut file, more);
    }
    let disk = SAMPLE.disk.copy();
    disk.write_file(RECOVERY_FILE_PATH, &file);
    exercise_with_log(&disk, &log, choices);
}

/// A page's image with a change in it, as it is stored.
struct Stored {
    image: Vec<u8>,
    bytes: Vec<u8>,
    compression: u32,
}

fn changed_image(input: &mut Input<'_>) -> Stored {
    let place = usize::from(input.byte()) * PAGE_BYTES % SAMPLE.pages.len();
    let mut image = SAMPLE.pages[place..place + PAGE_BYTES].to_vec();
    let change = Choices::of(input);
    let at = usize::from(input.u16()) % PAGE_BYTES;
    patch_at(&mut image, at, input.take(usize::from(change.number(0, 8))), change.has(7));
    seal(&mut image);
    let bytes = if change.has(3) { image.clone() } else { packed(&image) };
    Stored { image, bytes, compression: u32::from(!change.has(3)) }
}

/// Headers, superblock, and one region: table, and up to seven images with a change in each.
fn built_recovery_file(input: &mut Input<'_>) -> Vec<u8> {
    let count = input.byte() % 8;
    let mut file = vec![0; IMAGES_AT + usize::from(count) * ENTRY_BYTES];
    for index in 0..usize::from(count) {
        let stored = changed_image(input);
        let mut entry = stored.image[8..16].to_vec();
        entry.extend_from_slice(&(file.len() as u64).to_le_bytes());
        entry.extend_from_slice(&u32::try_from(stored.bytes.len()).unwrap_or(0).to_le_bytes());
        entry.extend_from_slice(&stored.compression.to_le_bytes());
        entry.extend_from_slice(&crc32c(&stored.bytes).to_le_bytes());
        entry.extend_from_slice(&stored.image[0..4]);
        let entry_at = IMAGES_AT + index * ENTRY_BYTES;
        file[entry_at..entry_at + entry.len()].copy_from_slice(&entry);
        file.extend_from_slice(&stored.bytes);
    }
    // The second table, which nobody makes right: zeros.
    file.resize(file.len() + usize::from(count) * ENTRY_BYTES, 0);
    let region_bytes = (file.len() - IMAGES_AT) as u64;
    write_header(&mut file, count.into());
    file[60] = 1;
    file[REGION_AT..REGION_AT + 8].copy_from_slice(&(IMAGES_AT as u64).to_le_bytes());
    file[REGION_AT + 8..REGION_AT + 16].copy_from_slice(&region_bytes.to_le_bytes());
    file[REGION_AT + 16] = count;
    file
}

/// What is in every header, and the superblock.
fn write_header(file: &mut [u8], image_count: u32) {
    file[0..8].copy_from_slice(b"SWCHUNK\n");
    file[8] = 2;
    file[16..32].copy_from_slice(DATABASE.as_bytes());
    file[32..40].copy_from_slice(&CHUNK.to_le_bytes());
    file[40..44].copy_from_slice(&4096_u32.to_le_bytes());
    file[44..48].copy_from_slice(&image_count.to_le_bytes());
    file[48] = 1;
    // Before and after it, the root and the space map are those of the sample.
    file[448..456].copy_from_slice(&SAMPLE.superblock[144..152]);
    file[456..464].copy_from_slice(&SAMPLE.superblock[144..152]);
    file[4096..8192].copy_from_slice(&SAMPLE.superblock[..4096]);
}

/// A log that has these pieces, wherever the header says.
struct LoggedImages(Vec<ImagePiece>);

impl ImageSource for LoggedImages {
    fn read(
        &self,
        _superblock: &Superblock,
        _span: &ImageSpan,
        each: &mut dyn FnMut(ImagePiece) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        self.0.iter().cloned().try_for_each(each)
    }
}

/// Up to three pieces with up to seven images each; lengths may lie.
fn logged_images(input: &mut Input<'_>, choices: Choices) -> Vec<ImagePiece> {
    let mut pieces = Vec::new();
    for number in 0..u32::from(input.byte() % 4) {
        let mut piece = ImagePiece { chunk: CHUNK, number, images: Vec::new(), bytes: Vec::new() };
        for _ in 0..input.byte() % 8 {
            let stored = changed_image(input);
            let lie = if choices.has(6) { u32::from(input.u16()) } else { 0 };
            piece.images.push(StoredImage {
                page: PageId::new(u64::from_le_bytes(stored.image[8..16].try_into().expect("eight bytes"))),
                stored_bytes: u32::try_from(stored.bytes.len()).unwrap_or(0) ^ lie,
                compression: stored.compression,
            });
            piece.bytes.extend_from_slice(&stored.bytes);
        }
        if choices.has(7) {
            (piece.chunk, piece.number) = (CHUNK ^ u64::from(input.byte() & 1), u32::from(input.byte() & 3));
        }
        pieces.push(piece);
    }
    pieces
}

/// The header of a chunk whose images are `pieces`.
fn header_of_logged(pieces: &[ImagePiece]) -> Vec<u8> {
    let mut file = vec![0; IMAGES_AT];
    let images: usize = pieces.iter().map(|piece| piece.images.len()).sum();
    write_header(&mut file, u32::try_from(images).unwrap_or(u32::MAX));
    file[56] = 1;
    file[60] = u8::try_from(pieces.len()).unwrap_or(u8::MAX);
    let mut checksums = Vec::new();
    for piece in pieces {
        let mut bytes = [&piece.chunk.to_le_bytes()[..], &piece.number.to_le_bytes()].concat();
        for image in &piece.images {
            bytes.extend_from_slice(&image.page.get().to_le_bytes());
            bytes.extend_from_slice(&image.stored_bytes.to_le_bytes());
            bytes.extend_from_slice(&image.compression.to_le_bytes());
        }
        bytes.extend_from_slice(&piece.bytes);
        checksums.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    }
    file[REGION_AT..REGION_AT + 8].copy_from_slice(&(1_u64 << 20).to_le_bytes());
    file[REGION_AT + 8..REGION_AT + 16].copy_from_slice(&(2_u64 << 20).to_le_bytes());
    file[REGION_AT + 16] = 1;
    file[REGION_AT + 20..REGION_AT + 24].copy_from_slice(&crc32c(&checksums).to_le_bytes());
    file
}

fn packed(image: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    Compressor::new(Compression::Lz4).compress(image, &mut packed);
    packed
}

/// Makes the checksums right that `choices` names: of images, entries, table, superblock, header.
fn fix_up_recovery_file(file: &mut [u8], choices: Choices) {
    let number = |file: &[u8], at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&file[at..at + bytes]);
        usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX)
    };
    let chunk = number(file, 32, 8) as u64;
    let (table_at, count) = (number(file, REGION_AT, 8), number(file, REGION_AT + 16, 4));
    let table_end = count.checked_mul(ENTRY_BYTES).and_then(|bytes| table_at.checked_add(bytes));
    let table = table_end.filter(|end| *end <= file.len()).map(|end| table_at..end);
    if let Some(table) = table.filter(|table| table.start >= IMAGES_AT) {
        for entry in table.clone().step_by(ENTRY_BYTES) {
            let (start, length) = (number(file, entry + 8, 8), number(file, entry + 16, 4));
            let end = start.saturating_add(length);
            if let Some(stored) = file.get(start..end).filter(|_| !choices.has(1)) {
                let checksum = crc32c(stored);
                file[entry + 24..entry + 28].copy_from_slice(&checksum.to_le_bytes());
            }
            let checksum = crc32c(&[&chunk.to_le_bytes()[..], &file[entry..entry + 32]].concat());
            file[entry + 32..entry + 36].copy_from_slice(&checksum.to_le_bytes());
        }
        let checksum = crc32c(&file[table]);
        file[REGION_AT + 20..REGION_AT + 24].copy_from_slice(&checksum.to_le_bytes());
    }
    if !choices.has(2) {
        seal_block(&mut file[4096..8192]);
    }
    let checksum = crc32c(&file[4096..8192]);
    file[52..56].copy_from_slice(&checksum.to_le_bytes());
    seal_block(&mut file[..SECTOR_BYTES]);
    // The second header is that of the first, or damaged.
    if !choices.has(3) && file.len() >= IMAGES_AT {
        file.copy_within(..SECTOR_BYTES, 8192);
    }
}
