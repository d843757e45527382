//! References to pages: which page, and which image of it.
//!
//! A device that loses a write leaves the page's image from before: whole, with the right checksum and number. So whatever
//! refers to a page also has the *mark* of the image that the page must hold:
//!
//! ```text
//!   superblock --> root --> interior page --> leaf --> extent --> next extent of the value
//!       \--> first page of the space map --> up to ten others --> ten others of each ...
//! ```
//! A changed page therefore changes the pages that refer to it, up to the root. In the same chunk, so the tree that a chunk
//! ends with refers to exactly its own images.

use std::fmt;

use seawall_types::PageId;

/// Tells an image of a page from all others of that page: the CRC-32C of the plain image, which its header holds.
///
/// Of an encrypted database, marks that stand in the clear on disk (in the superblock, in the recovery file, and those of
/// extents) are made of this one with the key: the checksum of a plain page would tell about its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageMark(u32);

impl PageMark {
    /// The mark with this number.
    pub const fn new(number: u32) -> PageMark {
        PageMark(number)
    }

    /// The number, as it is stored.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PageMark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#010x}", self.0)
    }
}

/// A page, and the image that it must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageReference {
    /// The page; of an extent, its first.
    pub page: PageId,
    /// The mark of its image.
    pub mark: PageMark,
}

impl PageReference {
    /// Page `page` with the image that has `mark`.
    pub const fn new(page: PageId, mark: PageMark) -> PageReference {
        PageReference { page, mark }
    }
}
