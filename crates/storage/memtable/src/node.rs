//! A node of the index: up to 64 keys in order, and 65 children if it is no leaf.
//!
//! ```text
//!   key of every entry under the node:  [ guaranteed | common | head: 8 bytes | rest ]
//!                                        ^ shared by   ^ shared by the keys in the node,
//!                                          both fences   kept in the node, checked in a search
//! ```
//! A search compares heads, which lie side by side in the node; it looks at an entry only where heads are equal.
//! Shorter keys pad their head with zeros, so heads never contradict the order of keys, they only tie.
//!
//! The version number is even when the node is at rest and odd while it is latched. A reader notes it, reads, and
//! believes what it read if the number is still the same ("optimistic lock coupling": Leis, Haubenschild, Neumann,
//! 2019). Nodes and entries are never freed before the memtable, so what is read before that is stale at worst.
#![expect(unsafe_code, reason = "nodes are pieces of an arena linked by pointers, behind safe handles")]

use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

use seawall_sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, Ordering, fence};

use crate::arena::{Arena, LINE_BYTES};
use crate::entry::{EntryHeader, EntryRef};
use crate::spin::spin;

/// Keys in a node, at most.
pub(crate) const FANOUT: usize = 64;
/// Common bytes kept in a node, at most.
const COMMON_BYTES_MAX: usize = 16;
const HEAD_BYTES: usize = 8;
/// Heads that agree in as many bytes are made anew when the node splits: too little is left to tell keys apart.
const DULL_HEAD_BYTES: usize = 4;

#[repr(C, align(64))]
struct Node {
    version: AtomicU64,
    /// 0 for a leaf. Never changes.
    level: u16,
    count: AtomicU16,
    /// Leading bytes that every key between the fences has. A search skips them unseen.
    guaranteed: AtomicU16,
    /// How many bytes of `common` count.
    common_length: AtomicU16,
    /// No key under the node is below it; null for no limit.
    lower: AtomicPtr<EntryHeader>,
    /// Every key under the node is below it; null for no limit.
    upper: AtomicPtr<EntryHeader>,
    /// The bytes behind the guaranteed ones that all keys in the node share, big-endian.
    common: [AtomicU64; 2],
    heads: [AtomicU64; FANOUT],
    keys: [AtomicPtr<EntryHeader>; FANOUT],
}

#[repr(C)]
struct InnerNode {
    node: Node,
    children: [AtomicPtr<Node>; FANOUT + 1],
}

const _: () = assert!(size_of::<Node>().is_multiple_of(LINE_BYTES));
const _: () = assert!(size_of::<InnerNode>().is_multiple_of(LINE_BYTES));

/// Somebody changed a node meanwhile: start again from the root.
#[derive(Debug)]
pub(crate) struct Restart;

/// A version number at which a node was at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeVersion(u64);

/// Where a key is in a node: how many keys are below it, and the entry if it is there.
#[derive(Clone, Copy)]
pub(crate) struct Position<'m> {
    pub(crate) index: usize,
    pub(crate) found: Option<EntryRef<'m>>,
}

/// A node whose arena outlives `'m`, and so do all entries and nodes that it points to.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'m> {
    pointer: NonNull<Node>,
    arena: PhantomData<&'m Arena>,
}

/// The root of an index.
pub(crate) struct Root(AtomicPtr<Node>);

impl Root {
    pub(crate) fn new(node: NodeRef<'_>) -> Root {
        Root(AtomicPtr::new(node.pointer.as_ptr()))
    }

    /// The root now.
    ///
    /// # Safety
    /// The arenas of all nodes and entries under the root must outlive `'m`.
    pub(crate) unsafe fn load<'m>(&self) -> NodeRef<'m> {
        // Acquire pairs with the release in `store`: who finds the root finds its content.
        let pointer = NonNull::new(self.0.load(Ordering::Acquire)).expect("there always is a root");
        NodeRef { pointer, arena: PhantomData }
    }

