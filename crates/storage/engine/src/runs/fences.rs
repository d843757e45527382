//! Where leaves begin, of the main part of the tree and of runs, by row keys. Only interior pages are read.

use seawall_tree::{GroupLeaf, Groups, Tree, TreeError};

use crate::catalog::first_local_key;
use crate::row_key;

/// Where the leaves of the main part and of runs begin, behind some row key: row keys, ascending.
pub(crate) struct MergedFences<'t> {
    /// The main part first.
    sources: Vec<Fences<'t>>,
}

impl<'t> MergedFences<'t> {
    pub(crate) fn begin(
        tree: &'t Tree,
        prefixes: &[[u8; row_key::TABLE_BYTES]],
        start: &[u8],
    ) -> Result<MergedFences<'t>, TreeError> {
        let mut sources = vec![Fences::begin(tree, &[], start)?];
        for prefix in prefixes {
            sources.push(Fences::begin(tree, prefix, start)?);
        }
        Ok(MergedFences { sources })
    }

    /// The next one, and whose it is: 0 for the main part, which comes first if a run's is equal.
    pub(crate) fn next_fence(&mut self) -> Result<Option<(usize, Vec<u8>)>, TreeError> {
        let heads = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(index, source)| Some((source.head.as_ref()?, index)));
        let Some((_, index)) = heads.min() else { return Ok(None) };
        Ok(self.sources[index].take()?.map(|fence| (index, fence)))
    }
}

/// Where the leaves of the main part, or of a run, begin: row keys, ascending.
pub(crate) struct Fences<'t> {
    groups: Groups<'t>,
    leaves: std::vec::IntoIter<GroupLeaf>,
    prefix_bytes: usize,
    /// Key in the tree; fences up to here are passed over.
    from: Vec<u8>,
    /// The end of its keys in the tree.
    to: Vec<u8>,
    head: Option<Vec<u8>>,
}

impl<'t> Fences<'t> {
    /// Those behind the row key `start`.
    pub(crate) fn begin(tree: &'t Tree, prefix: &[u8], start: &[u8]) -> Result<Fences<'t>, TreeError> {
        let to = match row_key::table_of(prefix) {
            Some(table) => row_key::table_range(table).1,
            None => first_local_key().to_vec(),
        };
        let from = [prefix, start].concat();
        let groups = tree.groups(&from, &to);
        let leaves = Vec::new().into_iter();
        let mut fences = Fences { groups, leaves, prefix_bytes: prefix.len(), from, to, head: None };
        fences.step()?;
        Ok(fences)
    }

    /// The next one.
    pub(crate) fn take(&mut self) -> Result<Option<Vec<u8>>, TreeError> {
        let fence = self.head.take();
        if fence.is_some() {
            self.step()?;
        }
        Ok(fence)
    }

    fn step(&mut self) -> Result<(), TreeError> {
        loop {
            for leaf in self.leaves.by_ref() {
                if leaf.lower >= self.to {
                    return Ok(());
                }
                if leaf.lower > self.from {
                    self.head = Some(leaf.lower[self.prefix_bytes..].to_vec());
                    return Ok(());
                }
            }
            let Some(group) = self.groups.next().transpose()? else { return Ok(()) };
            self.leaves = group.leaves.into_iter();
        }
    }
}
