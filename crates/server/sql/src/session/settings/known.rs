//! The settings that there are: those of PostgreSQL 15 with their kinds, limits and defaults, from the file of its catalogs.
//!
//! * Most are accepted and only kept: clients, tools and dumps set them, and nothing here depends on them (costs, `jit`, `lc_*`,
//!   `check_function_bodies`, the `log_*`, `vacuum_*` and `tcp_*` ones).
//! * Those that change what statements do are in `effective`; those whose values are checked by more than their kind in `check`.
//! * Those of the contexts `internal`, `postmaster` and `sighup` cannot be changed by a session.
//! * Names with a point are the client's own.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use seawall_values::system::{array_elements, system};

use super::unit::Unit;

/// Who may change a setting, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// Never.
    Internal,
    /// At the start of the server.
    Postmaster,
    /// When the server reads its configuration.
    Reload,
    /// At the start of a session.
    Backend,
    /// At the start of a session, by a superuser.
    SuperuserBackend,
    /// By a superuser.
    Superuser,
    /// Always.
    User,
}

/// The values that a setting takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Bool,
    Integer {
        unit: Option<Unit>,
        minimum: i32,
        maximum: i32,
    },
    Real {
        unit: Option<Unit>,
        minimum: f64,
        maximum: f64,
    },
    Enumeration(Vec<String>),
    Text,
    /// A list of names, or of texts.
    List {
        is_quoted: bool,
    },
}

/// A setting.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) context: Context,
    /// The value without a unit, as `pg_settings.setting` has it.
    pub(super) default: String,
    /// The description in `SHOW ALL`.
    pub(super) description: String,
    /// Whether `SHOW ALL` and `pg_settings` leave the setting out.
    pub(super) is_hidden: bool,
}

/// Defaults that differ from those that PostgreSQL is compiled with, or that its `initdb` writes to the configuration.
const DEFAULTS: [(&str, &str); 24] = [
    ("TimeZone", "UTC"),
    ("client_encoding", "UTF8"),
    ("data_checksums", "on"),
    ("data_directory_mode", "0700"),
    ("default_text_search_config", "pg_catalog.english"),
    ("jit", "off"),
    ("krb_server_keyfile", ""),
    ("lc_collate", "C.UTF-8"),
    ("lc_ctype", "C.UTF-8"),
    ("lc_messages", "C.UTF-8"),
    ("lc_monetary", "C.UTF-8"),
    ("lc_numeric", "C.UTF-8"),
    ("lc_time", "C.UTF-8"),
    ("log_file_mode", "0600"),
    // Values of users are in the log only where somebody has asked for them.
    ("log_parameter_max_length", "0"),
    ("log_timezone", "UTC"),
    ("max_prepared_transactions", "262143"),
    ("max_stack_depth", "2048"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.18"),
    ("ssl_library", ""),
    ("timezone_abbreviations", "Default"),
    ("unix_socket_directories", "/tmp"),
    ("unix_socket_permissions", "0777"),
];

/// Lists, and whether their elements are names.
const LISTS: [(&str, bool); 12] = [
    ("DateStyle", false),
    ("listen_addresses", false),
    ("local_preload_libraries", true),
    ("log_destination", false),
    ("restrict_nonsystem_relation_kind", false),
    ("search_path", true),
    ("session_preload_libraries", true),
    ("shared_preload_libraries", true),
    ("synchronous_standby_names", false),
    ("temp_tablespaces", true),
    ("unix_socket_directories", true),
    ("wal_consistency_checking", false),
];

/// Settings that PostgreSQL does not list: name, whether boolean, context, default.
const HIDDEN: [(&str, Kind, Context, &str); 4] = [
    ("default_with_oids", Kind::Bool, Context::User, "off"),
    ("is_superuser", Kind::Bool, Context::Internal, "off"),
    ("role", Kind::Text, Context::User, "none"),
    ("session_authorization", Kind::Text, Context::User, ""),
];

/// Seawall's own settings: name, kind, default, description.
const OWN: [(&str, Kind, &str, &str); 1] = [(
    "seawall.statement_memory",
    Kind::Integer { unit: Some(Unit::KILOBYTES), minimum: 1024, maximum: i32::MAX },
    "262144",
    "Sets the memory that all parts of a statement use together, at most.",
)];

/// Older names of settings.
const OLD_NAMES: [(&str, &str); 2] = [("sort_mem", "work_mem"), ("vacuum_mem", "maintenance_work_mem")];

/// The setting with this name, in any case.
pub(super) fn known(name: &str) -> Option<&'static Known> {
    let lower = name.to_ascii_lowercase();
    let current = OLD_NAMES.iter().find(|(old, _)| *old == lower).map_or(&lower[..], |(_, current)| current);
    KNOWN.by_name.get(current).map(|position| &KNOWN.all[*position])
}

