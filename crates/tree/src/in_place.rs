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
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_io::Clock;

use crate::error::TreeError;
use crate::page::Page;
use crate::page_file::PageImage;
use crate::published::PublishedPages;

/// What writing took, by the clock of the options.
type Written = Result<Duration, TreeError>;

/// A chunk on its way into the page file. Dropping it waits for the thread.
#[derive(Debug)]
pub(crate) struct InPlaceWrite {
    /// `None` once somebody has waited for it.
    thread: Mutex<Option<JoinHandle<Written>>>,
}

impl InPlaceWrite {
    /// Has `images`, sorted and published, written by a thread.
    ///
    /// # Errors
    /// Gives the images back where no thread can be had.
    pub(crate) fn start(
        pages: &Arc<PublishedPages>,
        images: Arc<[Page]>,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<InPlaceWrite, ()> {
        let pages = Arc::clone(pages);
        let write = move || write(&pages, &images, clock.as_deref());
        let thread = std::thread::Builder::new().name("seawall-page-writer".to_owned()).spawn(write);
        thread.map(|thread| InPlaceWrite { thread: Mutex::new(Some(thread)) }).map_err(|_| ())
    }

    /// Waits until all is written. How long that took is told once.
    ///
    /// # Errors
    /// `Io`, once, of the write.
    pub(crate) fn wait(&self) -> Written {
        let thread = self.thread.lock().take();
        thread.map_or(Ok(Duration::ZERO), |thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for InPlaceWrite {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.lock().take()
            && !matches!(thread.join(), Ok(Ok(_)))
        {
            // The images are in the recovery file or the log, and the next open writes them again.
            tracing::warn!("the last pages of a tree were not written in place before it was closed");
        }
    }
}

/// Writes `images` in place.
///
/// # Errors
/// `Io`, or `Unwritable` if the page file is closed.
pub(crate) fn write(pages: &PublishedPages, images: &[Page], clock: Option<&dyn Clock>) -> Written {
    let now = || clock.map_or(Duration::ZERO, Clock::monotonic);
    let before = now();
    let images: Vec<PageImage<'_>> = images.iter().map(PageImage::from).collect();
    pages.file().write(&images)?;
    Ok(now().saturating_sub(before))
}