    /// Makes `node` the root. The caller holds the latch of the old one, or is alone.
    pub(crate) fn store(&self, node: NodeRef<'_>) {
        self.0.store(node.pointer.as_ptr(), Ordering::Release);
    }
}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<'m> NodeRef<'m> {
    /// An empty node, latched: nobody else knows it yet. `arena` must hold nothing but nodes.
    pub(crate) fn create(arena: &'m Arena, level: u16) -> Latched<'m> {
        let bytes = if level == 0 { size_of::<Node>() } else { size_of::<InnerNode>() };
        let piece = arena.allocate(bytes);
        let pointer = piece.cast::<Node>();
        assert!(pointer.is_aligned(), "an arena of nodes hands out whole cache lines");
        // SAFETY: the piece is ours, aligned, and long enough; zeros are valid atomics, and null pointers.
        unsafe {
            piece.write_bytes(0, bytes);
            (&raw mut (*pointer.as_ptr()).level).write(level);
            (&raw mut (*pointer.as_ptr()).version).write(AtomicU64::new(1));
        }
        Latched(NodeRef { pointer, arena: PhantomData })
    }

    /// 0 for a leaf.
    pub(crate) fn level(self) -> u16 {
        self.node().level
    }

    /// How many keys there are.
    pub(crate) fn count(self) -> usize {
        // Acquire pairs with the release in `Latched::set_count`: slots below the count are filled.
        usize::from(self.node().count.load(Ordering::Acquire)).min(FANOUT)
    }

    /// Waits until nobody has the node latched, and gives its version.
    pub(crate) fn read_version(self) -> NodeVersion {
        let mut spins = 0;
        loop {
            // Acquire pairs with the release in `Latched::drop`: what the last writer left is seen.
            let version = self.node().version.load(Ordering::Acquire);
            if version & 1 == 0 {
                return NodeVersion(version);
            }
            spin(&mut spins);
        }
    }

    /// Whether what was read since `version` was read is true.
    pub(crate) fn validate(self, version: NodeVersion) -> Result<(), Restart> {
        // Pairs with the release fence in `try_latch`: if anything read before was written under a later latch, the
        // version read now is that of the latched node, or later.
        fence(Ordering::Acquire);
        if self.node().version.load(Ordering::Relaxed) == version.0 { Ok(()) } else { Err(Restart) }
    }

    /// Latches the node if it still has `version`.
    pub(crate) fn try_latch(self, version: NodeVersion) -> Result<Latched<'m>, Restart> {
        let latched = version.0 + 1;
        self.node()
            .version
            .compare_exchange(version.0, latched, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Restart)?;
        // Pairs with the acquire fence in `validate`.
        fence(Ordering::Release);
        Ok(Latched(self))
    }

    /// The entry of key `index`; `None` only if the node changed meanwhile.
    pub(crate) fn entry(self, index: usize) -> Option<EntryRef<'m>> {
        // Acquire pairs with the release in `Latched::set_slot`: the entry's key is seen.
        let raw = self.node().keys.get(index)?.load(Ordering::Acquire);
        // SAFETY: slots hold null or entries of the same memtable.
        unsafe { EntryRef::from_raw(raw) }
    }

    /// Child `index` of an inner node: the keys from separator `index - 1` up to separator `index`.
    pub(crate) fn child(self, index: usize) -> Option<NodeRef<'m>> {
        // Acquire pairs with the release in `Latched::set_child`.
        let raw = self.children().get(index)?.load(Ordering::Acquire);
        NonNull::new(raw).map(|pointer| NodeRef { pointer, arena: PhantomData })
    }

    /// The lower fence; `None` for no limit.
    pub(crate) fn lower(self) -> Option<EntryRef<'m>> {
        // SAFETY: fences are null or entries of the same memtable. Acquire as in `entry`.
        unsafe { EntryRef::from_raw(self.node().lower.load(Ordering::Acquire)) }
    }

    /// The upper fence; `None` for no limit.
    pub(crate) fn upper(self) -> Option<EntryRef<'m>> {
        // SAFETY: as for `lower`.
        unsafe { EntryRef::from_raw(self.node().upper.load(Ordering::Acquire)) }
    }

    /// Where `key`, which lies between the fences, is or would be.
    pub(crate) fn search(self, key: &[u8]) -> Position<'m> {
        let count = self.count();
        let head = match self.place(key) {
            Place::BeforeAll => return Position { index: 0, found: None },
            Place::AfterAll => return Position { index: count, found: None },
            Place::Among(head) => head,
        };
        let mut index = self.heads_below(head, count);
        let mut end = index;
        while end < count && self.head(end) == head {
            end += 1;
        }
        // Mostly none or one; keys longer than the head and alike that far are told apart by themselves.
        while index < end {
            let middle = index.midpoint(end);
            // A missing entry means that the node changed: any answer will do, validation refuses it.
            let Some(entry) = self.entry(middle) else { break };
            entry.pointer().prefetch();
            match entry.key().cmp(key) {
                Order::Less => index = middle + 1,
                Order::Equal => return Position { index: middle, found: Some(entry) },
                Order::Greater => end = middle,
            }
        }
        Position { index, found: None }
    }

    /// Starts loading the whole node into the cache: one wait instead of one for each array. `level` is the node's.
    pub(crate) fn prefetch(self, level: u16) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = self.pointer.as_ptr().cast::<i8>();
            let bytes = if level == 0 { size_of::<Node>() } else { size_of::<InnerNode>() };
            for line in 0..bytes / LINE_BYTES {
                // SAFETY: a prefetch reads nothing and cannot fault.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE_BYTES)) };
            }
        }
    }

    /// How many of the first `count` heads are below `head`.
    fn heads_below(self, head: u64, count: usize) -> usize {
        let heads = &self.node().heads;
        let mut base = 0;
        let mut size = count;
        while size > 1 {
            let half = size / 2;
            // Kept free of branches: which way a search goes cannot be guessed.
            base += if heads[(base + half - 1) % FANOUT].load(Ordering::Relaxed) < head { half } else { 0 };
            size -= half;
        }
        base + usize::from(size == 1 && heads[base % FANOUT].load(Ordering::Relaxed) < head)
    }

    /// Where `key` is in relation to the prefix that the keys of the node share.
    fn place(self, key: &[u8]) -> Place {
        let node = self.node();
        let rest = key.get(usize::from(node.guaranteed.load(Ordering::Relaxed))..).unwrap_or(&[]);
        let common_length = usize::from(node.common_length.load(Ordering::Relaxed));
        if common_length == 0 {
            return Place::Among(head_of(rest));
        }
        match self.compare_with_common(rest, common_length) {
            Order::Less => Place::BeforeAll,
            Order::Greater => Place::AfterAll,
            Order::Equal => Place::Among(head_of(&rest[common_length..])),
        }
    }

    /// `Equal` only if `rest` begins with the common bytes.
    fn compare_with_common(self, rest: &[u8], common_length: usize) -> Order {
        let common = &self.node().common;
        let first = head_of(rest) & mask(common_length);
        let mut order = first.cmp(&common[0].load(Ordering::Relaxed));
        if order == Order::Equal && common_length > HEAD_BYTES {
            let second = head_of(rest.get(HEAD_BYTES..).unwrap_or(&[])) & mask(common_length - HEAD_BYTES);
            order = second.cmp(&common[1].load(Ordering::Relaxed));
        }
        // Padded with zeros it looked equal: a key that ends within the common bytes is below all that go on.
        if order == Order::Equal && rest.len() < common_length { Order::Less } else { order }
    }

    /// Leading bytes of the keys that the heads leave out.
    fn head_offset(self) -> usize {
        let node = self.node();
        usize::from(node.guaranteed.load(Ordering::Relaxed))
            + usize::from(node.common_length.load(Ordering::Relaxed))
    }

    fn head(self, index: usize) -> u64 {
        // Relaxed, as all heads and prefixes: validated by the version.
        self.node().heads[index % FANOUT].load(Ordering::Relaxed)
    }

    fn node(&self) -> &'m Node {
        // SAFETY: `create` wrote it, and only its atomic fields change.
        unsafe { self.pointer.as_ref() }
    }

    fn children(&self) -> &'m [AtomicPtr<Node>; FANOUT + 1] {
        assert!(self.level() > 0, "a leaf has no children");
        // SAFETY: a node above level 0 was created as an `InnerNode`; the pointer is that of the whole piece.
        unsafe { &(*self.pointer.cast::<InnerNode>().as_ptr()).children }
    }
}

