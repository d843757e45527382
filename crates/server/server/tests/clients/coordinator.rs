//! A transaction manager over two servers, killed between the phases of a transaction: the one after it makes both sides agree.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seawall_testing::{Need, install};

use crate::program::{ok, prepared, program};
use crate::served::Served;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/drivers/coordinator");

/// Packages and classes. `None`: the test says that it is skipped.
fn classes() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers/coordinator");
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(Path::new(SOURCES).join("pom.xml"));
    maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies");
    maven.arg(format!("-DoutputDirectory={}", place.display())).arg("-DincludeScope=runtime");
    if let Err(reason) = install(&place.join("narayana-jta-7.2.1.Final.jar"), &mut maven) {
        Need::Drivers.skip(reason);
        return None;
    }
    let mut compiler = Command::new("javac");
    compiler.arg("-classpath").arg(place.join("*")).arg("-d").arg(place.join("classes"));
    ok(compiler.arg(Path::new(SOURCES).join("Coordinator.java")));
    Some(place)
}

/// Two servers, and the log of the manager.
struct Scene {
    packages: PathBuf,
    servers: [Served; 2],
}

impl Scene {
    fn manager(&self, words: &[&str]) -> Command {
        let mut java = prepared(Path::new("java"), "127.0.0.1", 0);
        java.arg("-classpath").arg(format!("{0}/classes:{0}/*", self.packages.display())).arg("Coordinator");
        java.arg(self.servers[0].path().join("manager"));
        java.args(self.servers.iter().map(|server| server.port().to_string())).args(words);
        java
    }

    /// What a query shows on both sides.
    fn both(&self, sql: &str) -> Option<[String; 2]> {
        let mut shown = self.servers.iter().map(|server| {
            let mut psql = program("psql", "127.0.0.1", server.port())?;
            Some(ok(psql.args(["-X", "-A", "-t", "-c", sql])).trim().to_owned())
        });
        Some([shown.next()??, shown.next()??])
    }
}

/// The manager is killed at `place`: then so many transactions are in doubt on each side, and in the end both sides have it, or none.
fn is_decided_alike(scene: &Scene, number: &str, place: &str, in_doubt: [&str; 2], is_committed: bool) {
    let mut manager = scene.manager(&[number, place]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(manager.stdout.take().unwrap()).lines();
    let arrived = said.any(|line| line.unwrap() == format!("at {place}"));
    manager.kill().unwrap();
    manager.wait().unwrap();
    assert!(arrived, "the manager never came to the {place}");
    let count = "select count(*) from pg_prepared_xacts";
    assert_eq!(scene.both(count).unwrap(), in_doubt, "{place}");

    ok(&mut scene.manager(&["recover"]));
    assert_eq!(scene.both(count).unwrap(), ["0", "0"], "{place}");
    let moved = format!("select count(*) from moved where number = '{number}'");
    let expected = if is_committed { ["1", "1"] } else { ["0", "0"] };
    assert_eq!(scene.both(&moved).unwrap(), expected, "{place}");
}

#[test]
fn a_transaction_over_two_servers_outlives_its_manager() {
    let Some(packages) = classes() else { return };
    let scene = Scene { packages, servers: [Served::new(), Served::new()] };
    let tables = "create table account as select 1000 as balance; create table moved (number text)";
    if scene.both(tables).is_none() {
        return;
    }
    for (number, (place, in_doubt, is_committed)) in [
        ("prepare of first", ["0", "0"], false),
        ("prepare of second", ["1", "0"], false),
        ("commit of first", ["1", "1"], true),
        ("commit of second", ["0", "1"], true),
    ]
    .into_iter()
    .enumerate()
    {
        is_decided_alike(&scene, &number.to_string(), place, in_doubt, is_committed);
    }
    // Four were moved whole, and two by whoever came after the manager.
    assert_eq!(scene.both("select balance from account").unwrap(), ["940", "1060"]);
}
