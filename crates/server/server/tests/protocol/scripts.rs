//! Scripts of messages, with the answers of PostgreSQL 15.
//!
//! Lines that begin with `>` are sent, up to a line that does not; lines that begin with `<` are expected after them. `SEAWALL_RECORD=5432 cargo test -p seawall-server --test protocol`
//! asks the PostgreSQL of that port, as role `postgres`, in a database with a table `t (a text)`, and writes its answers in place of those that are there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_testing::PATIENCE;

use crate::client::{Client, message, shown, text};
use crate::running;

/// The bytes of a line: `Query SELECT 1`, `Parse name|text`, `Raw 51 00`.
fn bytes_of(line: &str) -> Vec<u8> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let parts: Vec<&str> = rest.split('|').collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or_default();
    match name {
        "Query" => message(b'Q', &text(&[rest])),
        "Parse" => message(b'P', &[text(&[part(0), part(1)]), vec![0, 0]].concat()),
        "Bind" => message(b'B', &[text(&[part(0), part(1)]), vec![0; 6]].concat()),
        "DescribeStatement" => message(b'D', &[b"S", &text(&[rest])[..]].concat()),
        "DescribePortal" => message(b'D', &[b"P", &text(&[rest])[..]].concat()),
        "CloseStatement" => message(b'C', &[b"S", &text(&[rest])[..]].concat()),
        "ClosePortal" => message(b'C', &[b"P", &text(&[rest])[..]].concat()),
        "Execute" => {
            let rows: u32 = part(1).parse().unwrap_or(0);
            message(b'E', &[text(&[part(0)]), rows.to_be_bytes().to_vec()].concat())
        }
        "Sync" => message(b'S', b""),
        "Flush" => message(b'H', b""),
        "Terminate" => message(b'X', b""),
        "CopyData" => message(b'd', rest.replace("\\n", "\n").as_bytes()),
        "CopyDone" => message(b'c', b""),
        "CopyFail" => message(b'f', &text(&[rest])),
        "FunctionCall" => message(b'F', &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        "Raw" => rest.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect(),
        other => panic!("{other} is no message of a script"),
    }
}

/// No answer comes after this: only while answers are recorded.
const SILENCE: Duration = Duration::from_millis(300);

/// Sends a group of lines, and returns the answers: `expected` of them, or all that come.
fn answers(group: &[&str], expected: Option<usize>, client: &mut Client) -> Vec<String> {
    let bytes: Vec<u8> = group.iter().flat_map(|line| bytes_of(line)).collect();
    client.send(&bytes);
    client.set_limit(expected.map_or(SILENCE, |_| PATIENCE));
    let mut answers = Vec::new();
    while expected.is_none_or(|expected| answers.len() < expected) {
        match client.try_receive() {
            Ok(message) => answers.extend(message.as_ref().map(shown)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => {
                answers.push("closed".to_owned());
                break;
            }
        }
    }
    answers
}

/// Plays a script, and returns it with the answers that came.
fn play(script: &str, is_recording: bool, client: &mut Client) -> String {
    let mut played = String::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        played.push_str(&format!("{line}\n"));
        let Some(first) = line.strip_prefix("> ") else { continue };
        let mut group = vec![first];
        while let Some(next) = lines.next_if(|next| next.starts_with("> ")) {
            played.push_str(&format!("{next}\n"));
            group.push(&next[2..]);
        }
        let mut expected = 0;
        while lines.next_if(|next| next.starts_with('<')).is_some() {
            expected += 1;
        }
        let answers = answers(&group, (!is_recording).then_some(expected), client);
        answers.iter().for_each(|answer| played.push_str(&format!("< {answer}\n")));
    }
    played
}

fn scripts() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol/scripts");
    let mut scripts: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    scripts
}

#[test]
fn answers_are_those_of_postgresql() {
    let recorded: Option<u16> = std::env::var("SEAWALL_RECORD").ok().map(|port| port.parse().unwrap());
    let server = running();
    for path in scripts() {
        let script = std::fs::read_to_string(&path).unwrap();
        let mut client = Client::logged_in(recorded.unwrap_or(server.port()), "postgres");
        let played = play(&script, recorded.is_some(), &mut client);
        match recorded {
            Some(_) => std::fs::write(&path, played).unwrap(),
            None => assert_eq!(played, script, "{}", path.display()),
        }
    }
}
