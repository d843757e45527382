//! `serve`.

pub(crate) mod control;
mod handover;
mod marker;
mod rejoin;
mod repositories;
mod role;
mod slots;
mod standby;
mod synchronous;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall::{DatabaseDirectory, HandoverRecord, OpenMode, Options};
use seawall_replication::{Follower, Listens, SlotError, UpstreamSettings};
use seawall_server::{
    AccessRule, Configuration, Ended, Server, Shutdown, Statements, TlsFiles, default_rules,
};
use seawall_settings::Settings;
use seawall_sql::session::{AnalyzeThread, AutomaticAnalyze, DatabaseSettings, SqlDatabase};
use serde_json::json;

use super::{options, repository};
use crate::arguments::{Serve, Shared};
use crate::failure::Failure;
use crate::output::Output;
use control::Control;
use handover::Roles;
use repositories::StandbyArchive;
use role::Role;
use standby::{CopySource, Upstream};

pub(crate) fn serve(shared: &Shared, serve: &Serve, output: &mut Output) -> Result<(), Failure> {
    let mut before = None;
    loop {
        let role = match &before {
            None => role::role(&serve.dir, serve.follow.as_deref())?,
            Some(Before { record, .. }) => role::replaced(&serve.dir, record)?,
        };
        before = serve_once(shared, serve, role, before.map(|before| before.served_at), output)?;
        if before.is_none() {
            return Ok(());
        }
    }
}

/// A server that begins again in this process.
struct Before {
    served_at: ServedAt,
    /// To whom its role went.
    record: HandoverRecord,
}

#[derive(Clone, Copy)]
struct ServedAt {
    port: u16,
    http: Option<SocketAddr>,
}

impl ServedAt {
    /// Clients find the server where it was.
    fn again(before: Option<ServedAt>, configuration: Configuration) -> Configuration {
        match before {
            None => configuration,
            Some(ServedAt { port, http }) => Configuration { port, http_listen: http, ..configuration },
        }
    }
}

/// Serves until the server ends; what was before, if it begins again because its role has changed.
fn serve_once(
    shared: &Shared,
    serve: &Serve,
    role: Role,
    before: Option<ServedAt>,
    output: &mut Output,
) -> Result<Option<Before>, Failure> {
    let configuration = ServedAt::again(before, configuration(&shared.settings)?);
    if configuration.tls.is_some() {
        seawall_io::forbid_core_files()
            .map_err(Failure::io("cannot keep the key of TLS out of core files"))?;
    }
    let standbys = synchronous::standbys(&shared.settings)?;
    let slot_limit = slots::limit(&shared.settings)?;
    let mut options = Options {
        archives: repositories::archives(shared)?,
        quorum: standbys.as_ref().map(|_| synchronous::quorum(&shared.settings)),
        ..options(shared, OpenMode::CreateIfMissing)
    };
    options.log.keep_bytes = slots::kept(&shared.settings);
    options.apply_delay = configuration.database.apply_delay;
    let (archive, source) = match &role {
        Role::Primary | Role::HandedOver(_) => (StandbyArchive::none(), CopySource::Primary),
        Role::Standby(_) | Role::Replaced { .. } => {
            (StandbyArchive::open(shared)?, CopySource::of(&shared.settings))
        }
    };
    let server = Server::start(&configuration)?;
    let served_at = ServedAt { port: server.port(), http: server.http_address() };
    let (opened, following, analyzing) = (Arc::default(), Arc::default(), Arc::default());
    let (controlled, next): (Arc<OnceLock<Control>>, Arc<OnceLock<HandoverRecord>>) = Default::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let listens = Listens {
        port: server.port(),
        socket_directory: server.socket_directory().map(|path| path.display().to_string()),
    };
    let is_told = serve.follow.is_some() && before.is_none();
    let open = {
        let (directory, opened): (_, Arc<OnceLock<Arc<SqlDatabase>>>) =
            (serve.dir.clone(), Arc::clone(&opened));
        let following: Arc<OnceLock<Follower>> = Arc::clone(&following);
        let analyzing: Arc<OnceLock<AnalyzeThread>> = Arc::clone(&analyzing);
        let (controlled, next, is_over) = (Arc::clone(&controlled), Arc::clone(&next), Arc::clone(&is_over));
        let handle = server.handle();
        move |progress: seawall_server::Progress| {
            let (engine, upstream, record, unused_slot) = match role {
                Role::Primary | Role::HandedOver(_) => {
                    let engine =
                        DatabaseDirectory::at(&directory).open(options, |step| progress.tell(step))?;
                    let record = if let Role::HandedOver(record) = role { Some(record) } else { None };
                    (engine, None, record, None)
                }
                Role::Replaced { upstream, slot } => {
                    let settings = UpstreamSettings { listens: Some(listens), ..upstream };
                    let upstream = Upstream { settings, archive, source };
                    (standby::open_replaced(&directory, options)?, Some(upstream), None, slot)
                }
                Role::Standby(upstream) => {
                    let settings = UpstreamSettings { listens: Some(listens), ..upstream };
                    let upstream = Upstream { settings, archive, source };
                    let engine = standby::open(&directory, options, &upstream, &progress)?;
                    if is_told {
                        // Whom it follows is said from now on by whoever starts it.
                        DatabaseDirectory::at(&directory).forget_handover()?;
                    }
                    (engine, Some(upstream), None, None)
                }
            };
            let sql = SqlDatabase::new(engine).map_err(|error| Failure::Broken(error.to_string()))?;
            opened.get_or_init(|| Arc::clone(&sql));
            standbys.into_iter().for_each(|names| sql.replication.commits_wait_for(names));
            sql.replication.limit_slots(slot_limit)?;
            if let Some(slot) = unused_slot {
                // The new primary does not need it, and it would keep the log for ever.
                match sql.replication.drop_slot(&slot) {
                    Ok(()) | Err(SlotError::Missing(_)) => {}
                    Err(error) => tracing::warn!(%error, slot, "the slot of the new primary is not dropped"),
                }
            }
            if let Some(upstream) = &upstream {
                let follower = standby::follow(&sql, upstream)?;
                following.get_or_init(|| follower);
            }
            let roles =
                Roles { directory: directory.clone(), sql: Arc::clone(&sql), server: handle, next, is_over };
            if let Some(record) = record {
                roles.settle(record);
            }
            let control = control::listen(&directory, roles)
                .map_err(Failure::io("cannot make the socket `control`"))?;
            controlled.get_or_init(|| control);
            let thread = AnalyzeThread::start(&sql).map_err(Failure::io("cannot start a thread"))?;
            analyzing.get_or_init(|| thread);
            Ok::<Arc<dyn Statements>, Failure>(Arc::new(sql))
        }
    };
    let read = || {
        let mut again = shared.clone();
        again.load_settings(serve.given()).map_err(|error| error.to_string())?;
        let read = self::configuration(&again.settings).map_err(|error| error.to_string())?;
        Ok(ServedAt::again(before, read))
    };
    let close = move || {
        is_over.store(true, Ordering::SeqCst);
        controlled.get().into_iter().for_each(Control::end);
        following.get().into_iter().for_each(Follower::end);
        analyzing.get().into_iter().for_each(AnalyzeThread::end);
        opened.get().map_or(Ok(()), |sql| Ok(sql.engine.clone().close()?))
    };
    let mut told = Ok(());
    let ready = |server: &Server| {
        if before.is_none() {
            told = tell(server, &serve.dir, output);
        }
    };
    let ended = server.run(open, read, ready, close);
    told?;
    match ended {
        Ended::NotOpened(failure) | Ended::NotClosed(failure) => Err(failure),
        // Neither threads nor the database are waited for: the next start recovers.
        Ended::AsAsked(Shutdown::Immediate) => std::process::exit(0),
        Ended::AsAsked(Shutdown::Smart | Shutdown::Fast) => Ok(None),
        Ended::ByHandle => Ok(next.get().cloned().map(|record| Before { served_at, record })),
    }
}

