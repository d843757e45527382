//! `completions` and `man`: of every command that there is.

use std::process::Command;

use crate::every_command::commands;
use crate::support::Scratch;

#[test]
fn the_completion_of_bash_is_valid_and_completes_commands() {
    let scratch = Scratch::new();
    let script = scratch.ok(["completions", "bash"]);
    scratch.write("completion", script.as_bytes());
    let bash =
        |script: &str| Command::new("bash").current_dir(scratch.path("")).args(["-c", script]).output();
    let checked = bash("bash -n completion").unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    let completed = bash(
        "source ./completion; COMP_WORDS=(seawall st); COMP_CWORD=1; _seawall seawall st seawall; echo ${COMPREPLY[@]}",
    );
    let completed = String::from_utf8(completed.unwrap().stdout).unwrap();
    assert!(completed.split_whitespace().any(|word| word == "stats"), "{completed}");
    let completed = bash(
        "source ./completion; COMP_WORDS=(seawall archive-push --queue); COMP_CWORD=2; _seawall seawall --queue archive-push; \
         echo ${COMPREPLY[@]}",
    );
    let completed = String::from_utf8(completed.unwrap().stdout).unwrap();
    assert_eq!(completed.trim(), "--queue-max", "an option that the command reads itself");
}

#[test]
fn other_shells_have_scripts_of_every_command() {
    let scratch = Scratch::new();
    for shell in ["zsh", "fish"] {
        let script = scratch.ok(["completions", shell]);
        for command in commands(&scratch) {
            let last = command.split(' ').next_back().unwrap();
            assert!(script.contains(last), "{shell}: {command}");
        }
    }
    let message = scratch.fails(2, ["completions", "tcsh"]);
    assert!(message.contains("bash"), "{message}");
}

/// They read their arguments themselves, and help lists their options as those of others.
#[test]
fn help_lists_the_options_of_the_archive_commands() {
    let scratch = Scratch::new();
    for command in ["archive-push", "archive-get"] {
        let other = ["help", command];
        for words in [[command, "--help"], [command, "-h"], other] {
            let help = scratch.ok(words);
            let (_, options) = help.split_once("\nOptions:\n").unwrap_or_else(|| panic!("{words:?}: {help}"));
            for option in
                ["--repository <URL>", "--queue-max <BYTES>", "--log-level <WORD>", "--data-directory <DIR>"]
            {
                assert_eq!(options.matches(option).count(), 1, "{option}, {words:?}: {help}");
            }
            assert!(options.contains("Default: 32"), "{words:?}: {help}");
            assert!(!help.contains("[REST]") && !help.contains("--cache-mib"), "{words:?}: {help}");
            assert!(help.contains("restore_command = 'seawall archive-get"), "{words:?}: {help}");
        }
    }
    let usage = scratch.ok(["archive-get", "-h"]);
    assert!(usage.contains("<NAME> <FILE>"), "{usage}");
}

#[test]
fn every_command_has_a_page() {
    let scratch = Scratch::new();
    let answer = scratch.ok(["man", "share/man1"]);
    let mut names = vec!["seawall".to_owned()];
    names.extend(commands(&scratch).iter().map(|command| format!("seawall-{}", command.replace(' ', "-"))));
    for name in &names {
        let page = String::from_utf8(scratch.read(&format!("share/man1/{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    // `seawall-repo` and `seawall-inspect` have no answer of their own, and a page.
    assert_eq!(answer, format!("wrote {} pages to share/man1\n", names.len() + 2));
    let page = String::from_utf8(scratch.read("share/man1/seawall-stats.1")).unwrap();
    assert!(page.contains("openmetrics") && page.contains("seawall stats bank"), "{page}");
    assert!(page.contains("Memory for cached pages"), "an option that `-h` leaves out: {page}");
    let page = String::from_utf8(scratch.read("share/man1/seawall-archive-push.1")).unwrap();
    let (options, notes) = page.split_once(".SH EXTRA").unwrap();
    let (_, options) = options.split_once(".SH OPTIONS").unwrap();
    for name in [
        "repository",
        "queue\\-max",
        "get\\-in\\-flight",
        "log\\-level",
        "data\\-directory",
        "config",
        "master\\-key\\-file",
    ] {
        assert_eq!(options.matches(&format!("\\fB\\-\\-{name}\\fR")).count(), 1, "{name}: {page}");
    }
    assert!(!options.contains("Memory for cached pages"), "it means nothing to this command: {page}");
    assert!(notes.contains("archive_command") && !notes.contains("data\\-directory"), "{page}");
    // Again, over those that are there.
    scratch.ok(["man", "share/man1"]);
}
