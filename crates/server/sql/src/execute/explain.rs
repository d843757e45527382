//! `EXPLAIN`, and the counters of `EXPLAIN ANALYZE`.

mod expressions;
mod tree;

use std::fmt::Write as _;

use seawall_values::{Settings, SqlResult};

use super::context::Context;
use super::node::Node;
use super::{Execution, Plan};
use tree::{Shown, TreeBuilder};

/// What a node has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    /// Rows in all runs.
    pub(crate) rows: u64,
    /// How many times it was run from the beginning.
    pub(crate) runs: u64,
}

/// A node that is counted.
pub(crate) struct Counted {
    node: Box<dyn Node>,
    number: usize,
    is_started: bool,
}

impl Counted {
    pub(crate) fn new(node: Box<dyn Node>, number: usize) -> Counted {
        Counted { node, number, is_started: false }
    }
}

impl Node for Counted {
    fn next(&mut self, context: &mut Context<'_>) -> SqlResult<bool> {
        let has_row = self.node.next(context)?;
        let is_first = !std::mem::replace(&mut self.is_started, true);
        if let Some(counter) = context.state.counters.get_mut(self.number) {
            counter.runs += u64::from(is_first);
            counter.rows += u64::from(has_row);
        }
        Ok(has_row)
    }

    fn prepare(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.node.prepare(context)
    }

    fn rewind(&mut self, context: &mut Context<'_>) -> SqlResult<()> {
        self.is_started = false;
        self.node.rewind(context)
    }
}

/// What `EXPLAIN` shows.
#[derive(Clone, Copy, Debug)]
pub struct ExplainOptions {
    /// `COSTS`.
    pub has_costs: bool,
    /// `VERBOSE`.
    pub is_verbose: bool,
}

/// The plan, a line for each row of the result.
///
/// With an execution that has counted and was pulled to its end: what each node has done, as `ANALYZE` shows it.
pub fn explain(
    plan: &Plan,
    execution: Option<&Execution>,
    options: ExplainOptions,
    settings: &Settings,
) -> Vec<String> {
    let counters = execution.map(Execution::counters);
    let root = TreeBuilder::new(plan, settings, counters).build(options.is_verbose);
    let mut lines = Vec::new();
    text(&root, 0, options, &mut lines);
    lines
}

/// The plan as JSON: the one value of the result.
pub fn explain_json(
    plan: &Plan,
    execution: Option<&Execution>,
    options: ExplainOptions,
    settings: &Settings,
) -> String {
    let counters = execution.map(Execution::counters);
    let root = TreeBuilder::new(plan, settings, counters).build(options.is_verbose);
    let mut output = String::from("[\n  {\n    \"Plan\": ");
    json(&root, 4, options, &mut output);
    output.push_str("\n  }\n]");
    output
}

/// Counted rows of one run, as PostgreSQL shows them.
fn rows_of_run(counter: Counter) -> f64 {
    if counter.runs == 0 { 0.0 } else { (counter.rows as f64 / counter.runs as f64).round() }
}

fn text(shown: &Shown, level: usize, options: ExplainOptions, lines: &mut Vec<String>) {
    let mut indent = if level == 0 { String::new() } else { " ".repeat(level * 6 - 4) };
    if let Some(relationship) = &shown.relationship {
        lines.push(format!("{indent}{relationship}"));
        indent.push_str("  ");
    }
    let arrow = if level == 0 { "" } else { "->  " };
    let mut line = format!("{indent}{arrow}{}", shown.name);
    if options.has_costs {
        let (startup, cost, rows) = (shown.startup, shown.cost, shown.rows.round());
        let result = write!(line, "  (cost={startup:.2}..{cost:.2} rows={rows:.0} width={})", shown.width);
        debug_assert!(result.is_ok(), "a string takes any text");
    }
    match shown.counter {
        Some(Counter { runs: 0, .. }) => line.push_str(" (never executed)"),
        Some(counter) => {
            line.push_str(&format!(" (actual rows={:.0} loops={})", rows_of_run(counter), counter.runs));
        }
        None => {}
    }
    lines.push(line);
    let inner = if level == 0 { "  ".to_owned() } else { format!("{indent}      ") };
    for (head, value) in &shown.properties {
        lines.push(format!("{inner}{head}: {value}"));
    }
    for child in &shown.children {
        text(child, level + 1, options, lines);
    }
}

fn quoted(value: &str) -> String {
    let mut quoted = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            character if u32::from(character) < 32 => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn json(shown: &Shown, indent: usize, options: ExplainOptions, output: &mut String) {
    let pad = " ".repeat(indent + 2);
    let mut members = vec![format!("\"Node Type\": {}", quoted(&shown.name))];
    if let Some(relationship) = &shown.relationship {
        members.push(format!("\"Subplan Name\": {}", quoted(relationship)));
    }
    if options.has_costs {
        members.push(format!("\"Startup Cost\": {:.2}", shown.startup));
        members.push(format!("\"Total Cost\": {:.2}", shown.cost));
        members.push(format!("\"Plan Rows\": {:.0}", shown.rows.round()));
        members.push(format!("\"Plan Width\": {}", shown.width));
    }
    if let Some(counter) = shown.counter {
        members.push(format!("\"Actual Rows\": {:.0}", rows_of_run(counter)));
        members.push(format!("\"Actual Loops\": {}", counter.runs));
    }
    for (head, value) in &shown.properties {
        let value = match *head {
            "Output" | "Sort Key" | "Group Key" => {
                let items: Vec<_> = value.split(", ").map(quoted).collect();
                format!("[{}]", items.join(", "))
            }
            _ => quoted(value),
        };
        members.push(format!("{}: {value}", quoted(head)));
    }
    output.push_str("{\n");
    output.push_str(&pad);
    output.push_str(&members.join(&format!(",\n{pad}")));
    if !shown.children.is_empty() {
        output.push_str(&format!(",\n{pad}\"Plans\": [\n{pad}  "));
        for (number, child) in shown.children.iter().enumerate() {
            if number > 0 {
                output.push_str(&format!(",\n{pad}  "));
            }
            json(child, indent + 4, options, output);
        }
        output.push_str(&format!("\n{pad}]"));
    }
    output.push_str(&format!("\n{}}}", " ".repeat(indent)));
}
