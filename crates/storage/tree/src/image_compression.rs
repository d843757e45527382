//! How page images are made smaller on their way to the recovery file or the log, and brought back.
//!
//! | code | name           | stored bytes                                                                   |
//! |-----:|----------------|--------------------------------------------------------------------------------|
//! |    0 | `none`         | the image as it is                                                             |
//! |    1 | `lz4`          | an LZ4 block                                                                   |
//! |    2 | `zstd`         | a Zstandard frame, level 1                                                     |
//! |    3 | `snappy`       | a Snappy block                                                                 |
//! |    4 | `skip-garbage` | the image without its unused middle: bytes 0..`lower`, then `upper`..; see the page header |
//!
//! An image that would not come out smaller is stored as it is, so each carries the code of its own. The unused middle
//! is zero in every page that is written here; an image where it is not is stored whole.

use std::fmt;
use std::str::FromStr;

use seawall_codec::compression::{Compression, Compressor, Decompressor};

use crate::page::{UNUSED_FIELDS_END, unused_range};

/// Compression of the page images that protect against torn pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ImageCompression {
    /// As they are.
    None,
    /// Without their unused middle: costs nothing, and gives what the pages are not filled.
    SkipGarbage,
    /// LZ4: about half the bytes for typical rows, at over 1 GB/s.
    #[default]
    Lz4,
    /// Zstandard, level 1: smaller than LZ4, at a third of its speed.
    Zstd,
    /// Snappy: about as LZ4.
    Snappy,
}

/// No compression has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no compression is called {name:?}; there are none, skip-garbage, lz4, zstd and snappy")]
pub struct UnknownImageCompression {
    name: String,
}

const SKIP_GARBAGE_CODE: u8 = 4;

impl ImageCompression {
    /// Every one.
    pub const ALL: [ImageCompression; 5] = [
        ImageCompression::None,
        ImageCompression::SkipGarbage,
        ImageCompression::Lz4,
        ImageCompression::Zstd,
        ImageCompression::Snappy,
    ];

    /// Its name, as options and documents write it.
    pub const fn name(self) -> &'static str {
        match self {
            ImageCompression::None => "none",
            ImageCompression::SkipGarbage => "skip-garbage",
            ImageCompression::Lz4 => "lz4",
            ImageCompression::Zstd => "zstd",
            ImageCompression::Snappy => "snappy",
        }
    }

    /// The compressor of whole images; `None` for the one that knows pages.
    const fn of_blocks(self) -> Option<Compression> {
        match self {
            ImageCompression::None => Some(Compression::None),
            ImageCompression::SkipGarbage => None,
            ImageCompression::Lz4 => Some(Compression::Lz4),
            ImageCompression::Zstd => Some(Compression::Zstd),
            ImageCompression::Snappy => Some(Compression::Snappy),
        }
    }
}

impl fmt::Display for ImageCompression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ImageCompression {
    type Err = UnknownImageCompression;

    fn from_str(name: &str) -> Result<ImageCompression, UnknownImageCompression> {
        let found = ImageCompression::ALL.into_iter().find(|compression| compression.name() == name);
        found.ok_or_else(|| UnknownImageCompression { name: name.to_owned() })
    }
}

/// Makes images smaller, one after another.
#[derive(Debug)]
pub(crate) struct ImagePacker {
    /// `None` leaves the unused middle out.
    compressor: Option<Compressor>,
    packed: Vec<u8>,
}

impl ImagePacker {
    pub(crate) fn new(compression: ImageCompression) -> ImagePacker {
        ImagePacker { compressor: compression.of_blocks().map(Compressor::new), packed: Vec::new() }
    }

    /// The bytes to store for `image`, and their code.
    pub(crate) fn pack<'a>(&'a mut self, image: &'a [u8]) -> (&'a [u8], u8) {
        self.packed.clear();
        let code = match &mut self.compressor {
            Some(compressor) if compressor.compression() == Compression::None => return (image, 0),
            Some(compressor) => {
                compressor.compress(image, &mut self.packed);
                compressor.compression().code()
            }
            None => {
                skip_garbage(image, &mut self.packed);
                SKIP_GARBAGE_CODE
            }
        };
        if self.packed.len() < image.len() { (&self.packed, code) } else { (image, 0) }
    }
}

fn skip_garbage(image: &[u8], packed: &mut Vec<u8>) {
    let unused = unused_range(image);
    let is_zero = image[unused.clone()].iter().all(|byte| *byte == 0);
    let unused = if is_zero { unused } else { 0..0 };
    packed.extend_from_slice(&image[..unused.start]);
    packed.extend_from_slice(&image[unused.end..]);
}

/// Brings images back, one after another.
#[derive(Debug, Default)]
pub(crate) struct ImageUnpacker {
    decompressor: Decompressor,
}

impl ImageUnpacker {
    /// Whether a stored image may have this code.
    pub(crate) fn is_known(code: u32) -> bool {
        code <= u32::from(SKIP_GARBAGE_CODE)
    }

