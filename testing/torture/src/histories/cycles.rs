//! Cycles of a directed graph: strongly connected components (Tarjan, "Depth-First Search and Linear Graph Algorithms",
//! 1972), and a shortest cycle in each. Not recursive: histories are long.

use std::collections::VecDeque;

/// Edges with a label, between nodes that are numbered from zero.
#[derive(Debug, Default)]
pub(super) struct Digraph {
    successors: Vec<Vec<(usize, usize)>>,
}

/// No more starting points are tried for a shortest cycle: among so many there is a short one.
const STARTS_MAX: usize = 64;
const UNSEEN: usize = usize::MAX;

impl Digraph {
    pub(super) fn new(node_count: usize) -> Digraph {
        Digraph { successors: vec![Vec::new(); node_count] }
    }

    pub(super) fn add(&mut self, from: usize, to: usize, label: usize) {
        self.successors[from].push((to, label));
    }

    /// The labels along one short cycle of each component that has any.
    pub(super) fn cycles(&self) -> Vec<Vec<usize>> {
        let components = Components::of(self);
        let is_cyclic = |nodes: &&Vec<usize>| {
            nodes.len() > 1 || self.successors[nodes[0]].iter().any(|(to, _)| *to == nodes[0])
        };
        components
            .nodes
            .iter()
            .filter(is_cyclic)
            .map(|nodes| self.shortest_cycle(nodes, &components.of_node))
            .collect()
    }

    fn shortest_cycle(&self, nodes: &[usize], component_of: &[usize]) -> Vec<usize> {
        let step = nodes.len().div_ceil(STARTS_MAX);
        let cycles = nodes.iter().step_by(step).map(|start| self.cycle_through(*start, component_of));
        cycles.min_by_key(Vec::len).expect("a component has a node")
    }

    /// Breadth first, from a node on a cycle.
    fn cycle_through(&self, start: usize, component_of: &[usize]) -> Vec<usize> {
        let mut came_by: std::collections::HashMap<usize, (usize, usize)> = Default::default();
        let mut waiting = VecDeque::from([start]);
        while let Some(node) = waiting.pop_front() {
            for &(to, label) in &self.successors[node] {
                if component_of[to] != component_of[start] || came_by.contains_key(&to) {
                    continue;
                }
                came_by.insert(to, (node, label));
                if to == start {
                    return labels_back(start, &came_by);
                }
                waiting.push_back(to);
            }
        }
        unreachable!("every node of a component with a cycle lies on one")
    }
}

fn labels_back(start: usize, came_by: &std::collections::HashMap<usize, (usize, usize)>) -> Vec<usize> {
    let mut labels = Vec::new();
    let mut node = start;
    loop {
        let (before, label) = came_by[&node];
        labels.push(label);
        node = before;
        if node == start {
            labels.reverse();
            return labels;
        }
    }
}

/// Strongly connected components.
struct Components {
    nodes: Vec<Vec<usize>>,
    of_node: Vec<usize>,
}

impl Components {
    fn of(graph: &Digraph) -> Components {
        let count = graph.successors.len();
        let mut search = Search {
            graph,
            index: vec![UNSEEN; count],
            low: vec![0; count],
            next_index: 0,
            stack: Vec::new(),
            components: Components { nodes: Vec::new(), of_node: vec![UNSEEN; count] },
        };
        for node in 0..count {
            if search.index[node] == UNSEEN {
                search.from(node);
            }
        }
        search.components
    }
}

struct Search<'a> {
    graph: &'a Digraph,
    /// When a node was first seen.
    index: Vec<usize>,
    /// The earliest node on the stack that it reaches.
    low: Vec<usize>,
    next_index: usize,
    stack: Vec<usize>,
    components: Components,
}

impl Search<'_> {
    fn from(&mut self, root: usize) {
        // Nodes being visited, and how many of their successors have been.
        let mut path = vec![(root, 0)];
        self.see(root);
        while let Some((node, visited)) = path.last_mut() {
            let node = *node;
            if let Some(&(to, _)) = self.graph.successors[node].get(*visited) {
                *visited += 1;
                if self.index[to] == UNSEEN {
                    self.see(to);
                    path.push((to, 0));
                } else if self.components.of_node[to] == UNSEEN {
                    self.low[node] = self.low[node].min(self.index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                self.low[parent] = self.low[parent].min(self.low[node]);
            }
            if self.low[node] == self.index[node] {
                self.close(node);
            }
        }
    }

    fn see(&mut self, node: usize) {
        self.index[node] = self.next_index;
        self.low[node] = self.next_index;
        self.next_index += 1;
        self.stack.push(node);
    }

    fn close(&mut self, root: usize) {
        let start =
            self.stack.iter().rposition(|node| *node == root).expect("it is on the stack until closed");
        let nodes = self.stack.split_off(start);
        for node in &nodes {
            self.components.of_node[*node] = self.components.nodes.len();
        }
        self.components.nodes.push(nodes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(node_count: usize, edges: &[(usize, usize)]) -> Digraph {
        let mut graph = Digraph::new(node_count);
        for (label, (from, to)) in edges.iter().enumerate() {
            graph.add(*from, *to, label);
        }
        graph
    }

    #[test]
    fn a_chain_has_no_cycle_however_long() {
        let edges: Vec<_> = (0..200_000).map(|node| (node, node + 1)).collect();
        assert!(graph(200_001, &edges).cycles().is_empty());
    }

    #[test]
    fn the_shorter_of_two_cycles_is_told() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1), (4, 0)];
        let cycles = graph(5, &edges).cycles();
        assert_eq!(cycles.len(), 1);
        let mut labels = cycles[0].clone();
        labels.sort_unstable();
        assert_eq!(labels, [1, 4]);
    }

    proptest! {
        /// Against reachability by brute force; and what is told is a cycle.
        #[test]
        fn components_with_cycles_are_those_of_nodes_that_reach_each_other(
            edges in proptest::collection::vec((0_usize..12, 0_usize..12), 0..40),
        ) {
            let mut reaches = [[false; 12]; 12];
            for (from, to) in &edges {
                reaches[*from][*to] = true;
            }
            for via in 0..12 {
                for from in 0..12 {
                    for to in 0..12 {
                        reaches[from][to] |= reaches[from][via] && reaches[via][to];
                    }
                }
            }
            let mut firsts: Vec<usize> = (0..12)
                .filter(|&node| reaches[node][node])
                .map(|node| (0..12).find(|&other| reaches[node][other] && reaches[other][node]).unwrap())
                .collect();
            firsts.sort_unstable();
            firsts.dedup();
            let cycles = graph(12, &edges).cycles();
            prop_assert_eq!(cycles.len(), firsts.len());
            for cycle in cycles {
                let closed = cycle.iter().chain(&cycle[..1]).map(|label| edges[*label]).collect::<Vec<_>>();
                prop_assert!(closed.windows(2).all(|pair| pair[0].1 == pair[1].0), "{:?}", closed);
            }
        }
    }
}
