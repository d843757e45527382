//! Writing a chunk's pages in place while the next chunk is planned.
//!
//! ```text
//!   apply chunk 7:  images durable, published --> thread: write in place ........... done
//!   plan chunk 8:      reads pages of chunk 7 from the overlay                        |
//!   apply chunk 8:         fresh pages, packing images ............ wait for it, sync, images, header, publish
//! ```
//! The chunk is committed and seen by readers before its thread starts, so nothing waits for the thread but what follows in
//! the files: the sync before the next chunk's images overwrite the other copy. The overlay has the images until then, so
//! nobody reads a page that is being overwritten.

use std::sync::Arc;

use seawall_sync::Mutex;
use seawall_sync::thread::{self, JoinHandle};

use crate::error::TreeError;
use crate::page::Page;
use crate::page_file::PageImage;
use crate::published::PublishedPages;

/// A chunk on its way into the page file. Dropping it waits for the thread.
#[derive(Debug)]
pub(crate) struct InPlaceWrite(Mutex<State>);

#[derive(Debug)]
enum State {
    Running(JoinHandle<Result<(), TreeError>>),
    Written,
    Failed,
}

impl InPlaceWrite {
    /// Has `images`, sorted and published, written by a thread; `None` where no thread can be had.
    pub(crate) fn start(pages: &Arc<PublishedPages>, images: Arc<[Page]>) -> Option<InPlaceWrite> {
        let pages = Arc::clone(pages);
        let builder = thread::Builder::new().name("seawall-page-writer".to_owned());
        let thread = builder.spawn(move || write(&pages, &images)).ok()?;
        Some(InPlaceWrite(Mutex::new(State::Running(thread))))
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// `Io` of the write, and from then on `Unwritable`, each time.
    pub(crate) fn wait(&self) -> Result<(), TreeError> {
        let mut state = self.0.lock();
        // Failed, until it is known to be written.
        let written = match std::mem::replace(&mut *state, State::Failed) {
            State::Running(thread) => thread.join().unwrap_or_else(|_| Err(failed("panicked"))),
            State::Written => Ok(()),
            State::Failed => Err(failed("failed")),
        };
        if written.is_ok() {
            *state = State::Written;
        }
        written
    }
}

fn failed(how: &str) -> TreeError {
    TreeError::Unwritable { reason: format!("the thread that writes pages in place {how}") }
}

impl Drop for InPlaceWrite {
    fn drop(&mut self) {
        if let Err(error) = self.wait() {
            // The images are in the recovery file or the log, and the next open writes them again.
            tracing::warn!(%error, "the last pages of a tree were not written in place before it was closed");
        }
    }
}

/// Writes `images` in place.
///
/// # Errors
/// `Io`, or `Unwritable` if the page file is closed.
pub(crate) fn write(pages: &PublishedPages, images: &[Page]) -> Result<(), TreeError> {
    let images: Vec<PageImage<'_>> = images.iter().map(PageImage::from).collect();
    pages.file().write(&images)
}
