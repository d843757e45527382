//! Objects: what goes in comes out, and nothing else does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::any_header;
use proptest::prelude::*;
use seawall_archive::{
    Compression, HEADER_BYTES, Header, HeaderError, Packer, Packing, UnpackError, Unpacker,
};
use seawall_keys::RepositoryKey;
use seawall_simulation::SimulatedRandom;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

fn key() -> RepositoryKey {
    RepositoryKey::draw(Arc::new(SimulatedRandom::new(1)), 1)
}

fn object(content: &[u8], compression: Compression, key: Option<&RepositoryKey>) -> Vec<u8> {
    let packing = Packing { compression, zstd_level: 3 };
    let sealed = Packer::new(packing).pack(any_header(), content).seal(key);
    let bytes = sealed.pieces().concat();
    assert_eq!(bytes.len() as u64, sealed.bytes());
    bytes
}

/// What comes out of an object that comes in pieces of `piece_bytes`.
fn unpack(object: &[u8], piece_bytes: usize, keys: &[RepositoryKey]) -> Result<Vec<u8>, UnpackError> {
    let mut unpacker = Unpacker::new(keys);
    let mut content = Vec::new();
    for piece in object.chunks(piece_bytes) {
        unpacker.take::<UnpackError>(piece, &mut |bytes| {
            content.extend_from_slice(bytes);
            Ok(())
        })?;
    }
    let header = unpacker.finish()?;
    assert_eq!(header.plain_bytes, content.len() as u64);
    Ok(content)
}

fn text(bytes: usize) -> Vec<u8> {
    (0..).flat_map(|number: u32| format!("row {number}, ").into_bytes()).take(bytes).collect()
}

#[test]
fn content_of_any_length_comes_back() {
    let key = key();
    for compression in COMPRESSIONS {
        for key in [None, Some(&key)] {
            for bytes in [0, 1, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_500_000] {
                let content = text(bytes);
                let object = object(&content, compression, key);
                let keys: Vec<RepositoryKey> = key.into_iter().cloned().collect();
                for piece_bytes in [object.len().max(1), 70_001] {
                    assert_eq!(unpack(&object, piece_bytes, &keys).unwrap(), content);
                }
                if compression != Compression::None && bytes > 100_000 {
                    assert!(object.len() < bytes / 2, "{compression:?} makes {} of {bytes}", object.len());
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_compressed_grows_by_its_frames_only() {
    let mut content = vec![0; 2_500_000];
    seawall_simulation::SeededRandom::new(1).fill(&mut content);
    for compression in COMPRESSIONS {
        let object = object(&content, compression, None);
        assert_eq!(object.len(), content.len() + HEADER_BYTES + 3 * 12, "{compression:?}");
        assert_eq!(unpack(&object, 1 << 20, &[]).unwrap(), content);
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let key = key();
    for compression in COMPRESSIONS {
        for key in [None, Some(&key)] {
            let content = text(600);
            let object = object(&content, compression, key);
            let keys: Vec<RepositoryKey> = key.into_iter().cloned().collect();
            for bit in 0..object.len() * 8 {
                let mut damaged = object.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(unpack(&damaged, damaged.len(), &keys).is_err(), "{compression:?} bit {bit}");
            }
            for length in 0..object.len() {
                assert!(unpack(&object[..length], 100, &keys).is_err(), "{compression:?} length {length}");
            }
            let longer = [&object[..], &[0]].concat();
            assert!(unpack(&longer, 100, &keys).is_err());
        }
    }
}

/// Somebody who writes to the store on purpose can make all checksums right, and is found out all the same.
#[test]
fn frames_of_an_encrypted_object_cannot_be_exchanged() {
    let key = key();
    let content = text(3 << 20);
    let first = object(&content, Compression::None, Some(&key));
    let second = object(&content, Compression::None, Some(&key));
    assert_ne!(first[HEADER_BYTES..], second[HEADER_BYTES..], "each object has a key of its own");
    let mixed = [&first[..HEADER_BYTES], &second[HEADER_BYTES..]].concat();
    assert!(unpack(&mixed, 1 << 20, std::slice::from_ref(&key)).is_err());
    assert!(matches!(unpack(&first, 1 << 20, &[]), Err(UnpackError::Key(_))));
    let other = RepositoryKey::draw(Arc::new(SimulatedRandom::new(2)), 1);
    assert!(matches!(unpack(&first, 1 << 20, &[other]), Err(UnpackError::Key(_))));
}

#[test]
fn an_encrypted_object_tells_nothing_of_its_content() {
    let key = key();
    let content = text(10_000);
    let object = object(&content, Compression::None, Some(&key));
    let header = Header::decode(&object).unwrap();
    assert_eq!(header.plain_checksum, 0);
    assert!(!object.windows(16).any(|window| content.windows(16).step_by(1000).any(|part| part == window)));
}

#[test]
fn a_newer_format_says_so_before_anything_else() {
    let mut object = object(b"x", Compression::None, None);
    object[8] = 2;
    object[300] ^= 1;
    assert_eq!(Header::decode(&object), Err(HeaderError::Version { found: 2 }));
    object[0] = 0;
    assert!(matches!(Header::decode(&object), Err(HeaderError::Magic { .. })));
    assert!(matches!(Header::decode(&object[..511]), Err(HeaderError::Short { found: 511 })));
}

proptest! {
    #[test]
    fn any_content_comes_back_in_any_pieces(
        content in prop::collection::vec(any::<u8>(), 0..5000),
        repeat in 1_usize..1000,
        compression in prop::sample::select(COMPRESSIONS.to_vec()),
        is_encrypted: bool,
        piece_bytes in 1_usize..100_000,
    ) {
        let content = content.repeat(repeat);
        let keys: Vec<RepositoryKey> = is_encrypted.then(key).into_iter().collect();
        let object = object(&content, compression, keys.first());
        prop_assert_eq!(unpack(&object, piece_bytes, &keys).unwrap(), content);
    }

    #[test]
    fn any_header_is_refused_or_reads_back(bytes in prop::collection::vec(any::<u8>(), 512..600), valid_until in 0_usize..512) {
        let whole = object(b"some content", Compression::Lz4, None);
        let mut mixed = whole.clone();
        let end = mixed.len().min(bytes.len());
        mixed[valid_until..end].copy_from_slice(&bytes[valid_until..end]);
        // A few bytes may be drawn as they were.
        prop_assert!(Header::decode(&mixed).is_err() || mixed[..512] == whole[..512]);
        prop_assert!(unpack(&mixed, 100, &[]).is_err() || mixed == whole);
    }
}