enum Place {
    BeforeAll,
    AfterAll,
    /// Has the prefix; the head of the key.
    Among(u64),
}

/// A node that only its owner may change; dropping it lets the others in.
pub(crate) struct Latched<'m>(NodeRef<'m>);

impl<'m> Latched<'m> {
    pub(crate) fn node(&self) -> NodeRef<'m> {
        self.0
    }

    /// Sets the fences; `None` for no limit.
    pub(crate) fn set_fences(&self, lower: Option<EntryRef<'m>>, upper: Option<EntryRef<'m>>) {
        let raw = |entry: Option<EntryRef<'m>>| entry.map_or(std::ptr::null_mut(), EntryRef::raw);
        let node = self.0.node();
        node.lower.store(raw(lower), Ordering::Release);
        node.upper.store(raw(upper), Ordering::Release);
    }

    /// Inserts a key at `index` of a node that is not full, and for an inner node the child on its right.
    pub(crate) fn insert(&self, index: usize, entry: EntryRef<'m>, right_child: Option<NodeRef<'m>>) {
        let count = self.0.count();
        assert!(index <= count && count < FANOUT, "key {index} of {count}");
        self.admit(entry.key());
        let node = self.0.node();
        for slot in (index..count).rev() {
            node.heads[slot + 1].store(node.heads[slot].load(Ordering::Relaxed), Ordering::Relaxed);
            // Release, although only moved: a reader may meet the entry first in its new slot.
            node.keys[slot + 1].store(node.keys[slot].load(Ordering::Relaxed), Ordering::Release);
        }
        self.set_slot(index, entry);
        if let Some(child) = right_child {
            for slot in (index + 1..=count).rev() {
                let moved = self.0.children()[slot].load(Ordering::Relaxed);
                self.0.children()[slot + 1].store(moved, Ordering::Release);
            }
            self.set_child(index + 1, child);
        }
        self.set_count(count + 1);
    }

    /// Sets child `index` of an inner node.
    pub(crate) fn set_child(&self, index: usize, child: NodeRef<'m>) {
        self.0.children()[index].store(child.pointer.as_ptr(), Ordering::Release);
    }

    /// Replaces all keys of a new node, whose fences are set.
    pub(crate) fn fill(&self, entries: &[EntryRef<'m>]) {
        assert!(entries.len() <= FANOUT, "{} keys in a node", entries.len());
        for (slot, entry) in self.0.node().keys.iter().zip(entries) {
            slot.store(entry.raw(), Ordering::Release);
        }
        self.set_count(entries.len());
        self.choose_prefix();
    }

    /// Moves the upper part of this node into `right`, which is new; returns the separator between the two.
    /// From a leaf the keys from `middle` on move; from an inner one those behind `middle`, which moves up.
    pub(crate) fn split_into(&self, right: &Latched<'m>, middle: usize) -> EntryRef<'m> {
        let count = self.0.count();
        let separator = self.0.entry(middle).expect("latched, so the slots below the count are filled");
        let is_leaf = self.0.level() == 0;
        let first = if is_leaf { middle } else { middle + 1 };
        let (from, to) = (self.0.node(), right.0.node());
        for slot in first..count {
            to.heads[slot - first].store(from.heads[slot].load(Ordering::Relaxed), Ordering::Relaxed);
            to.keys[slot - first].store(from.keys[slot].load(Ordering::Relaxed), Ordering::Release);
        }
        if !is_leaf {
            for slot in first..=count {
                right.0.children()[slot - first]
                    .store(self.0.children()[slot].load(Ordering::Relaxed), Ordering::Release);
            }
        }
        right.copy_prefix(self.0);
        right.set_count(count - first);
        right.set_fences(Some(separator), self.0.upper());
        self.set_count(middle);
        self.set_fences(self.0.lower(), Some(separator));
        self.sharpen();
        right.sharpen();
        separator
    }

    /// Makes the prefix short enough for `key` to have it, too.
    fn admit(&self, key: &[u8]) {
        let node = self.0.node();
        let common_length = usize::from(node.common_length.load(Ordering::Relaxed));
        if self.0.count() == 0 || common_length == 0 {
            // The prefix of an empty node says nothing; a guaranteed one fits every key between the fences.
            if common_length != 0 {
                self.set_prefix(&[], usize::from(node.guaranteed.load(Ordering::Relaxed)), 0);
            }
            return;
        }
        let guaranteed = usize::from(node.guaranteed.load(Ordering::Relaxed));
        if self.0.compare_with_common(&key[guaranteed..], common_length) != Order::Equal {
            let first = self.first_key();
            let shared = common_bytes(first, key).clamp(guaranteed, guaranteed + common_length);
            self.set_prefix(first, guaranteed, shared - guaranteed);
        }
    }

    /// Chooses a new prefix if the heads have too little left to tell keys apart by.
    fn sharpen(&self) {
        let count = self.0.count();
        if count < 2 {
            return;
        }
        let alike = (self.0.head(0) ^ self.0.head(count - 1)).leading_zeros() / 8;
        if alike as usize >= DULL_HEAD_BYTES {
            self.choose_prefix();
        }
    }

    /// The longest prefix that all keys share, but no longer than leaves eight bytes of the key for the head.
    fn choose_prefix(&self) {
        let (Some(first), Some(last)) =
            (self.0.entry(0), self.0.count().checked_sub(1).and_then(|i| self.0.entry(i)))
        else {
            return;
        };
        let guaranteed = match (self.0.lower(), self.0.upper()) {
            (Some(lower), Some(upper)) => common_bytes(lower.key(), upper.key()),
            (None, _) | (_, None) => 0,
        };
        let shared = common_bytes(first.key(), last.key());
        let enough = first.key().len().max(last.key().len()).saturating_sub(HEAD_BYTES);
        let offset = shared.min(enough).clamp(guaranteed, guaranteed + COMMON_BYTES_MAX);
        self.set_prefix(first.key(), guaranteed, offset - guaranteed);
    }

    /// Sets the prefix, taken from the key `first`, and makes all heads anew.
    fn set_prefix(&self, first: &[u8], guaranteed: usize, common_length: usize) {
        let node = self.0.node();
        let common = first.get(guaranteed..guaranteed + common_length).unwrap_or(&[]);
        let length = |bytes: usize| u16::try_from(bytes).expect("a prefix is no longer than a key");
        node.guaranteed.store(length(guaranteed), Ordering::Relaxed);
        node.common_length.store(length(common.len()), Ordering::Relaxed);
        node.common[0].store(head_of(common), Ordering::Relaxed);
        node.common[1].store(head_of(common.get(HEAD_BYTES..).unwrap_or(&[])), Ordering::Relaxed);
        for slot in 0..self.0.count() {
            let entry = self.0.entry(slot).expect("latched, so the slots below the count are filled");
            node.heads[slot].store(self.head_for(entry.key()), Ordering::Relaxed);
        }
    }

    fn copy_prefix(&self, other: NodeRef<'m>) {
        let (from, to) = (other.node(), self.0.node());
        to.guaranteed.store(from.guaranteed.load(Ordering::Relaxed), Ordering::Relaxed);
        to.common_length.store(from.common_length.load(Ordering::Relaxed), Ordering::Relaxed);
        for (from, to) in from.common.iter().zip(&to.common) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn set_slot(&self, index: usize, entry: EntryRef<'m>) {
        let node = self.0.node();
        node.heads[index].store(self.head_for(entry.key()), Ordering::Relaxed);
        // Release pairs with the acquire in `NodeRef::entry`.
        node.keys[index].store(entry.raw(), Ordering::Release);
    }

    fn set_count(&self, count: usize) {
        let count = u16::try_from(count).expect("at most the fanout");
        // Release pairs with the acquire in `NodeRef::count`.
        self.0.node().count.store(count, Ordering::Release);
    }

    fn head_for(&self, key: &[u8]) -> u64 {
        head_of(key.get(self.0.head_offset()..).unwrap_or(&[]))
    }

    fn first_key(&self) -> &'m [u8] {
        self.0.entry(0).expect("the node has keys").key()
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        // Release pairs with the acquire in `read_version`. Only the holder of the latch writes the version.
        self.0.node().version.fetch_add(1, Ordering::Release);
    }
}

/// The first eight bytes as a number that orders like them; zeros stand for what is missing.
pub(crate) fn head_of(bytes: &[u8]) -> u64 {
    if let Some(head) = bytes.first_chunk::<HEAD_BYTES>() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(head)
}

/// Ones in the first `bytes` bytes.
fn mask(bytes: usize) -> u64 {
    if bytes >= HEAD_BYTES { u64::MAX } else { !(u64::MAX >> (8 * bytes)) }
}

fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_types::Lsn;

    #[test]
    fn keys_are_found_whatever_prefix_they_share() {
        let keys: [&[u8]; 11] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0\0a",
            b"a",
            b"a\0",
            b"a\0\0",
            b"a\0\0\0\0\0\0\0\0\0b",
            b"ab",
            b"abcdefghij",
            b"b",
        ];
        for order in [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [7, 6, 5, 9, 8, 4, 10, 3, 2, 1, 0]] {
            let arena = Arena::new();
            let rows = Arena::new();
            let node = NodeRef::create(&arena, 0);
            for (inserted, index) in order.into_iter().enumerate() {
                let position = node.node().search(keys[index]);
                assert!(position.found.is_none());
                node.insert(position.index, EntryRef::create(&rows, keys[index], Lsn::ZERO, None), None);
                if inserted % 3 == 2 {
                    node.choose_prefix();
                }
            }
            for (index, key) in keys.into_iter().enumerate() {
                let position = node.node().search(key);
                assert_eq!(position.index, index, "{key:?}");
                assert_eq!(position.found.unwrap().key(), key);
            }
        }
    }

    #[test]
    fn a_changed_node_is_noticed() {
        let arena = Arena::new();
        let rows = Arena::new();
        let latched = NodeRef::create(&arena, 0);
        let node = latched.node();
        drop(latched);
        let version = node.read_version();
        assert!(node.validate(version).is_ok());
        let latched = node.try_latch(version).unwrap();
        latched.insert(0, EntryRef::create(&rows, b"a", Lsn::ZERO, None), None);
        assert!(node.validate(version).is_err());
        drop(latched);
        assert!(node.validate(version).is_err());
        assert!(node.try_latch(version).is_err());
        assert!(node.validate(node.read_version()).is_ok());
    }
}
