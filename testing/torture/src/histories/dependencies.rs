//! Who must come after whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::anomaly::{Anomaly, CycleKind, Kind};
use super::cycles::Digraph;
use super::history::{Element, History, Key, Outcome, Transaction};
use super::lists::Lists;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It appended right behind the other.
    WriteWrite { key: Key, before: Element, after: Element },
    /// It read what the other appended last.
    WriteRead { key: Key, element: Element },
    /// It appended what the other did not read.
    ReadWrite { key: Key, element: Element },
    /// It began after the other had ended, or after its server had applied the other.
    RealTime,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    from: usize,
    to: usize,
    why: Why,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Why::WriteWrite { .. } => "ww",
            Why::WriteRead { .. } => "wr",
            Why::ReadWrite { .. } => "rw",
            Why::RealTime => "real time",
        }
    }
}

impl Edge {
    fn is_read_write(&self) -> bool {
        matches!(self.why, Why::ReadWrite { .. })
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Edge { from, to, why } = self;
        match why {
            Why::WriteWrite { key, before, after } => {
                write!(formatter, "ww: {to} appended {after} to list {key} behind {before} of {from}")
            }
            Why::WriteRead { key, element } => {
                write!(formatter, "wr: {to} read {element} in list {key}, appended by {from}")
            }
            Why::ReadWrite { key, element } => {
                write!(formatter, "rw: {to} appended {element} to list {key}, which {from} did not see")
            }
            Why::RealTime => write!(formatter, "rt: {from} had ended, or was applied, before {to} began"),
        }
    }
}

/// The dependencies of a history.
#[derive(Debug)]
pub(super) struct Dependencies {
    node_count: usize,
    edges: Vec<Edge>,
}

impl Dependencies {
    pub(super) fn new(history: &History, lists: &Lists) -> Dependencies {
        let mut dependencies = Dependencies { node_count: history.len(), edges: Vec::new() };
        dependencies.add_write_order(lists);
        for (index, transaction) in
            history.iter().enumerate().filter(|(_, transaction)| transaction.is_committed())
        {
            for (key, list) in transaction.reads() {
                dependencies.add_read(lists, index, key, list);
            }
        }
        dependencies.add_real_time(history, lists);
        dependencies
    }

    fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges.push(Edge { from, to, why });
        }
    }

    fn add_write_order(&mut self, lists: &Lists) {
        for (key, order) in lists.orders() {
            for pair in order.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                if let (Some(from), Some(to)) = (lists.writer(key, before), lists.writer(key, after)) {
                    self.add(from, to, Why::WriteWrite { key, before, after });
                }
            }
        }
    }

    fn add_read(&mut self, lists: &Lists, reader: usize, key: Key, list: &[Element]) {
        if let Some(element) = lists.last_foreign(key, list, reader)
            && let Some(writer) = lists.writer(key, element)
        {
            self.add(writer, reader, Why::WriteRead { key, element });
        }
        // Behind its own appends: whoever appended between its read and them is a cycle, and to be found.
        let unseen = lists.order(key).get(list.len()..).unwrap_or_default();
        let foreign = unseen.iter().map(|&element| (element, lists.writer(key, element)));
        if let Some((element, Some(writer))) = foreign.into_iter().find(|(_, writer)| *writer != Some(reader))
        {
            self.add(reader, writer, Why::ReadWrite { key, element });
        }
    }

    /// From each transaction to those that must see it because of when they began.
    fn add_real_time(&mut self, history: &History, lists: &Lists) {
        let took_place = |index: &usize| {
            let transaction = &history[*index];
            let was_seen = |(key, element): (Key, Element)| lists.order(key).contains(&element);
            match transaction.outcome {
                Outcome::Committed => true,
                Outcome::Aborted => false,
                Outcome::Unknown => transaction.appends().any(was_seen),
            }
        };
        let nodes: Vec<usize> = (0..history.len()).filter(took_place).collect();
        let of = |is_wanted: &dyn Fn(&Transaction) -> bool| -> Vec<usize> {
            nodes.iter().copied().filter(|index| is_wanted(&history[*index])).collect()
        };
        // Primaries follow each other; and what a standby has shown, it shows from then on.
        self.add_later(history, &of(&|transaction| !transaction.place.is_standby));
        let lagging = of(&|transaction| transaction.place.is_standby);
        let servers: BTreeSet<u32> = lagging.iter().map(|index| history[*index].place.server).collect();
        for server in servers {
            self.add_later(history, &of(&|transaction| transaction.place.server == server));
        }
        let by_begin: HashMap<u64, usize> =
            nodes.iter().map(|index| (history[*index].begin, *index)).collect();
        for index in lagging {
            if let Some(&from) = history[index].place.awaited.and_then(|begin| by_begin.get(&begin)) {
                self.edges.push(Edge { from, to: index, why: Why::RealTime });
            }
        }
    }

    /// From each of `nodes` to those that began after its end; edges that follow from others are left out, so that there are at most as
    /// many for each transaction as there are clients.
    fn add_later(&mut self, history: &History, nodes: &[usize]) {
        let begins = nodes.iter().map(|&index| (history[index].begin, false, index));
        let ends = nodes.iter().map(|&index| (history[index].end, true, index));
        let mut moments: Vec<(u64, bool, usize)> = begins.chain(ends).collect();
        moments.sort_unstable();
        // Who has ended, and nobody who began after that has ended yet.
        let mut frontier: Vec<usize> = Vec::new();
        for (_, is_end, index) in moments {
            if is_end {
                frontier.retain(|other| history[*other].end > history[index].begin);
                frontier.push(index);
            } else {
                frontier
                    .iter()
                    .for_each(|&other| self.edges.push(Edge { from: other, to: index, why: Why::RealTime }));
            }
        }
    }

    /// How many there are of each kind.
    pub(super) fn count(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        self.edges.iter().for_each(|edge| *counts.entry(edge.why.name()).or_default() += 1);
        counts
    }

    /// One short cycle of each group of transactions that are on one of this kind.
    pub(super) fn cycles(&self, kind: CycleKind, in_real_time: bool) -> Vec<Anomaly> {
        let is_used = |edge: &Edge| match edge.why {
            Why::WriteWrite { .. } => true,
            Why::WriteRead { .. } => kind != CycleKind::WriteCycles,
            Why::ReadWrite { .. } => {
                matches!(kind, CycleKind::NoAdjacentAntiDependencies | CycleKind::All)
            }
            Why::RealTime => in_real_time,
        };
        let edges = self.edges.iter().enumerate().filter(|(_, edge)| is_used(edge));
        let mut graph;
        if kind == CycleKind::NoAdjacentAntiDependencies {
            // Each transaction twice: reached by an `rw` edge (odd) or by another. No `rw` leads on from the odd one,
            // so a cycle has no two adjacent ones; and where a cycle passes a transaction twice, one of its two
            // halves has none.
            graph = Digraph::new(2 * self.node_count);
            for (label, edge) in edges {
                if edge.is_read_write() {
                    graph.add(2 * edge.from, 2 * edge.to + 1, label);
                } else {
                    graph.add(2 * edge.from, 2 * edge.to, label);
                    graph.add(2 * edge.from + 1, 2 * edge.to, label);
                }
            }
        } else {
            graph = Digraph::new(self.node_count);
            edges.for_each(|(label, edge)| graph.add(edge.from, edge.to, label));
        }
        graph.cycles().into_iter().map(|cycle| self.anomaly(&cycle)).collect()
    }

    fn anomaly(&self, cycle: &[usize]) -> Anomaly {
        let edges: Vec<Edge> = cycle.iter().map(|label| self.edges[*label]).collect();
        let has = |is: fn(&Why) -> bool| edges.iter().any(|edge| is(&edge.why));
        let is_adjacent =
            |index: usize| edges[index].is_read_write() && edges[(index + 1) % edges.len()].is_read_write();
        let kind = match edges.iter().filter(|edge| edge.is_read_write()).count() {
            0 if has(|why| matches!(why, Why::WriteRead { .. })) => Kind::G1c,
            0 => Kind::G0,
            1 => Kind::GSingle,
            _ if (0..edges.len()).any(is_adjacent) => Kind::G2,
            _ => Kind::GNonadjacent,
        };
        Anomaly {
            kind,
            in_real_time: has(|why| matches!(why, Why::RealTime)),
            explanation: edges.iter().map(Edge::to_string).collect::<Vec<_>>().join("; "),
            transactions: edges.iter().map(|edge| edge.from).collect(),
        }
    }
}
