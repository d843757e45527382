//! What a child says about its panics, as the standard library prints them:
//!
//! ```text
//!   thread 'basics::rows_are_there' (4711) panicked at crates/storage/engine/tests/basics.rs:32:41:
//!   row 7 is missing
//! ```
//! A test runs on a thread of its name. Tests panic on purpose, too, and threads of one test for another's reason: so it is
//! the first panic on the thread of the test that failed, or else the first of all.

use std::io::BufRead;

/// Nobody reads more of a message in a table.
const MESSAGE_LINES_MAX: usize = 3;
const LINE_CHARS_MAX: usize = 160;

#[derive(Debug)]
struct Panic {
    thread: String,
    /// Where, and the first lines of the message.
    what: String,
}

#[derive(Debug, Default)]
pub(super) struct Panics {
    /// In their order.
    panics: Vec<Panic>,
    /// Of all that was written, panics or not.
    pub(super) last_line: String,
}

impl Panics {
    /// Reads to the end, also past what is no text.
    pub(super) fn gather(mut from: impl BufRead) -> Panics {
        let mut panics = Panics::default();
        let (mut bytes, mut message_lines) = (Vec::new(), 0);
        // What cannot be read any more tells nothing.
        while from.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end();
            message_lines = panics.add(line, message_lines);
            if !line.is_empty() {
                line.clone_into(&mut panics.last_line);
            }
            bytes.clear();
        }
        panics
    }

    /// Of the last panic's message, `message_lines` may follow, this one included; how many after it.
    fn add(&mut self, line: &str, message_lines: usize) -> usize {
        if let Some((thread, place)) = head(line) {
            self.panics.push(Panic { thread: thread.to_owned(), what: place.to_owned() });
            return MESSAGE_LINES_MAX;
        }
        let is_message = message_lines > 0 && !line.is_empty() && !line.starts_with("note: ");
        let Some(last) = self.panics.last_mut().filter(|_| is_message) else { return 0 };
        last.what.push(' ');
        last.what.extend(line.trim().chars().take(LINE_CHARS_MAX));
        message_lines - 1
    }

    /// The first one on the thread of `test`, or the first of all.
    pub(super) fn first_of(&self, test: Option<&str>) -> Option<String> {
        let own = self.panics.iter().find(|panic| Some(panic.thread.as_str()) == test);
        own.or(self.panics.first()).map(|panic| panic.what.clone())
    }
}

/// The thread and the place, if a panic begins with this line.
fn head(line: &str) -> Option<(&str, &str)> {
    let (before, place) = line.split_once("panicked at ")?;
    let (_, named) = before.split_once("thread '")?;
    let (thread, _) = named.split_once('\'')?;
    Some((thread, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panic_of_a_test_is_told_from_those_of_others() {
        let text = b"\xff noise\nthread '<unnamed>' (3) panicked at a.rs:1:1:\n  helper\n\nmore\n\
            thread 'own' (4) panicked at b.rs:2:2:\nassertion\n  left: 1\nnote: run\nthread 'own' panicked at c.rs:3:3:\nsecond\n";
        let panics = Panics::gather(&text[..]);
        assert_eq!(panics.first_of(Some("own")).as_deref(), Some("b.rs:2:2: assertion left: 1"));
        assert_eq!(panics.first_of(Some("other")).as_deref(), Some("a.rs:1:1: helper"));
        assert_eq!(panics.first_of(None).as_deref(), Some("a.rs:1:1: helper"));
        assert_eq!(Panics::gather(&b"fine\n"[..]).first_of(Some("own")), None);
    }
}
