//! Arguments of `serve`.

use std::path::PathBuf;

use clap::Args;

pub(crate) const SERVE_HELP: &str = "\
Without options or settings, clients of this machine connect without a password, and no others. Settings are in section [server] of \
the settings file, under the names of these options: docs/server.md.

Signals: SIGTERM ends when the last client has gone, standbys aside; SIGINT cancels statements and ends at once; SIGQUIT ends without closing \
the database, and the next start recovers; SIGHUP reads the settings again.

Examples:
  seawall serve bank
  psql -h localhost -U postgres
  seawall serve bank --listen '*' --access 'host all all all scram-sha-256'
  seawall serve standby --port 5433 --follow 'host=primary user=standby'
  seawall serve bank --archive s3://wal/main --config bank.toml";

/// A database, and how it is served.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// Directory of the database; made if missing.
    pub(crate) dir: PathBuf,
    /// Follow another server as its standby. A DIR that is missing or empty is made from that server, while it runs. Settings in the words
    /// of libpq: host, port, user, password, application_name, slot, connect_timeout, sslmode, sslrootcert.
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) follow: Option<String>,
    /// Listen on this address or name of this machine, `*` for all; may be given several times. Default localhost.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// The port, and the number in the name of the Unix socket; 0 for one that is free. Default 5432.
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Whether there is a Unix socket, on or off. Default on.
    #[arg(long, value_name = "SWITCH")]
    unix_socket: Option<String>,
    /// Make the Unix socket in this directory. Default /tmp.
    #[arg(long, value_name = "DIR")]
    socket_directory: Option<String>,
    /// Who may connect to the Unix socket: 0777, 0770 or 0700. Default 0777.
    #[arg(long, value_name = "MODE")]
    socket_permissions: Option<String>,
    /// A rule of who may connect, such as 'host all all 10.0.0.0/8 scram-sha-256'; may be given several times, the first one that
    /// fits counts. Default: this machine, without a password.
    #[arg(long, value_name = "RULE")]
    access: Vec<String>,
    /// The certificate for TLS, and those that lead to its authority, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,
    /// The private key of the certificate, which only its owner may read, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Connections at a time, at most. Default 100.
    #[arg(long, value_name = "N")]
    connections: Option<String>,
    /// How many of them are for superusers. Default 3.
    #[arg(long, value_name = "N")]
    reserved_connections: Option<String>,
    /// How long a login may take. Default 1m.
    #[arg(long, value_name = "TIME")]
    authentication_timeout: Option<String>,
    /// How long a client may take nothing of what it is sent. Default 1m.
    #[arg(long, value_name = "TIME")]
    write_timeout: Option<String>,
    /// How often to look for statements whose client is gone; 0s: never. Default 1s.
    #[arg(long, value_name = "TIME")]
    client_check_interval: Option<String>,
    /// Bytes of a message of a client, at most. Default 256MiB.
    #[arg(long, value_name = "SIZE")]
    message_max: Option<String>,
    /// Memory of all statements, and of what sessions keep, at most. Default 1GiB.
    #[arg(long, value_name = "SIZE")]
    statement_memory_total: Option<String>,
    /// Whether to analyze tables of which many rows have changed, on or off. Default on.
    #[arg(long, value_name = "SWITCH")]
    autovacuum: Option<String>,
    /// How often to look for such tables. Default 1m.
    #[arg(long, value_name = "TIME")]
    autovacuum_naptime: Option<String>,
    /// More rows than so many must have changed since the last ANALYZE. Default 50.
    #[arg(long, value_name = "ROWS")]
    autovacuum_analyze_threshold: Option<String>,
    /// And this share of the rows that there were. Default 0.1.
    #[arg(long, value_name = "SHARE")]
    autovacuum_analyze_scale_factor: Option<String>,
    /// Whether to log connections and their ends, on or off. Default off.
    #[arg(long, value_name = "SWITCH")]
    log_connections: Option<String>,
    /// Serve metrics and health by HTTP on this address and port, such as 127.0.0.1:9187. Default: nowhere.
    #[arg(long, value_name = "ADDRESS")]
    http_listen: Option<String>,
    /// Standbys that commits wait for, such as "a, b", "FIRST 2 (a, b, c)" or "ANY 1 (a, b)". Default: none.
    #[arg(long, value_name = "NAMES")]
    synchronous_standby_names: Option<String>,
    /// How long commits wait while too few of these are connected, before the server goes on alone. Default: for ever.
    #[arg(long, value_name = "TIME")]
    alone_after: Option<String>,
    /// Bytes of log that the slot of a standby may keep, such as 64GiB, before it is lost; 0 or -1: any number. Default: any number.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    max_slot_wal_keep_size: Option<String>,
    /// Bytes of the newest log that are kept for standbys without a slot here, such as 1GiB. Default: none.
    #[arg(long, value_name = "BYTES")]
    wal_keep_size: Option<String>,
    /// What the empty DIR of a standby is made from: primary, or from a backup in an archive if that fails; or archive. Default primary.
    #[arg(long, value_name = "SOURCE")]
    make_standby_from: Option<String>,
    /// Of a standby with --archive whose upstream is away: latest, to go on to a new timeline of the archive; or current. Default latest.
    #[arg(long, value_name = "TIMELINE")]
    recovery_target_timeline: Option<String>,
    /// Of a standby: apply a commit only when it is so old. Default 0s.
    #[arg(long, value_name = "TIME")]
    recovery_min_apply_delay: Option<String>,
    /// Put the log into this repository; of a standby, get log from there that its upstream does not give. May be given several times.
    #[arg(long, value_name = "URL")]
    archive: Vec<String>,
}

