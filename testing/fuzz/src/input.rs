//! Taking a fuzzer's bytes apart: choices first, then content. Every read succeeds; behind the end there are zeros, so
//! that an input cut short means the same up to the cut.

/// A function that takes a fuzzer's bytes.
pub type Entry = fn(&[u8]);

/// Entry functions, by the name of their target.
pub type Entries = [(&'static str, Entry)];

/// Bytes that are used up from the front.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes }
    }

    /// Whether all is used up.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `count` bytes, or as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `limit`, of the next four bytes; zero if `limit` is zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.u32()).unwrap_or(0) % limit.max(1)
    }
}

/// Bits of one byte, each a choice.
#[derive(Clone, Copy, Debug)]
pub struct Choices(u8);

impl Choices {
    /// The next byte of `input`.
    pub fn of(input: &mut Input<'_>) -> Choices {
        Choices(input.byte())
    }

    /// Whether bit `index` is set.
    pub fn has(self, index: u8) -> bool {
        self.0 >> index & 1 == 1
    }

    /// The number in the bits from `index` on, below `limit`.
    pub fn number(self, index: u8, limit: u8) -> u8 {
        (self.0 >> index) % limit
    }
}

/// Applies a list of changes to `bytes`: each a choice, a place, and up to eight new bytes. Places are two bytes; the
/// highest bit counts from the end. Whatever `input` has left is used up. Returns the places that were changed.
pub fn mutate(bytes: &mut [u8], input: &mut Input<'_>) -> Vec<usize> {
    let mut places = Vec::new();
    while !input.is_empty() && !bytes.is_empty() {
        let choices = Choices::of(input);
        let number = usize::from(input.u16());
        let place = number % 0x8000 % bytes.len();
        let place = if number < 0x8000 { place } else { bytes.len() - 1 - place };
        let patch = input.take(usize::from(choices.number(0, 8)) + 1);
        patch_at(bytes, place, patch, choices.has(7));
        places.push(place);
    }
    places
}

/// Replaces, or with `flips` XORs, the bytes at `place`.
pub fn patch_at(bytes: &mut [u8], place: usize, patch: &[u8], flips: bool) {
    let targets = bytes.get_mut(place..).unwrap_or_default();
    for (target, byte) in targets.iter_mut().zip(patch) {
        *target = if flips { *target ^ byte } else { *byte };
    }
}
