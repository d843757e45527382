//! Which level counts, what is refused, and what stays hidden.

use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::*;

const PLACE: &str = "the file";

fn parse(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse(text, PLACE)
}

fn problem(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// With a file, an environment and options.
fn load(
    text: &str,
    environment: &[(String, String)],
    options: &[(&'static str, &str)],
) -> Result<Settings, SettingsError> {
    let content = file::parse(text, Path::new(PLACE)).unwrap();
    let variable = |name: &str| {
        environment.iter().find(|(known, _)| known == name).map(|(_, value)| OsString::from(value))
    };
    let options = options.iter().map(|(path, text)| (*path, (*text).to_owned())).collect();
    Settings::default().assemble(content, &variable, options, Names::Full)
}

/// Three good values of a setting, all different from its default.
fn examples(known: &Known) -> [String; 3] {
    let texts = |texts: [&str; 3]| texts.map(str::to_owned);
    match known.kind {
        Kind::Text | Kind::Texts | Kind::HiddenText => texts(["a", "b", "c"]),
        Kind::Path | Kind::Repositories => texts(["/a", "/b", "/c"]),
        Kind::Assignments => texts(["a=1", "b=2", "c=3"]),
        Kind::Number(least, _) => [least, least + 5, least + 6].map(|number| number.to_string()),
        Kind::Time => texts(["11s", "12m", "13h"]),
        Kind::Bytes => texts(["1MiB", "2GiB", "3TiB"]),
        Kind::Compression => texts(["none", "zstd:2", "zstd:3"]),
        Kind::OneOf(values) => [values[1], values[0], values[1]].map(str::to_owned),
    }
}

/// A file that sets one setting.
fn file_with(known: &Known, text: &str) -> String {
    let text = if known.is_number() { text.to_owned() } else { format!("{text:?}") };
    match known.section() {
        "" => format!("{} = {text}\n", known.name()),
        section => format!("[{section}]\n{} = {text}\n", known.name()),
    }
}

#[test]
fn of_each_setting_an_option_comes_before_the_environment_the_file_and_the_default() {
    for known in KNOWN {
        let [in_file, in_environment, in_option] = examples(known);
        let text = file_with(known, &in_file);
        let variable = [(known.variable(), in_environment.clone())];
        let option = [(known.path, in_option.as_str())];
        let line = if known.section().is_empty() { 1 } else { 2 };
        for (settings, expected, origin) in [
            (load("", &[], &[]), None, Origin::Default),
            (load(&text, &[], &[]), Some(&in_file), Origin::File { path: PLACE.to_owned(), line }),
            (load(&text, &variable, &[]), Some(&in_environment), Origin::Environment(known.variable())),
            (load(&text, &variable, &option), Some(&in_option), Origin::Option(known.option())),
            (load("", &variable, &option), Some(&in_option), Origin::Option(known.option())),
            (load(&text, &[], &option), Some(&in_option), Origin::Option(known.option())),
        ] {
            let settings = settings.unwrap();
            assert_eq!(settings.texts(known.path).first(), expected, "{}", known.path);
            assert_eq!(settings.origin(known.path), &origin, "{}", known.path);
        }
        // A variable that is empty says nothing.
        let settings = load(&text, &[(known.variable(), String::new())], &[]).unwrap();
        assert_eq!(settings.texts(known.path), [in_file]);
    }
    assert_eq!(Settings::default().get::<u32>("archive.in_flight"), Some(32));
    assert_eq!(Settings::default().bytes("archive.queue_max"), None);
}

/// A restored cluster's `restore_command` names its key, whatever is set elsewhere.
#[test]
fn a_level_that_names_a_master_key_replaces_every_source_of_the_lower_ones() {
    let sources = ["master_key_file", "master_key_env", "master_key_command"];
    for section in ["", "database."] {
        let of = if section.is_empty() { KeyOf::Repositories } else { KeyOf::Databases };
        let path = |name: &str| known(&format!("{section}{name}")).path;
        for lower in sources {
            for higher in sources {
                let in_file = file_with(known(path(lower)), "/of/the/file");
                let variable = [(known(path(higher)).variable(), "/of/the/environment".to_owned())];
                let option = [(path(lower), "/of/the/option")];
                let key = |settings: Settings| settings.master_key(of).unwrap().to_string();
                let told = key(load(&in_file, &variable, &[]).unwrap());
                assert!(told.contains("/of/the/environment"), "{told}");
                let told = key(load(&in_file, &variable, &option).unwrap());
                assert!(told.contains("/of/the/option"), "{told}");
                let alone = load(&in_file, &[], &[]).unwrap();
                assert!(alone.has_secrets() && key(alone).contains("/of/the/file"));
            }
        }
        // Two of one level are a mistake, also where a higher one counts.
        let two = [path("master_key_file"), path("master_key_env")];
        let in_file = two.map(|path| file_with(known(path), "/k")).concat().replacen("[database]\n", "", 1);
        let in_file = if section.is_empty() {
            in_file
        } else {
            format!("[database]\n{}", in_file.replace("[database]\n", ""))
        };
        let variables = two.map(|path| (known(path).variable(), "/k".to_owned()));
        let options = two.map(|path| (path, "/k"));
        for (refused, word) in [
            (load(&in_file, &[], &options[..1]), "line"),
            (load("", &variables, &options[..1]), "SEAWALL_"),
            (load("", &[], &options), "--master-key-"),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("one source") && said.matches(word).count() == 2, "{said}");
        }
    }
}

#[test]
fn credentials_of_the_environment_come_before_those_of_the_file() {
    let text = "[credentials]\nAWS_ACCESS_KEY_ID = \"file\"\nAWS_REGION = \"file\"\n";
    let variable = [("AWS_ACCESS_KEY_ID".to_owned(), "environment".to_owned())];
    let settings = load(text, &variable, &[]).unwrap();
    assert_eq!(settings.credentials(), BTreeMap::from([("AWS_REGION".to_owned(), "file".to_owned())]));
    assert!(settings.has_secrets());
}

#[test]
fn what_is_no_setting_is_refused_with_its_line_and_the_nearest_name() {
    for (text, words) in [
        ("\nrepositry = \"/x\"", &["line 2", "repositry", "did you mean repository?"][..]),
        ("[archive]\nqueue_maximum = \"1GiB\"", &["line 2", "did you mean queue_max?"]),
        ("queue_max = \"1GiB\"", &["line 1", "stands in [archive]"]),
        ("[archive]\nrepository = \"/x\"", &["line 2", "at the top of the file"]),
        ("[archve]\nspool = \"/x\"", &["line 1", "did you mean archive?"]),
        ("[flowers]\n", &["line 1", "\"flowers\" is not a section", "backup"]),
        ("[credentials]\nAWS_ACCES_KEY_ID = \"x\"", &["line 2", "AWS_ACCES_KEY_ID"]),
        ("[credentials]\naws_access_key_id = \"x\"", &["line 2", "aws_access_key_id"]),
        ("[credentials]\nAWS_ACCESS_KEY_ID = []", &["line 2", "AWS_ACCESS_KEY_ID"]),
        ("repository = \"/x\"\nrepository = \"/y\"", &["line 2", "duplicate"]),
        ("repository = /x", &["line 1", "name = \"text\""]),
        ("repository", &["line 1"]),
        ("repository = [\"/a\", 7]", &["line 1", "list of texts"]),
        ("repository = []", &["line 1", "repository"]),
        ("repository = \"\"", &["line 1", "empty"]),
        ("repository = \"archive\"", &["line 1", "full name", "archive"]),
        ("master_key_file = \"key\"", &["line 1", "full name"]),
        ("[archive]\nspool = [\"/a\"]", &["line 2", "expected text in quotes"]),
        ("[archive]\nspool = true", &["line 2", "expected text in quotes"]),
        ("[archive]\nin_flight = \"8\"", &["line 2", "without quotes"]),
        ("[archive]\nin_flight = 0", &["line 2", "\"0\"", "1 to 256"]),
        ("[archive]\nin_flight = -1", &["line 2", "1 to 256"]),
        ("[archive]\ntimeout = 1.5", &["line 2", "archive.timeout", "without quotes"]),
        ("[archive]\ncompression = \"gzip\"", &["line 2", "gzip", "none, lz4, zstd"]),
        ("[archive]\nqueue_max = \"7 bananas\"", &["line 2", "64GiB"]),
        ("[expire]\nkeep_window = \"14\"", &["line 2", "14d"]),
        ("[database]\npage_protection = \"prayer\"", &["line 2", "recovery-file, log-images"]),
        ("[drill]\npostgresql_setting = \"fsync\"", &["line 2", "NAME=VALUE"]),
    ] {
        let said = problem(text);
        for word in [&[PLACE][..], words].concat() {
            assert!(said.contains(word), "{text:?}: {word:?} is missing in: {said}");
        }
    }
    let said = load("", &[("SEAWALL_IN_FLIGHT".to_owned(), "x".to_owned())], &[]).unwrap_err().to_string();
    assert!(said.contains("SEAWALL_IN_FLIGHT") && said.contains("1 to 256"), "{said}");
    let twice = [("archive.timeout", "5"), ("archive.timeout", "6")];
    let said = load("", &[], &twice).unwrap_err().to_string();
    assert!(said.contains("--timeout") && said.contains("twice"), "{said}");
}

#[test]
fn one_repository_that_is_required_and_optional_is_refused_with_both_places() {
    let optional = [("archive.optional_repository", "/a")];
    let said = load("repository = [\"/b\", \"/a\"]", &[], &optional).unwrap_err().to_string();
    assert!(said.contains("--optional-repository") && said.contains("the file, line 1"), "{said}");
}

#[test]
fn lists_and_line_ends_are_as_they_are_written() {
    let text = "\u{feff}repository = [\"/srv/my archive\", \"s3://b/c?region=x\"] # two\r\n\r\n\
                archive.timeout = 0x10\r\n[credentials]\r\nAWS_ACCESS_KEY_ID = 'me'\r\n";
    let settings = parse(text).unwrap();
    assert_eq!(settings.texts("repository"), ["/srv/my archive", "s3://b/c?region=x"]);
    assert_eq!(settings.get::<u64>("archive.timeout"), Some(16));
    assert_eq!(settings.credentials()["AWS_ACCESS_KEY_ID"], "me");
    let variable = [("SEAWALL_REPOSITORY".to_owned(), " /a  /b ".to_owned())];
    assert_eq!(load("", &variable, &[]).unwrap().texts("repository"), ["/a", "/b"]);
    let options = [("repository", "/a b"), ("repository", "/c")];
    assert_eq!(load("", &variable, &options).unwrap().texts("repository"), ["/a b", "/c"]);
}

#[test]
fn what_is_handed_on_says_the_same_of_archiving_and_nothing_else() {
    let mut text = String::new();
    for section in ["", "archive", "expire", "database"] {
        if !section.is_empty() {
            text.push_str(&format!("[{section}]\n"));
        }
        let of_section = KNOWN.iter().filter(|known| known.section() == section);
        for known in
            of_section.filter(|known| !known.path.contains("master_key_") || known.path.contains("file"))
        {
            let example = file_with(known, &examples(known)[usize::from(known.section() == "archive")]);
            text.push_str(example.lines().last().unwrap());
            text.push('\n');
        }
    }
    text.push_str("[credentials]\nAWS_SECRET_ACCESS_KEY = \"a\\\"b\\u007f\"\n");
    let settings = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let handed_on = settings.archiving_to_text();
    let read = parse(&handed_on).unwrap_or_else(|error| panic!("{error}\n{handed_on}"));
    assert_eq!(read.archiving_to_text(), handed_on);
    assert_eq!(read.credentials(), settings.credentials());
    for known in KNOWN {
        let is_handed_on = ["", "archive"].contains(&known.section());
        let expected = if is_handed_on { settings.texts(known.path) } else { &[] };
        assert_eq!(read.texts(known.path), expected, "{}", known.path);
    }
}

#[test]
fn a_listing_has_where_each_is_from_and_no_secret() {
    let text = "repository = \"/a\"\nmaster_key_command = \"echo hunter2\"\n[credentials]\nAWS_SECRET_ACCESS_KEY = \"hunter2\"\n";
    let settings = load(text, &[], &[("archive.timeout", "7")]).unwrap();
    let listing = settings.listing();
    let of = |name: &str| listing.iter().find(|listed| listed.name == name).unwrap();
    assert_eq!(of("archive.timeout").values, ["7"]);
    assert_eq!(of("archive.timeout").origin.level(), "option");
    assert_eq!(of("archive.in_flight").values, ["32"]);
    assert_eq!(of("archive.queue_max").unset, Some("no limit"));
    assert!(of("master_key_command").is_hidden && of("credentials.AWS_SECRET_ACCESS_KEY").is_hidden);
    assert_eq!(of("credentials.AWS_SECRET_ACCESS_KEY").origin.to_string(), "the file, line 4");
    let shown = format!("{listing:?} {:?}", settings.credentials);
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_believed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("seawall.toml");
    let refused = |path: &Path| file::read(path).unwrap_err().to_string();
    let write = |content: &[u8], mode| {
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert!(refused(&path).contains("seawall.toml"));
    write(b"repository = \"/a\"\n", 0o602);
    assert!(refused(&path).contains("chmod o-w"));
    write(b"repository = \"/a\"\nx = \"\xff\"\n", 0o600);
    assert!(
        refused(&path).contains("line 2 is not UTF-8")
            || refused(&path).contains("line 2: this line is not UTF-8")
    );
    write(&b"#".repeat((1 << 20) + 1), 0o600);
    assert!(refused(&path).contains("longer than 1 MiB"));
    assert!(refused(directory.path()).contains("regular file"));
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success() && refused(&pipe).contains("regular file"));
    write(&b"#".repeat(1 << 20), 0o640);
    assert!(!file::read(&path).unwrap().is_open);
    // A link, as those that manage configurations make: what it leads to is looked at.
    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(file::read(&link).is_ok());
    write(b"", 0o646);
    assert!(refused(&link).contains("chmod o-w"));
    assert!(file::read(Path::new("/dev/null")).unwrap().settings.is_empty());
}

#[test]
fn only_the_file_of_earlier_builds_is_not_taken_for_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let (new, old) = (directory.path().join("seawall.toml"), directory.path().join("archive.conf"));
    assert_eq!(file::default_file(directory.path()).unwrap(), None);
    std::fs::write(&old, "repository = /srv/archive\n").unwrap();
    let said = file::default_file(directory.path()).unwrap_err().to_string();
    assert!(
        said.contains("archive.conf") && said.contains("seawall.toml") && said.contains("TOML"),
        "{said}"
    );
    std::fs::write(&new, "").unwrap();
    assert_eq!(file::default_file(directory.path()).unwrap(), Some(new));
}

proptest! {
    /// Whatever the text is, it is read or refused; and what was read is read again.
    #[test]
    fn any_text_is_settings_or_refused(text in "[\\PC\\n\"=\\[\\]]{0,80}") {
        if let Ok(settings) = parse(&text) {
            let handed_on = settings.archiving_to_text();
            prop_assert_eq!(parse(&handed_on).unwrap().archiving_to_text(), handed_on);
        }
    }

    /// A mistake anywhere in the file shows nobody what the credentials are.
    #[test]
    fn no_message_has_a_credential(at in 0_usize..200, byte in "[\"'=\\[\\]\\n\\\\{}#, x0]") {
        let mut text = "repository = \"/a\"\n[credentials]\nAWS_ACCESS_KEY_ID = \"hunter2\"\n\
                        AWS_SECRET_ACCESS_KEY = 'hunter2' # the key\nAWS_REGION = \"eu\"\n[archive]\ntimeout = 7\n"
            .to_owned();
        text.insert_str(at % text.len(), &byte);
        if let Err(error) = parse(&text) {
            prop_assert!(!format!("{error} {error:?}").contains("hunter2"), "{}: {}", text, error);
        }
    }
}
