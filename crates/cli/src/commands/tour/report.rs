//! What the tour says: steps and facts for people, one JSON object at the end for programs.

use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::standard_error::tell;

/// Collects what was measured, and says it as it happens.
pub(super) struct Report<'a> {
    output: &'a mut Output,
    facts: Map<String, Value>,
    steps: u32,
}

impl Report<'_> {
    pub(super) fn new(output: &mut Output) -> Report<'_> {
        Report { output, facts: Map::new(), steps: 0 }
    }

    pub(super) fn title(&mut self, text: &str) -> Result<(), Failure> {
        self.line(text)
    }

    /// The heading of the next step.
    pub(super) fn step(&mut self, text: &str) -> Result<(), Failure> {
        self.steps += 1;
        let heading = format!("\n{}. {text}", self.steps);
        self.line(&heading)
    }

    pub(super) fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.line(&format!("   {text}"))
    }

    /// A measurement, under `name` for programs and as `text` for people.
    pub(super) fn fact(&mut self, name: &str, value: impl Into<Value>, text: &str) -> Result<(), Failure> {
        self.facts.insert(name.to_owned(), value.into());
        self.say(text)
    }

    /// Something beside the story; also where the output is JSON.
    pub(super) fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.output.flush()?;
        match self.output.json() {
            true => tell(json!({ "note": text })),
            false => tell(text),
        }
        Ok(())
    }

    /// The last line; only a tour that went well has one.
    pub(super) fn end(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.json() {
            let facts = std::mem::take(&mut self.facts);
            self.output.line(Value::from(facts))
        } else {
            self.line(&format!("\n{text}"))
        }
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.json() {
            return Ok(());
        }
        self.output.line(text)?;
        // Somebody watches.
        self.output.flush()
    }
}
