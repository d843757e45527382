//! Calls drawn from a seed before anybody answers them.

use std::fmt;
use std::ops::Bound;

use seawall::{Durability, Isolation};
use seawall_simulation::SeededRandom;

/// Transactions, and snapshots, that may be open at once.
pub(super) const SLOTS: usize = 4;
const TABLES: [&str; 4] = ["a", "b", "c", "größe"];
const GIDS: [&str; 3] = ["one", "two", "three"];
/// A key that no page size takes.
const KEY_BYTES_REFUSED: usize = 6_000;

pub(super) type Key = Vec<u8>;

/// Part of a table, in one of two directions.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) table: &'static str,
    pub(super) bounds: (Bound<Key>, Bound<Key>),
    pub(super) is_reverse: bool,
    pub(super) limit: usize,
}

/// One call; those with a slot go to the transaction there, and begin one if there is none.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Get {
        slot: usize,
        table: &'static str,
        key: Key,
    },
    GetForUpdate {
        slot: usize,
        table: &'static str,
        key: Key,
    },
    Put {
        slot: usize,
        table: &'static str,
        key: Key,
        value: Vec<u8>,
    },
    Delete {
        slot: usize,
        table: &'static str,
        key: Key,
    },
    Scan {
        slot: usize,
        scan: Scan,
    },
    Create {
        slot: usize,
        table: &'static str,
    },
    Drop {
        slot: usize,
        table: &'static str,
    },
    Truncate {
        slot: usize,
        table: &'static str,
    },
    Rename {
        slot: usize,
        from: &'static str,
        to: &'static str,
    },
    Savepoint {
        slot: usize,
    },
    RollbackTo {
        slot: usize,
        savepoint: usize,
    },
    Begin {
        slot: usize,
        isolation: Isolation,
        durability: Durability,
    },
    Commit {
        slot: usize,
    },
    CommitAsync {
        slot: usize,
    },
    Rollback {
        slot: usize,
    },
    Prepare {
        slot: usize,
        gid: &'static str,
    },
    Decide {
        gid: &'static str,
        commits: bool,
    },
    PutDirectly {
        table: &'static str,
        key: Key,
        value: Vec<u8>,
    },
    DeleteDirectly {
        table: &'static str,
        key: Key,
    },
    CreateDirectly {
        table: &'static str,
    },
    DropDirectly {
        table: &'static str,
    },
    TruncateDirectly {
        table: &'static str,
    },
    BulkLoad {
        table: &'static str,
        rows: Vec<(Key, Vec<u8>)>,
        finished: bool,
    },
    TakeSnapshot {
        slot: usize,
    },
    ReadSnapshot {
        slot: usize,
        scan: Scan,
    },
    ReadEverything,
    Checkpoint,
    Flush,
    Check,
    Reopen,
    /// Everything is flushed, and then the power goes.
    LosePower,
}

impl Call {
    /// For counting.
    pub(super) fn name(&self) -> String {
        format!("{self:?}").split([' ', '{']).next().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{self:?}");
        match text.char_indices().nth(200) {
            None => formatter.write_str(&text),
            Some((end, _)) => write!(formatter, "{}...", &text[..end]),
        }
    }
}

/// A history.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) calls: Vec<Call>,
}

impl Script {
    pub(super) fn new(seed: u64) -> Script {
        let mut draw = Draw { random: SeededRandom::new(seed) };
        let count = draw.random.range(80..400);
        let mut calls: Vec<Call> = TABLES[..3].iter().map(|table| Call::CreateDirectly { table }).collect();
        calls.extend((0..count).map(|_| draw.call()));
        calls.extend([Call::ReadEverything, Call::Reopen, Call::ReadEverything, Call::Check]);
        Script { calls }
    }
}

struct Draw {
    random: SeededRandom,
}

