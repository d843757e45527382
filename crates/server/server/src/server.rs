//! The server: listens, serves connections, and ends.
//!
//! | signal    | as in PostgreSQL                                                           |
//! |-----------|----------------------------------------------------------------------------|
//! | `SIGTERM` | smart: no new connections; ends when the last client has gone              |
//! | `SIGINT`  | fast: statements are cancelled, connections are ended                      |
//! | `SIGQUIT` | immediate: nothing is waited for; the next start recovers                  |
//! | `SIGHUP`  | the configuration and the certificate are read again                       |
//!
//! A later signal may only be faster than an earlier one.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall_engine::RecoveryProgress;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::configuration::{Configuration, ConfigurationError};
use crate::connection;
use crate::connections::CANCEL_AGAIN;
use crate::context::{Context, Reloaded};
use crate::http;
use crate::listeners::{ListenError, Listeners, UnixSocket};
use crate::socket::Socket;
use crate::statements::Statements;
use crate::supervisor;
use crate::tls::TlsError;
use crate::transport::Transport;

/// After an error of `accept`, such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// When the last client has gone, but for those that stream the log.
    Smart,
    /// Now, in order: what is under way is rolled back.
    Fast,
    /// Now: the database is left as it is, and the next start recovers.
    Immediate,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// What was chosen cannot be.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Of certificate and key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nobody could connect.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system gives no thread, signal or port for HTTP.
    #[error("cannot {what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

/// How a server that was run has ended.
#[derive(Debug)]
pub enum Ended<E> {
    /// As a signal has asked it to.
    AsAsked(Shutdown),
    /// In order, because [`ServerHandle::end`] was called, and no signal came.
    ByHandle,
    /// The database could not be opened.
    NotOpened(E),
    /// The database could not be closed: the next start recovers.
    NotClosed(E),
}

/// A server that listens. Until it has a database, clients are told to wait.
#[derive(Debug)]
pub struct Server {
    /// As of the start.
    configuration: Configuration,
    context: Arc<Context>,
    runtime: Runtime,
    port: u16,
    http: Option<SocketAddr>,
    http_task: Option<tokio::task::JoinHandle<()>>,
    signals: Signals,
    handle: ServerHandle,
    /// Aborted when no new connections are taken.
    acceptors: Vec<tokio::task::JoinHandle<()>>,
    unix: Option<UnixSocket>,
}

#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
    /// What this process itself asks for.
    asked: mpsc::UnboundedReceiver<Shutdown>,
    /// A signal has asked for an end.
    has_come: bool,
}

/// Ends a server that runs.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    ask: mpsc::UnboundedSender<Shutdown>,
}

impl ServerHandle {
    /// Ends the server, as a signal does.
    pub fn end(&self, shutdown: Shutdown) {
        // Nobody hears it: the server has ended.
        self.ask.send(shutdown).unwrap_or_default();
    }
}

