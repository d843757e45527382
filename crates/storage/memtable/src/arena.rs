//! Memory that is handed out piece by piece and given back all at once.
//!
//! ```text
//!   chunk 64 KiB | chunk 128 KiB | ... | chunk 16 MiB | chunk 32 MiB | chunk 32 MiB
//!   [####][######][###########]                        [#####...............]
//!                                                            ^ used: one atomic add hands out a piece
//! ```
//! The first chunk comes with the first piece, so an empty arena costs nothing. A chunk takes memory as far as it is used:
//! what a long piece leaves unused at the end of one is address space, but for the rest of a huge page.
#![expect(unsafe_code, reason = "raw memory behind a face that only hands out pieces that do not overlap")]

use std::ptr::{self, NonNull};

use seawall_io::{HUGE_PAGE_BYTES, UnclearedMemory};
use seawall_sync::Mutex;
use seawall_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Chunks start on a cache line; so do pieces, if all sizes asked of an arena are multiples of it.
pub(crate) const LINE_BYTES: usize = 64;
/// Every piece starts at, and is a multiple of, this many bytes.
pub(crate) const PIECE_ALIGNMENT: usize = 8;
const FIRST_CHUNK_BYTES: usize = 64 << 10;
/// A longer piece gets a chunk as long as itself.
const CHUNK_BYTES_MAX: usize = 16 * HUGE_PAGE_BYTES;

/// Hands out pieces of memory that live, unmoved, until the arena is dropped.
pub(crate) struct Arena {
    /// The chunk that pieces come from; null before the first.
    current: AtomicPtr<Chunk>,
    chunks: Mutex<Chunks>,
    /// Bytes that all chunks take but the current one.
    closed_bytes: AtomicUsize,
}

#[derive(Default)]
struct Chunks {
    all: Vec<NonNull<Chunk>>,
    next_bytes: usize,
}

struct Chunk {
    memory: UnclearedMemory,
    /// Offset of the next piece. Past the memory's end once a piece did not fit.
    used: AtomicUsize,
}