/// Where clients connect.
fn tell(server: &Server, directory: &Path, output: &mut Output) -> Result<(), Failure> {
    let (port, http) = (server.port(), server.http_address());
    let directory = directory.display();
    let socket = server.socket_directory().map(|path| path.display().to_string());
    let host = socket.as_deref().unwrap_or("localhost");
    let value = json!({
        "serving": directory.to_string(), "port": port, "socket_directory": socket,
        "http": http.map(|address| address.to_string()),
    });
    output.answer(
        &value,
        format_args!("serving {directory}; connect with: psql -h {host} -p {port} -U postgres"),
    )?;
    output.flush()
}

/// What section `[server]`, its options and variables say.
fn configuration(settings: &Settings) -> Result<Configuration, Failure> {
    let refused =
        |path: &str, problem: String| Failure::Usage(format!("{}: {path}: {problem}", settings.origin(path)));
    let number = |path: &str| settings.require::<usize>(path);
    let time = |path: &str| settings.time(path).unwrap_or_default();
    let is_on = |path: &str| settings.text(path) == Some("on");
    let access = match settings.texts("server.access") {
        [] => default_rules(),
        texts => texts
            .iter()
            .map(|text| {
                let refused = |problem: &_| refused("server.access", format!("{text:?}: {problem}"));
                text.parse::<AccessRule>().map_err(|error| refused(&error))
            })
            .collect::<Result<_, _>>()?,
    };
    let tls = match (settings.path("server.tls_certificate"), settings.path("server.tls_key")) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(refused("server.tls_certificate", "set server.tls_key, too".to_owned()));
        }
        (None, Some(_)) => {
            return Err(refused("server.tls_key", "set server.tls_certificate, too".to_owned()));
        }
    };
    let http_listen = settings.text("server.http_listen").map(|text| {
        let expected = "expected an address and a port, such as 127.0.0.1:9187";
        text.parse().map_err(|_| refused("server.http_listen", format!("{text:?}: {expected}")))
    });
    let defaults = Configuration::default();
    let message_max = settings.bytes("server.message_max").unwrap_or_default().min(MESSAGE_BYTES_MAX);
    Ok(Configuration {
        listen: match settings.texts("server.listen") {
            [] => defaults.listen,
            texts => texts.to_vec(),
        },
        port: settings.require("server.port"),
        socket_directory: settings.path("server.socket_directory").filter(|_| is_on("server.unix_socket")),
        socket_permissions: settings
            .text("server.socket_permissions")
            .and_then(|text| u32::from_str_radix(text, 8).ok())
            .unwrap_or(defaults.socket_permissions),
        access,
        tls,
        connections_max: number("server.connections"),
        connections_reserved: number("server.reserved_connections"),
        authentication_timeout: time("server.authentication_timeout"),
        write_timeout: time("server.write_timeout"),
        client_check_interval: Some(time("server.client_check_interval")).filter(|time| !time.is_zero()),
        message_bytes_max: usize::try_from(message_max).unwrap_or(usize::MAX),
        database: database_settings(settings)?,
        logs_connections: is_on("server.log_connections"),
        http_listen: http_listen.transpose()?,
    })
}