impl Signals {
    /// To be called inside of the runtime.
    fn new(asked: mpsc::UnboundedReceiver<Shutdown>) -> io::Result<Signals> {
        Ok(Signals {
            asked,
            has_come: false,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one: how to end, or `None`: to read the configuration again.
    async fn next(&mut self) -> Option<Shutdown> {
        let signalled = tokio::select! {
            _ = self.terminate.recv() => Some(Shutdown::Smart),
            _ = self.interrupt.recv() => Some(Shutdown::Fast),
            _ = self.quit.recv() => Some(Shutdown::Immediate),
            _ = self.hang_up.recv() => None,
            Some(shutdown) = self.asked.recv() => return Some(shutdown),
        };
        self.has_come |= signalled.is_some();
        signalled
    }
}

/// Where the server is told how it comes to its database.
#[derive(Clone, Debug)]
pub struct Progress {
    context: Arc<Context>,
}

impl Progress {
    /// The recovery is so far.
    pub fn tell(&self, progress: RecoveryProgress) {
        self.context.note_recovery(progress);
    }

    /// An attempt to come to the database has failed, and is made again: `/health/ready`, `/metrics` and the service manager say so.
    pub fn held_up(&self, why: &str) {
        self.context.note_obstacle(why);
    }

    /// What held the server up does so no more.
    pub fn goes_on(&self) {
        self.context.overcome();
    }
}

impl Server {
    /// Listens. From here on clients are answered, if only that the database is starting.
    ///
    /// # Errors
    /// The configuration is wrong or not safe, or the system gives no address.
    pub fn start(configuration: &Configuration) -> Result<Server, ServerError> {
        configuration.check()?;
        raise_file_limit();
        let system = |what: &str| {
            let what = what.to_owned();
            |source| ServerError::System { what, source }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(1, usize::from).min(4))
            .max_blocking_threads(4)
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(system("start threads for the network"))?;
        let _inside = runtime.enter();
        let (ask, asked) = mpsc::unbounded_channel();
        let signals = Signals::new(asked).map_err(system("take signals"))?;
        let reloaded = Reloaded::of(configuration)?;
        let Listeners { tcp, unix, port } = Listeners::bind(configuration)?;
        let context = Arc::new(Context::new(configuration, reloaded, runtime.handle().clone()));
        let mut acceptors = Vec::new();
        for listener in tcp {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(system("listen"))?;
            acceptors.push(runtime.spawn(accept_tcp(Arc::clone(&context), listener)));
        }
        if let Some(unix) = &unix {
            let listener = unix.listener.try_clone().and_then(tokio::net::UnixListener::from_std);
            let listener = listener.map_err(system("listen"))?;
            acceptors.push(runtime.spawn(accept_unix(Arc::clone(&context), listener)));
        }
        if let Some(interval) = configuration.client_check_interval {
            runtime.spawn(look_for_vanished(Arc::clone(&context), interval));
        }
        let http = configuration.http_listen.map(|address| {
            let failed = system(&format!("listen on {address} for HTTP"));
            let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).map_err(failed)?;
            let bound = listener.local_addr().unwrap_or(address);
            let task = runtime.spawn(http::serve(Arc::clone(&context), listener));
            Ok::<_, ServerError>((bound, task))
        });
        let (http, http_task) = http.transpose()?.unzip();
        drop(_inside);
        let configuration = configuration.clone();
        let handle = ServerHandle { ask };
        Ok(Server {
            configuration,
            context,
            runtime,
            port,
            http,
            http_task,
            signals,
            handle,
            acceptors,
            unix,
        })
    }

    /// The port of TCP and of the Unix socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where metrics and health are served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where the Unix socket is.
    pub fn socket_directory(&self) -> Option<PathBuf> {
        self.context.socket_directory.clone()
    }

    /// What ends the server.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Where to tell how the opening of the database goes.
    pub fn progress(&self) -> Progress {
        Progress { context: Arc::clone(&self.context) }
    }

    /// From here on clients are logged in.
    pub fn serve(&self, database: Arc<dyn Statements>) {
        self.context.serve(database);
        supervisor::tell("READY=1\nSTATUS=serving");
    }

    /// Takes what a reload changes of a configuration.
    ///
    /// # Errors
    /// What is wrong with it; what was in force stays so.
    pub fn reload(&self, configuration: &Configuration) -> Result<(), ServerError> {
        configuration.check()?;
        self.context.reload(Reloaded::of(configuration)?);
        for name in self.configuration.changed_fixed(configuration) {
            tracing::warn!("server.{name} takes effect when the server is started again");
        }
        Ok(())
    }

    /// Opens the database on a thread of its own, serves it, ends as a signal says, and closes the database, unless the end is an
    /// immediate one. `read` reads the configuration again.
    pub fn run<E: Send + 'static>(
        mut self,
        open: impl FnOnce(Progress) -> Result<Arc<dyn Statements>, E> + Send + 'static,
        read: impl Fn() -> Result<Configuration, String>,
        ready: impl FnOnce(&Server),
        close: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Ended<E> {
        let (sender, receiver) = oneshot::channel();
        let progress = self.progress();
        std::thread::spawn(move || sender.send(open(progress)).map_err(drop).unwrap_or_default());
        let mut ready = Some(ready);
        let mut opened = Some(receiver);
        loop {
            let runtime = self.runtime.handle().clone();
            let signalled = runtime.block_on(async {
                let Some(opening) = &mut opened else { return Ok(self.signals.next().await) };
                tokio::select! {
                    signalled = self.signals.next() => Ok(signalled),
                    result = opening => Err(result),
                }
            });
            match signalled {
                Err(Ok(Ok(database))) => {
                    opened = None;
                    self.serve(database);
                    ready.take().into_iter().for_each(|ready| ready(&self));
                }
                Err(Ok(Err(error))) => return Ended::NotOpened(error),
                // The thread has panicked, and said so.
                Err(Err(_)) => return Ended::AsAsked(Shutdown::Immediate),
                Ok(None) => self.reload_from(&read),
                // Nothing is served yet that an orderly end could keep.
                Ok(Some(_)) if opened.is_some() => return Ended::AsAsked(Shutdown::Immediate),
                Ok(Some(shutdown)) => {
                    let shutdown = self.stop(shutdown);
                    let ended = match shutdown {
                        Shutdown::Immediate => Ended::AsAsked(shutdown),
                        Shutdown::Smart | Shutdown::Fast => self.close(shutdown, close),
                    };
                    if let Some(task) = self.http_task.take() {
                        // The next server of this process listens on the same port.
                        task.abort();
                        // It was aborted, or has ended by itself.
                        self.runtime.block_on(task).unwrap_or_default();
                    }
                    self.runtime.shutdown_background();
                    return ended;
                }
            }
        }
    }

    /// Closes the database, which may take long. A signal may ask for an immediate end meanwhile.
    fn close<E: Send + 'static>(
        &mut self,
        shutdown: Shutdown,
        close: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Ended<E> {
        let (sender, mut closed) = oneshot::channel();
        std::thread::spawn(move || sender.send(close()).map_err(drop).unwrap_or_default());
        let signals = &mut self.signals;
        self.runtime.block_on(async {
            loop {
                tokio::select! {
                    result = &mut closed => return match result {
                        Ok(Ok(())) if signals.has_come => Ended::AsAsked(shutdown),
                        Ok(Ok(())) => Ended::ByHandle,
                        Ok(Err(error)) => Ended::NotClosed(error),
                        // The thread has panicked, and said so.
                        Err(_) => Ended::AsAsked(Shutdown::Immediate),
                    },
                    signalled = signals.next() => {
                        if signalled == Some(Shutdown::Immediate) {
                            return Ended::AsAsked(Shutdown::Immediate);
                        }
                    }
                }
            }
        })
    }

    fn reload_from(&self, read: &impl Fn() -> Result<Configuration, String>) {
        let reloaded = read().and_then(|read| self.reload(&read).map_err(|error| error.to_string()));
        match reloaded {
            Ok(()) => tracing::info!("the configuration is read again"),
            Err(problem) => tracing::error!(%problem, "the configuration stays as it was"),
        }
    }

    /// Ends the server, and returns how: a signal may have asked for a faster end meanwhile.
    pub fn end(mut self, shutdown: Shutdown) -> Shutdown {
        let ended = self.stop(shutdown);
        self.runtime.shutdown_background();
        ended
    }

    fn stop(&mut self, shutdown: Shutdown) -> Shutdown {
        tracing::info!(?shutdown, "shutting down");
        // One that begins again as something else is not to be stopped by a service manager that loses its patience.
        supervisor::tell(if self.signals.has_come { "STOPPING=1" } else { "STATUS=changing the role" });
        self.context.begin_shutdown();
        let context = Arc::clone(&self.context);
        let signals = &mut self.signals;
        let ended = self.runtime.block_on(async {
            let mut shutdown = shutdown;
            while shutdown != Shutdown::Immediate && context.connections.count() > 0 {
                let ends_all = shutdown == Shutdown::Fast || context.connections.are_all_for_replication();
                if ends_all {
                    context.connections.all().iter().for_each(|entry| entry.end());
                }
                tokio::select! {
                    () = context.connections.one_less() => {}
                    () = tokio::time::sleep(CANCEL_AGAIN), if ends_all => {}
                    signalled = signals.next() => shutdown = shutdown.max(signalled.unwrap_or(shutdown)),
                }
            }
            shutdown
        });
        if ended == Shutdown::Immediate {
            self.context.connections.all().iter().for_each(|entry| entry.cut());
        }
        // Clients that come during a shutdown are told of it, up to here.
        for acceptor in std::mem::take(&mut self.acceptors) {
            acceptor.abort();
            // It was aborted, or has ended by itself.
            self.runtime.block_on(acceptor).unwrap_or_default();
        }
        drop(self.unix.take());
        ended
    }
}

/// As many files as the system lets this process have: each connection is one.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

async fn accept_tcp(context: Arc<Context>, listener: tokio::net::TcpListener) {
    loop {
        let accepted = listener.accept().await.and_then(|(stream, _)| Socket::tcp(stream.into_std()?));
        take(&context, accepted).await;
    }
}

async fn accept_unix(context: Arc<Context>, listener: tokio::net::UnixListener) {
    loop {
        let accepted = listener.accept().await.and_then(|(stream, _)| Socket::unix(stream.into_std()?));
        take(&context, accepted).await;
    }
}

async fn take(context: &Arc<Context>, accepted: io::Result<Socket>) {
    let socket = match accepted {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, "a connection is not taken");
            // Without a rest, an error that stays would take a processor.
            tokio::time::sleep(ACCEPT_REST).await;
            return;
        }
    };
    let connections = &context.connections;
    if connections.sockets.load(Ordering::Relaxed) >= connections.sockets_max() {
        connections.refused.fetch_add(1, Ordering::Relaxed);
        return;
    }
    connections.sockets.fetch_add(1, Ordering::Relaxed);
    let context = Arc::clone(context);
    context.runtime.clone().spawn(async move {
        let transport = Transport::new(socket, Arc::clone(&context.traffic));
        connection::serve(Arc::clone(&context), transport).await;
        context.connections.sockets.fetch_sub(1, Ordering::Relaxed);
    });
}

async fn look_for_vanished(context: Arc<Context>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        context.connections.cancel_vanished();
    }
}
