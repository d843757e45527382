//! Rows dealt out over temporary files by the hash of their keys: equal rows come into one file, which is then small enough.

use seawall_values::{Datum, SqlResult};

use super::super::context::Context;
use super::super::node::Node;
use super::{SpillFile, SpillReader};

/// Into how many files rows are dealt.
const COUNT: usize = 16;

/// How many times rows are dealt out again. Files that are too large after that have mostly one key, and are kept in memory as they are.
const LEVELS_MAX: u32 = 7;

/// Files of one level.
#[derive(Debug)]
pub(crate) struct Partitions {
    level: u32,
    files: [Option<SpillFile>; COUNT],
}

/// A part of the rows: a file of an earlier level.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: SpillFile,
    pub(crate) level: u32,
}

impl Partitions {
    /// Whether rows of this level can be dealt out.
    pub(crate) fn can_split(level: u32) -> bool {
        level < LEVELS_MAX
    }

    pub(crate) fn new(level: u32) -> Partitions {
        Partitions { level, files: Default::default() }
    }

    fn index(&self, hash: u64) -> usize {
        // High bits: hash tables take the low ones.
        let bits = (hash >> (60 - 4 * self.level.min(15))) & (COUNT as u64 - 1);
        usize::try_from(bits).unwrap_or(0)
    }

    pub(crate) fn push(&mut self, hash: u64, row: &[Datum], context: &Context<'_>) -> SqlResult<()> {
        let index = self.index(hash);
        let file = match &mut self.files[index] {
            Some(file) => file,
            none => none.insert(SpillFile::create(&context.state.memory.limits().temporary_files)?),
        };
        file.push(row)?;
        Ok(())
    }

    /// The files that have rows. They get no more.
    pub(crate) fn into_parts(mut self) -> SqlResult<impl Iterator<Item = Part>> {
        let level = self.level + 1;
        self.files.iter_mut().flatten().try_for_each(SpillFile::finish)?;
        Ok(self.files.into_iter().flatten().map(move |file| Part { file, level }))
    }

    /// The files of two sides, in pairs; one side of a pair may be empty.
    pub(crate) fn into_pairs(
        mut self,
        mut other: Partitions,
    ) -> SqlResult<impl Iterator<Item = (Option<Part>, Option<Part>)>> {
        let level = self.level + 1;
        self.files.iter_mut().chain(&mut other.files).flatten().try_for_each(SpillFile::finish)?;
        let part = move |file: Option<SpillFile>| file.map(|file| Part { file, level });
        Ok(self.files.into_iter().zip(other.files).map(move |(left, right)| (part(left), part(right))))
    }
}

/// Where rows of one side come from: a node, or a part.
#[derive(Debug)]
pub(crate) enum Source {
    Node,
    Part(SpillFile, SpillReader),
    Nothing,
}

impl Source {
    pub(crate) fn part(part: Option<Part>) -> Source {
        part.map_or(Source::Nothing, |part| Source::Part(part.file, SpillReader::default()))
    }

    /// The next row, into slots. Values of a part beyond the slots go to `rest`.
    pub(crate) fn next(
        &mut self,
        node: &mut Box<dyn Node>,
        slots: &[usize],
        rest: &mut Vec<Datum>,
        context: &mut Context<'_>,
    ) -> SqlResult<bool> {
        rest.clear();
        match self {
            Source::Node => node.next(context),
            Source::Nothing => Ok(false),
            Source::Part(file, reader) => {
                context.tick()?;
                let mut row = Vec::with_capacity(slots.len() + 1);
                if !reader.next(file, &mut row)? {
                    return Ok(false);
                }
                rest.extend(row.drain(slots.len()..));
                context.restore(slots, row);
                Ok(true)
            }
        }
    }
}