/// What sessions share.
fn database_settings(settings: &Settings) -> Result<DatabaseSettings, Failure> {
    let refused = |path: &str, expected: &str| {
        Failure::Usage(format!("{}: {path}: expected {expected}", settings.origin(path)))
    };
    let memory = settings.bytes("server.statement_memory_total").unwrap_or_default();
    if memory < STATEMENT_MEMORY_MIN {
        return Err(refused("server.statement_memory_total", "at least 16MiB"));
    }
    let pause = settings.time("server.autovacuum_naptime").unwrap_or_default();
    if pause < Duration::from_secs(1) {
        return Err(refused("server.autovacuum_naptime", "at least 1s"));
    }
    let path = "server.autovacuum_analyze_scale_factor";
    let scale_factor = settings.text(path).and_then(|text| text.parse::<f64>().ok());
    let scale_factor = scale_factor.filter(|share| (0.0..=100.0).contains(share));
    Ok(DatabaseSettings {
        statement_memory_total: usize::try_from(memory).unwrap_or(usize::MAX),
        apply_delay: settings.time("server.recovery_min_apply_delay").unwrap_or_default(),
        automatic_analyze: AutomaticAnalyze {
            is_on: settings.text("server.autovacuum") == Some("on"),
            pause,
            threshold: settings.require("server.autovacuum_analyze_threshold"),
            scale_factor: scale_factor.ok_or_else(|| refused(path, "a number from 0 to 100, such as 0.1"))?,
        },
    })
}

/// With less, not even statements that keep little could run side by side.
const STATEMENT_MEMORY_MIN: u64 = 16 << 20;
/// The protocol's own limit.
const MESSAGE_BYTES_MAX: u64 = (1 << 30) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Configuration, String> {
        let settings = Settings::parse(text, "the file").map_err(|error| error.to_string())?;
        configuration(&settings).map_err(|error| error.to_string())
    }

    /// The settings and the server must not have different ones.
    #[test]
    fn the_defaults_of_settings_are_those_of_the_server() {
        assert_eq!(format!("{:?}", of("").unwrap()), format!("{:?}", Configuration::default()));
    }

    #[test]
    fn a_section_is_understood() {
        let configuration = of("[server]\nlisten = [\"*\", \"::1\"]\nport = 7000\nunix_socket = \"off\"\n\
             access = [\"hostssl all all all scram-sha-256\"]\nclient_check_interval = \"0s\"\n\
             tls_certificate = \"/c\"\ntls_key = \"/k\"\nhttp_listen = \"127.0.0.1:1\"\nmessage_max = \"4GiB\"")
        .unwrap();
        assert_eq!(configuration.listen, ["*", "::1"]);
        assert_eq!((configuration.port, configuration.socket_directory.clone()), (7000, None));
        assert_eq!(configuration.access[0].to_string(), "hostssl all all all scram-sha-256");
        assert_eq!(
            (configuration.client_check_interval, configuration.message_bytes_max),
            (None, (1 << 30) - 1)
        );
        assert_eq!(configuration.check(), Ok(()));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            ("access = [\"local all\"]", "the file, line 2: server.access: \"local all\": expected `local"),
            (
                "statement_memory_total = \"1MiB\"",
                "the file, line 2: server.statement_memory_total: expected at least 16MiB",
            ),
            (
                "autovacuum_analyze_scale_factor = \"all\"",
                "the file, line 2: server.autovacuum_analyze_scale_factor: expected a number from 0 to 100",
            ),
            ("tls_key = \"/k\"", "the file, line 2: server.tls_key: set server.tls_certificate, too"),
            ("http_listen = \"9187\"", "the file, line 2: server.http_listen: \"9187\": expected an address"),
            (
                "max_connections = 7",
                "the file, line 2: \"max_connections\" is not a setting in [server]; did you mean",
            ),
        ] {
            let refused = of(&format!("[server]\n{text}")).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
