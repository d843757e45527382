//! What the documents say can be pasted: their shell blocks run, their Rust programs are the examples that compile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use seawall_testing::Need;

use crate::support::{SEAWALL, Scratch, repository};

fn has_clients() -> bool {
    let is_here = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    ["psql", "pgbench"].iter().all(is_here)
}

/// `seawall serve`, for blocks that connect to it.
struct Server {
    child: Child,
    port: u64,
}

impl Server {
    fn start(scratch: &Scratch) -> Server {
        let mut command = Command::new(SEAWALL);
        command.args(["--json", "serve", "ledger", "--port", "0", "--unix-socket", "off"]);
        command
            .current_dir(scratch.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Server { port: told["port"].as_u64().unwrap(), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

/// The fenced blocks of a Markdown file in `language`.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
#[cfg(unix)]
fn shell_blocks_run() {
    for document in ["README.md", "docs/command-line.md"] {
        let text = std::fs::read_to_string(repository(document)).unwrap();
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("data")).unwrap();
        std::fs::copy(repository("data/airports.csv"), scratch.path("data/airports.csv")).unwrap();
        let directory = std::path::Path::new(SEAWALL).parent().unwrap().display().to_string();
        let path = format!("{directory}:{}", std::env::var("PATH").unwrap_or_default());
        let blocks = blocks(&text, "sh");
        let mut ran = 0;
        for block in blocks.iter().filter(|block| !block.contains("cargo ")) {
            let mut shell = Command::new("sh");
            shell.args(["-e", "-c", block]).current_dir(scratch.path("")).env("PATH", &path);
            let _server = match block.contains("psql ") {
                true if !has_clients() => {
                    Need::PostgreSqlClients.skip("psql and pgbench are not installed");
                    continue;
                }
                true => {
                    let server = Server::start(&scratch);
                    shell.env("PGPORT", server.port.to_string());
                    Some(server)
                }
                false => None,
            };
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{document}:\n{block}\n{output:?}");
            ran += 1;
        }
        assert!(ran > 0, "{document} has no shell block");
    }
}

#[test]
fn rust_blocks_are_the_examples() {
    for (document, example) in [
        ("README.md", "crates/seawall/examples/bank.rs"),
        ("docs/embedding.md", "crates/seawall/examples/orders.rs"),
        ("docs/backup.md", "crates/seawall/examples/backup_and_restore.rs"),
    ] {
        let text = std::fs::read_to_string(repository(document)).unwrap();
        let program = std::fs::read_to_string(repository(example)).unwrap();
        assert_eq!(blocks(&text, "rust"), [program], "{document} and {example} differ");
    }
}

/// Each setting of the server stands in the table of docs/server.md, with its default.
#[test]
fn settings_of_the_server_are_documented() {
    let scratch = Scratch::new();
    let output = scratch.command(["settings", "--json"]).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let settings: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = std::fs::read_to_string(repository("docs/server.md")).unwrap();
    let mut count = 0;
    for setting in &settings {
        let Some(name) = setting["setting"].as_str().and_then(|name| name.strip_prefix("server.")) else {
            continue;
        };
        count += 1;
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("| `{name}`"))).collect();
        assert_eq!(rows.len(), 1, "docs/server.md has {name} {} times", rows.len());
        if let Some([value]) = setting["values"].as_array().map(Vec::as_slice) {
            let value = value.as_str().unwrap();
            assert!(rows[0].contains(&format!("`{value}`")), "the default of {name} is {value}: {}", rows[0]);
        }
    }
    assert!(count > 10, "{listed}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs/archiving.md",
        "docs/backup.md",
        "docs/checkpoints-measured.md",
        "docs/clients.md",
        "docs/command-line.md",
        "docs/embedding.md",
        "docs/from-pgbackrest.md",
        "docs/operating.md",
        "docs/server.md",
        "docs/sql.md",
        "docs/testing.md",
    ] {
        let text = std::fs::read_to_string(repository(document)).unwrap();
        let folder = repository(document).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (path, section) =
                link.split_once('#').map_or((link, None), |(path, name)| (path, Some(name)));
            let target = if path.is_empty() { repository(document) } else { folder.join(path) };
            assert!(target.exists(), "{document} links to {link}");
            if let Some(section) = section {
                let sections = sections(&std::fs::read_to_string(&target).unwrap());
                assert!(sections.iter().any(|name| name == section), "{document} links to {link}");
            }
        }
    }
}

/// The headings of a document as links name them: small letters, a hyphen for a space, no other signs.
fn sections(text: &str) -> Vec<String> {
    let name = |heading: &str| {
        let kept =
            heading.trim().chars().filter(|sign| sign.is_alphanumeric() || [' ', '-', '_'].contains(sign));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    text.lines().filter(|line| line.starts_with('#')).map(|line| name(line.trim_start_matches('#'))).collect()
}
