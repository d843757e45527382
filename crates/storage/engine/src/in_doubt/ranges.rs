//! Ranges of row keys, and the question whether any of them covers a key: a treap (Seidel and Aragon, Algorithmica 1996)
//! ordered by the starts, where each node knows the last end below it (an interval tree, Cormen et al., chapter on augmenting
//! data structures). Entering, removing and asking take a number of steps that grows with the logarithm of the count, however
//! the ranges overlap; asking, so many again for each range that covers the key and does not count.

use std::sync::Arc;

/// The end of a range: no key from it on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Before(Arc<[u8]>),
    Unbounded,
}

impl End {
    fn is_behind(&self, key: &[u8]) -> bool {
        match self {
            End::Before(end) => key < &end[..],
            End::Unbounded => true,
        }
    }
}

/// Where a range is in the map: its start, and a number of its own.
pub(crate) type RangeId = (Arc<[u8]>, u64);

type Link<H> = Option<Box<Node<H>>>;

#[derive(Debug)]
struct Node<H> {
    id: RangeId,
    end: End,
    holder: H,
    priority: u64,
    /// The last end in this node and below it.
    last: End,
    left: Link<H>,
    right: Link<H>,
}

impl<H> Node<H> {
    fn update(&mut self) {
        let below = [&self.left, &self.right].into_iter().flatten().map(|node| &node.last);
        self.last = below.fold(&self.end, |last, other| last.max(other)).clone();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RangeMap<H> {
    root: Link<H>,
    next_number: u64,
}

impl<H> Default for RangeMap<H> {
    fn default() -> RangeMap<H> {
        RangeMap { root: None, next_number: 0 }
    }
}

impl<H> RangeMap<H> {
    pub(crate) fn insert(&mut self, start: Arc<[u8]>, end: End, holder: H) -> RangeId {
        self.next_number += 1;
        let id = (start, self.next_number);
        // Numbers that look random keep it balanced, whatever the order of the starts.
        let priority = mix(self.next_number);
        let (last, left, right) = (end.clone(), None, None);
        let node = Box::new(Node { id: id.clone(), end, holder, priority, last, left, right });
        let (before, behind) = split(self.root.take(), &id);
        self.root = merge(merge(before, Some(node)), behind);
        id
    }

    pub(crate) fn remove(&mut self, id: &RangeId) {
        remove(&mut self.root, id);
    }

    /// Whether the key is covered by a range whose holder counts.
    pub(crate) fn any_covers(&self, key: &[u8], counts: &impl Fn(&H) -> bool) -> bool {
        any_covers(&self.root, key, counts)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

/// The final mix of splitmix64 (Steele et al., OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// What comes before `id`, and the rest.
fn split<H>(link: Link<H>, id: &RangeId) -> (Link<H>, Link<H>) {
    let Some(mut node) = link else { return (None, None) };
    if node.id < *id {
        let (before, behind) = split(node.right.take(), id);
        node.right = before;
        node.update();
        (Some(node), behind)
    } else {
        let (before, behind) = split(node.left.take(), id);
        node.left = behind;
        node.update();
        (before, Some(node))
    }
}

/// All of `left` comes before all of `right`.
fn merge<H>(left: Link<H>, right: Link<H>) -> Link<H> {
    match (left, right) {
        (None, other) | (other, None) => other,
        (Some(mut left), Some(mut right)) => {
            if left.priority > right.priority {
                left.right = merge(left.right.take(), Some(right));
                left.update();
                Some(left)
            } else {
                right.left = merge(Some(left), right.left.take());
                right.update();
                Some(right)
            }
        }
    }
}

fn remove<H>(link: &mut Link<H>, id: &RangeId) {
    let Some(node) = link else { return };
    match id.cmp(&node.id) {
        std::cmp::Ordering::Less => remove(&mut node.left, id),
        std::cmp::Ordering::Greater => remove(&mut node.right, id),
        std::cmp::Ordering::Equal => {
            let (left, right) = (node.left.take(), node.right.take());
            *link = merge(left, right);
            return;
        }
    }
    node.update();
}

fn any_covers<H>(link: &Link<H>, key: &[u8], counts: &impl Fn(&H) -> bool) -> bool {
    let Some(node) = link else { return false };
    // Where the start is not behind the key, the range with the last end of those before it covers the key: nobody looks
    // there in vain.
    node.last.is_behind(key)
        && (any_covers(&node.left, key, counts)
            || (node.id.0[..] <= *key
                && ((node.end.is_behind(key) && counts(&node.holder))
                    || any_covers(&node.right, key, counts))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_a_list_of_the_ranges_says() {
        let mut seed = 7;
        let mut draw = |below: u64| {
            seed += 1;
            mix(seed) % below
        };
        let mut map = RangeMap::default();
        let mut list: Vec<(RangeId, End, u64)> = Vec::new();
        for step in 0..20_000_u64 {
            if draw(2) == 0 || list.len() > 60 {
                let chosen = usize::try_from(draw(list.len().max(1) as u64)).unwrap();
                if chosen < list.len() {
                    let (id, ..) = list.swap_remove(chosen);
                    map.remove(&id);
                }
            } else {
                let start = draw(200).to_be_bytes();
                let end = match draw(8) {
                    0 => End::Unbounded,
                    _ => End::Before(Arc::from(&draw(200).to_be_bytes()[..])),
                };
                let holder = draw(3);
                let id = map.insert(Arc::from(&start[..]), end.clone(), holder);
                list.push((id, end, holder));
            }
            let (key, other) = (draw(200).to_be_bytes(), draw(3));
            let expected = list
                .iter()
                .any(|(id, end, holder)| id.0[..] <= key[..] && end.is_behind(&key) && *holder != other);
            assert_eq!(map.any_covers(&key, &|holder| *holder != other), expected, "step {step}");
        }
        list.iter().for_each(|(id, ..)| map.remove(id));
        assert!(map.is_empty());
    }

    #[test]
    fn it_stays_shallow_whatever_the_order() {
        fn depth<H>(link: &Link<H>) -> usize {
            link.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
        }
        let mut map = RangeMap::default();
        for number in 0..100_000_u64 {
            map.insert(Arc::from(&number.to_be_bytes()[..]), End::Unbounded, ());
        }
        assert!(depth(&map.root) < 60, "{}", depth(&map.root));
    }
}