/// All settings, in the order of their names.
pub(super) fn all() -> &'static [Known] {
    &KNOWN.all
}

struct Registry {
    all: Vec<Known>,
    by_name: FxHashMap<String, usize>,
}

static KNOWN: LazyLock<Registry> = LazyLock::new(|| {
    let mut all = of_postgresql();
    let hidden = HIDDEN.iter().map(|(name, kind, context, default)| Known {
        name: (*name).to_owned(),
        kind: kind.clone(),
        context: *context,
        default: (*default).to_owned(),
        description: String::new(),
        is_hidden: true,
    });
    all.extend(hidden);
    let own = OWN.iter().map(|(name, kind, default, description)| Known {
        name: (*name).to_owned(),
        kind: kind.clone(),
        context: Context::User,
        default: (*default).to_owned(),
        description: (*description).to_owned(),
        is_hidden: false,
    });
    all.extend(own);
    all.sort_by_key(|known| known.name.to_ascii_lowercase());
    let positions = all.iter().enumerate();
    let by_name = positions.map(|(position, known)| (known.name.to_ascii_lowercase(), position)).collect();
    Registry { all, by_name }
});

fn of_postgresql() -> Vec<Known> {
    let Some(block) = system().block("pg_settings") else { return Vec::new() };
    let columns =
        ["name", "unit", "context", "vartype", "min_val", "max_val", "enumvals", "boot_val", "short_desc"];
    let positions = columns.map(|column| block.position(column));
    let known = |row: Vec<seawall_values::system::Field>| {
        let [name, unit, context, kind, minimum, maximum, words, default, description] =
            positions.map(|position| row[position].as_deref().unwrap_or_default());
        let default = DEFAULTS.iter().find(|(known, _)| *known == name).map_or(default, |(_, value)| value);
        Known {
            name: name.to_owned(),
            kind: kind_of(name, kind, Unit::named(unit), (minimum, maximum), words),
            context: context_named(context),
            default: default.to_owned(),
            description: description.to_owned(),
            is_hidden: false,
        }
    };
    block.rows().map(known).collect()
}

fn context_named(name: &str) -> Context {
    match name {
        "postmaster" => Context::Postmaster,
        "sighup" => Context::Reload,
        "backend" => Context::Backend,
        "superuser-backend" => Context::SuperuserBackend,
        "superuser" => Context::Superuser,
        "user" => Context::User,
        _ => Context::Internal,
    }
}

fn kind_of(
    name: &str,
    kind: &str,
    unit: Option<Unit>,
    (minimum, maximum): (&str, &str),
    words: &str,
) -> Kind {
    match kind {
        "bool" => Kind::Bool,
        "integer" => Kind::Integer {
            unit,
            minimum: minimum.parse().unwrap_or(i32::MIN),
            maximum: maximum.parse().unwrap_or(i32::MAX),
        },
        "real" => Kind::Real {
            unit,
            minimum: minimum.parse().unwrap_or(f64::MIN),
            maximum: maximum.parse().unwrap_or(f64::MAX),
        },
        "enum" => Kind::Enumeration(array_elements(words).into_iter().flatten().collect()),
        _ => match LISTS.iter().find(|(list, _)| *list == name) {
            Some((_, is_quoted)) => Kind::List { is_quoted: *is_quoted },
            None => Kind::Text,
        },
    }
}

/// Whether a name is one that a client may give to a setting of its own: two or more identifiers with points between them.
pub(super) fn is_custom(name: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || !letter.is_ascii();
    let is_identifier = |part: &str| {
        part.starts_with(is_first)
            && part.chars().all(|letter| is_first(letter) || letter.is_ascii_digit() || letter == '$')
    };
    name.contains('.') && name.split('.').all(is_identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(known("timezone").unwrap().name, "TimeZone");
        assert_eq!(known("SORT_MEM").unwrap().name, "work_mem");
        assert!(known("transaction_timeout").is_none());
        assert!(all().len() > 350, "{}", all().len());
    }

    #[test]
    fn every_changed_default_and_list_is_one_of_postgresql() {
        for name in DEFAULTS.iter().map(|(name, _)| name).chain(LISTS.iter().map(|(name, _)| name)) {
            assert_eq!(&known(name).unwrap().name, name);
        }
    }

    #[test]
    fn names_of_clients_have_a_point() {
        for name in ["a.b", "a.b.c", "_x.y1$", "é.x"] {
            assert!(is_custom(name), "{name}");
        }
        for name in ["a", "a b.c", ".b", "a.", "a.1", "1.a", "a.$", "a..b"] {
            assert!(!is_custom(name), "{name}");
        }
    }
}