impl Serve {
    /// What is given, as settings.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        let lists = [
            ("server.listen", &self.listen),
            ("server.access", &self.access),
            ("server.archive", &self.archive),
        ];
        let of_lists =
            lists.into_iter().flat_map(|(path, texts)| texts.iter().map(move |text| (path, text.clone())));
        let single = [
            ("server.port", &self.port),
            ("server.unix_socket", &self.unix_socket),
            ("server.socket_directory", &self.socket_directory),
            ("server.socket_permissions", &self.socket_permissions),
            ("server.tls_certificate", &self.tls_certificate),
            ("server.tls_key", &self.tls_key),
            ("server.connections", &self.connections),
            ("server.reserved_connections", &self.reserved_connections),
            ("server.authentication_timeout", &self.authentication_timeout),
            ("server.write_timeout", &self.write_timeout),
            ("server.client_check_interval", &self.client_check_interval),
            ("server.message_max", &self.message_max),
            ("server.statement_memory_total", &self.statement_memory_total),
            ("server.autovacuum", &self.autovacuum),
            ("server.autovacuum_naptime", &self.autovacuum_naptime),
            ("server.autovacuum_analyze_threshold", &self.autovacuum_analyze_threshold),
            ("server.autovacuum_analyze_scale_factor", &self.autovacuum_analyze_scale_factor),
            ("server.log_connections", &self.log_connections),
            ("server.http_listen", &self.http_listen),
            ("server.synchronous_standby_names", &self.synchronous_standby_names),
            ("server.alone_after", &self.alone_after),
            ("server.max_slot_wal_keep_size", &self.max_slot_wal_keep_size),
            ("server.wal_keep_size", &self.wal_keep_size),
            ("server.make_standby_from", &self.make_standby_from),
            ("server.recovery_target_timeline", &self.recovery_target_timeline),
            ("server.recovery_min_apply_delay", &self.recovery_min_apply_delay),
        ];
        let of_single = single.into_iter().filter_map(|(path, text)| Some((path, text.clone()?)));
        of_lists.chain(of_single).collect()
    }
}

/// A server that is to become a primary.
#[derive(Debug, Args)]
#[command(after_help = "\
The server receives nothing more, applies what it has, and begins a new timeline. Make sure that the old primary does not run: nothing here \
stops it. In SQL, `select pg_promote()` does the same.

Example:
  seawall promote standby")]
pub(crate) struct Promote {
    /// Directory that is served with `--follow`.
    pub(crate) dir: PathBuf,
    /// Seconds to wait for the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) wait: u64,
}

/// A primary that is to hand its role over.
#[derive(Debug, Args)]
#[command(after_help = "\
Writes wait, and are not refused, until the standby has everything; then it is promoted. Writes that have waited end with SQLSTATE 25006, and \
the server restarts as the standby of the new primary. If the standby does not get there in time, writes go on here.

Examples:
  seawall switchover bank
  seawall switchover bank --to second --wait 2
  seawall switchover bank --follow 'host=second user=standby slot=first'")]
pub(crate) struct Switchover {
    /// Directory that is served as the primary.
    pub(crate) dir: PathBuf,
    /// The standby that is to take over, by its application_name. Default: the only one.
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<String>,
    /// How this server follows it then, as `serve --follow`, with one host. Default: at the address that it comes from and the port that it
    /// serves, under its name, by a slot of the same name as its own.
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) follow: Option<String>,
    /// Seconds that the standby may take to come near, and then that writes wait at most.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) wait: u64,
}