impl Draw {
    fn call(&mut self) -> Call {
        let (slot, table) = (self.random.index(SLOTS), self.table());
        match self.random.below(100) {
            0..10 => Call::Get { slot, table, key: self.key() },
            10..13 => Call::GetForUpdate { slot, table, key: self.key() },
            13..33 => Call::Put { slot, table, key: self.key(), value: self.value() },
            33..38 => Call::Delete { slot, table, key: self.key() },
            38..44 => Call::Scan { slot, scan: self.scan() },
            44..48 => self.definition(slot, table),
            48..50 => Call::Savepoint { slot },
            50..52 => Call::RollbackTo { slot, savepoint: self.random.index(3) },
            52..56 => Call::Begin { slot, isolation: self.isolation(), durability: self.durability() },
            56..64 => Call::Commit { slot },
            64..66 => Call::CommitAsync { slot },
            66..68 => Call::Rollback { slot },
            68..70 => Call::Prepare { slot, gid: self.gid() },
            70..73 => Call::Decide { gid: self.gid(), commits: self.random.chance(2, 3) },
            73..81 => self.direct(table),
            81..83 => self.bulk_load(table),
            83..85 => Call::TakeSnapshot { slot },
            85..88 => Call::ReadSnapshot { slot, scan: self.scan() },
            88..91 => Call::ReadEverything,
            91..95 => Call::Checkpoint,
            95..97 => Call::Flush,
            97 => Call::Check,
            98 => Call::Reopen,
            _ => Call::LosePower,
        }
    }

    fn definition(&mut self, slot: usize, table: &'static str) -> Call {
        match self.random.below(4) {
            0 => Call::Create { slot, table },
            1 => Call::Drop { slot, table },
            2 => Call::Truncate { slot, table },
            _ => Call::Rename { slot, from: table, to: self.table() },
        }
    }

    fn direct(&mut self, table: &'static str) -> Call {
        match self.random.below(12) {
            0..6 => Call::PutDirectly { table, key: self.key(), value: self.value() },
            6..8 => Call::DeleteDirectly { table, key: self.key() },
            8 | 9 => Call::CreateDirectly { table },
            10 => Call::DropDirectly { table },
            _ => Call::TruncateDirectly { table },
        }
    }

    fn bulk_load(&mut self, table: &'static str) -> Call {
        let count = self.random.index(80);
        let rows = (0..count).map(|_| (self.key_of(20), self.value())).collect();
        Call::BulkLoad { table, rows, finished: self.random.chance(3, 4) }
    }

    fn table(&mut self) -> &'static str {
        TABLES[self.random.index(TABLES.len())]
    }

    fn gid(&mut self) -> &'static str {
        GIDS[self.random.index(GIDS.len())]
    }

    fn isolation(&mut self) -> Isolation {
        *self.random.pick(&[Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable])
    }

    fn durability(&mut self) -> Durability {
        *self.random.pick(&[Durability::Sync, Durability::Async])
    }

    fn key(&mut self) -> Key {
        if self.random.chance(1, 80) { vec![b'x'; KEY_BYTES_REFUSED] } else { self.key_of(60) }
    }

    /// One of so many short ones, or of some long ones.
    fn key_of(&mut self, count: u64) -> Key {
        let number = self.random.below(count);
        match number % 10 {
            0 => [&vec![b'l'; 900][..], &number.to_be_bytes()].concat(),
            1 => number.to_be_bytes()[7..].to_vec(),
            _ => format!("key {number}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(50) {
            0 => self.random.index(50_000),
            1..6 => self.random.index(4_000),
            6..8 => 0,
            _ => self.random.index(300),
        };
        self.random.bytes(length)
    }

    fn scan(&mut self) -> Scan {
        let bounds = (self.bound(), self.bound());
        let is_reverse = self.random.chance(1, 2);
        let limit = if self.random.chance(1, 3) { self.random.index(6) + 1 } else { usize::MAX };
        Scan { table: self.table(), bounds, is_reverse, limit }
    }

    fn bound(&mut self) -> Bound<Key> {
        match self.random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key_of(60)),
            _ => Bound::Excluded(self.key_of(60)),
        }
    }
}