    /// Fills `image`, as long as a page, from what was stored; `None` if it does not give one.
    pub(crate) fn unpack(&mut self, stored: &[u8], code: u32, image: &mut [u8]) -> Option<()> {
        let code = u8::try_from(code).ok()?;
        if code == SKIP_GARBAGE_CODE {
            return fill_in_garbage(stored, image);
        }
        let compression = Compression::from_code(code)?;
        self.decompressor.decompress(compression, stored, image).ok()
    }
}

fn fill_in_garbage(stored: &[u8], image: &mut [u8]) -> Option<()> {
    if stored.len() < UNUSED_FIELDS_END || stored.len() > image.len() {
        return None;
    }
    // What `lower` and `upper` say, if it fits the length of the page.
    image[..UNUSED_FIELDS_END].copy_from_slice(&stored[..UNUSED_FIELDS_END]);
    let unused = unused_range(image);
    if stored.len() != image.len() - unused.len() {
        return None;
    }
    let (front, back) = stored.split_at(unused.start);
    image[..unused.start].copy_from_slice(front);
    image[unused.clone()].fill(0);
    image[unused.end..].copy_from_slice(back);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{LeafValue, PageFormat, Row, RowKey, encode_leaf};
    use crate::space_map::SpaceMap;
    use seawall_types::{DatabaseId, Lsn, PageId};

    fn images() -> Vec<Vec<u8>> {
        let format = PageFormat::new(4096, &DatabaseId::from_bytes([7; 16])).unwrap();
        let leaf = |count: u8| {
            let keys: Vec<Vec<u8>> = (0..count).map(|key| vec![0, 0, 0, 0, 0, 0, 0, 9, key]).collect();
            let value = LeafValue::Inline(b"a value of thirty-one bytes....");
            let rows: Vec<_> = keys.iter().map(|key| Row { key: RowKey::from(&key[..]), value }).collect();
            encode_leaf(&format, &rows, PageId::new(3), Lsn::new(5)).bytes().to_vec()
        };
        let map = SpaceMap::first_image(&format, Lsn::ZERO).bytes().to_vec();
        vec![leaf(0), leaf(1), leaf(40), leaf(90), map]
    }

    #[test]
    fn every_image_comes_back_under_every_compression() {
        for compression in ImageCompression::ALL {
            let (mut packer, mut unpacker) = (ImagePacker::new(compression), ImageUnpacker::default());
            for image in images() {
                let (stored, code) = packer.pack(&image);
                assert!(stored.len() <= image.len() && ImageUnpacker::is_known(code.into()));
                let mut back = vec![0xEE; image.len()];
                unpacker.unpack(stored, code.into(), &mut back).unwrap();
                assert_eq!(back, image, "{compression}");
            }
        }
    }

    #[test]
    fn the_unused_middle_is_left_out_only_where_it_is_zero() {
        let mut packer = ImagePacker::new(ImageCompression::SkipGarbage);
        let mut image = images().swap_remove(2);
        let unused = unused_range(&image);
        assert!(unused.len() > 1000);
        assert_eq!(packer.pack(&image).0.len(), image.len() - unused.len());
        image[unused.end - 1] = 1;
        assert_eq!(packer.pack(&image), (&image[..], 0));
    }

    #[test]
    fn stored_bytes_that_give_no_page_are_refused() {
        let mut unpacker = ImageUnpacker::default();
        for compression in ImageCompression::ALL {
            let mut packer = ImagePacker::new(compression);
            let image = images().swap_remove(2);
            let (stored, code) = packer.pack(&image);
            let mut back = vec![0; image.len()];
            for cut in 0..stored.len() {
                assert_eq!(
                    unpacker.unpack(&stored[..cut], code.into(), &mut back),
                    None,
                    "{compression} {cut}"
                );
            }
            let longer = [stored, &[0]].concat();
            if compression != ImageCompression::Zstd {
                assert_eq!(unpacker.unpack(&longer, code.into(), &mut back), None, "{compression}");
            }
        }
        assert_eq!(unpacker.unpack(&[0; 4096], 5, &mut [0; 4096]), None);
        assert_eq!(unpacker.unpack(&[0; 4096], 1 << 20, &mut [0; 4096]), None);
        // `lower` and `upper` that cannot be.
        let mut lying = images().swap_remove(2);
        lying[36..40].copy_from_slice(&5000_u32.to_le_bytes());
        assert_eq!(unpacker.unpack(&lying[..2000], 4, &mut [0; 4096]), None);
    }

    #[test]
    fn names_come_back() {
        for compression in ImageCompression::ALL {
            assert_eq!(compression.to_string().parse(), Ok(compression));
        }
        let error = "gzip".parse::<ImageCompression>().unwrap_err().to_string();
        assert!(error.contains("gzip") && error.contains("skip-garbage"), "{error}");
    }
}