// SAFETY: the raw pointers own heap memory that is not tied to a thread; all shared fields are atomic or latched.
unsafe impl Send for Arena {}
// SAFETY: as above; `allocate` gives every piece to one caller only.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena without memory.
    pub(crate) fn new() -> Arena {
        Arena {
            current: AtomicPtr::new(ptr::null_mut()),
            chunks: Mutex::new(Chunks { all: Vec::new(), next_bytes: FIRST_CHUNK_BYTES }),
            closed_bytes: AtomicUsize::new(0),
        }
    }

    /// `bytes` of uninitialised memory, aligned to [`PIECE_ALIGNMENT`], that nobody else has.
    ///
    /// # Panics
    /// If `bytes` is no multiple of the alignment.
    pub(crate) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        assert!(bytes.is_multiple_of(PIECE_ALIGNMENT), "a piece of {bytes} bytes breaks the alignment");
        self.allocate_from_current(bytes).unwrap_or_else(|| self.allocate_slowly(bytes))
    }

    /// Bytes handed out, and those lost at the ends of chunks.
    pub(crate) fn bytes_used(&self) -> usize {
        let closed = self.closed_bytes.load(Ordering::Relaxed);
        // Acquire pairs with the release in `allocate_slowly`: the chunk is complete.
        let Some(chunk) = NonNull::new(self.current.load(Ordering::Acquire)) else { return closed };
        // SAFETY: chunks are freed only in `drop`.
        let chunk = unsafe { chunk.as_ref() };
        let used = chunk.used.load(Ordering::Relaxed);
        // A chunk that a piece did not fit into is counted as closed.
        if used <= chunk.memory.bytes() { closed + used } else { closed }
    }

    fn allocate_from_current(&self, bytes: usize) -> Option<NonNull<u8>> {
        // Acquire pairs with the release in `allocate_slowly`.
        let chunk = NonNull::new(self.current.load(Ordering::Acquire))?;
        // SAFETY: chunks are freed only in `drop`, and `&self` rules that out.
        let chunk = unsafe { chunk.as_ref() };
        // Relaxed: the addition alone decides whose piece it is.
        let offset = chunk.used.fetch_add(bytes, Ordering::Relaxed);
        if offset + bytes > chunk.memory.bytes() {
            if offset <= chunk.memory.bytes() {
                // The first piece that does not fit: no later one will.
                self.closed_bytes.fetch_add(chunk.bytes_touched(offset), Ordering::Relaxed);
            }
            return None;
        }
        // SAFETY: `offset + bytes` lies within the chunk's allocation.
        Some(unsafe { chunk.memory.start().add(offset) })
    }

    #[cold]
    fn allocate_slowly(&self, bytes: usize) -> NonNull<u8> {
        let mut chunks = self.chunks.lock();
        // Whoever held the mutex before may have brought a new chunk.
        if let Some(piece) = self.allocate_from_current(bytes) {
            return piece;
        }
        let step = if bytes < HUGE_PAGE_BYTES { FIRST_CHUNK_BYTES } else { HUGE_PAGE_BYTES };
        let capacity = chunks.next_bytes.max(bytes.next_multiple_of(step));
        chunks.next_bytes = (chunks.next_bytes * 2).min(CHUNK_BYTES_MAX);
        let chunk = Chunk::create(capacity, bytes);
        chunks.all.push(chunk);
        // Release pairs with the acquire loads of `current`: who finds the chunk finds its fields.
        self.current.store(chunk.as_ptr(), Ordering::Release);
        // SAFETY: just created, and its first `bytes` bytes are taken.
        unsafe { chunk.as_ref() }.memory.start()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in &self.chunks.get_mut().all {
            // SAFETY: `Chunk::create` leaked the box; nobody else frees it, and the lifetimes of what was handed out end
            // with the arena.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

impl Chunk {
    /// A chunk of `capacity` bytes whose first `used` are taken. Leaked: `Arena::drop` frees it.
    fn create(capacity: usize, used: usize) -> NonNull<Chunk> {
        let memory = UnclearedMemory::new(capacity);
        NonNull::from(Box::leak(Box::new(Chunk { memory, used: AtomicUsize::new(used) })))
    }

    /// Bytes that the memory takes if its first `used` bytes were written.
    fn bytes_touched(&self, used: usize) -> usize {
        let step = if self.memory.bytes() < HUGE_PAGE_BYTES { 4096 } else { HUGE_PAGE_BYTES };
        used.next_multiple_of(step).min(self.memory.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_are_aligned() {
        let arena = Arena::new();
        assert_eq!(arena.bytes_used(), 0);
        let sizes = [8, 64, 4096, 65536, 300_000, 8, 262_144, 1_048_576, 2_000_000, 16];
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        for size in sizes {
            let piece = arena.allocate(size);
            // SAFETY: the piece has `size` bytes and is ours.
            unsafe { piece.as_ptr().write_bytes(0xA5, size) };
            pieces.push((piece.addr().get(), size));
        }
        pieces.sort_unstable();
        assert!(pieces.iter().all(|(start, _)| start.is_multiple_of(PIECE_ALIGNMENT)));
        assert!(pieces.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert!(arena.bytes_used() >= sizes.iter().sum());
    }

    #[test]
    fn of_long_pieces_less_than_a_huge_page_is_lost_at_the_end_of_each_chunk() {
        let arena = Arena::new();
        for count in 1..=40 {
            let bytes = 5 << 20;
            arena.allocate(bytes);
            let chunk_count = arena.chunks.lock().all.len();
            let used = arena.bytes_used();
            assert!(used >= count * bytes && used < count * bytes + chunk_count * HUGE_PAGE_BYTES, "{used}");
        }
    }

    #[test]
    fn threads_get_pieces_of_their_own() {
        let arena = Arena::new();
        let count = if cfg!(miri) { 50 } else { 20_000 };
        let mut starts: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| (0..count).map(|_| arena.allocate(24).addr().get()).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[0] + 24 <= pair[1]));
    }
}
