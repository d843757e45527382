//! `seawall archive-push` and `seawall archive-get`: what PostgreSQL calls for each segment.
//!
//! ```text
//!   archive-push pg_wal/NAME
//!        |-- an acknowledgement of this very file in the spool? --> 0        most calls end here: no socket, no thread
//!        |-- ask the agent; start one if there is none          --> 0 when the file is durable wherever that is required, or
//!                                                                   let go since the queue is over its limit; else 1 and why
//!
//!   archive-get NAME pg_wal/RECOVERYXLOG
//!        |-- ask the agent --> 0 when it is there, whole
//!                              1 if the repository has no such file: the end of the archive
//!                              1 on a standby, 126 otherwise, if it cannot be told: see below
//! ```
//! To PostgreSQL, an exit code of `restore_command` from 1 to 125 means that the file does not exist. A recovery that is told so
//! ends, and the server opens for writes with what it has: so a store that does not answer must not look like the end of the
//! archive. 126 and more stops the recovery with an error, and nothing is lost. A standby, on the other hand, asks again and
//! again, and may have a primary to stream from: it is told 1.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use seawall_io::SystemClock;
use serde_json::json;

use crate::data_directory;
use crate::log_line::log_line;
use crate::peer::check_peer;
use crate::protocol::{Answer, Form, LINE_BYTES_MAX, Request, mark_of};
use crate::settings::ArchiveSettings;
use crate::spool::{FileIdentity, Lock, Spool};

/// The program's own name for the agent, which `main` hands to [`crate::agent::main`].
pub const AGENT_COMMAND: &str = "archive-agent";

const DONE: u8 = 0;
/// Not archived, or not in the repository.
const FAILED: u8 = 1;
/// Stops a recovery: PostgreSQL takes 126 and more for trouble, and less for a file that does not exist.
const STOPS_RECOVERY: u8 = 126;

/// An agent that was just started waits for the one before for as long as a command waits, and says so: its word is waited for a little
/// longer.
const WORD_OF_AGENT: Duration = Duration::from_secs(5);
/// An agent that ends because its settings are others does so at once, or when its uploads are through.
const AGENTS_TRIED: usize = 3;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Trouble(String);

impl Trouble {
    fn new(what: impl std::fmt::Display) -> Trouble {
        Trouble(what.to_string())
    }

    fn io(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Trouble {
        move |error| Trouble(format!("cannot {what}: {error}"))
    }
}

/// Runs `archive-push` with its arguments; returns the exit code.
pub fn push(arguments: &[OsString], form: Form) -> u8 {
    report("archive-push", form, &Cell::new(FAILED), || try_push(Call::of_file(arguments, form)?))
}

/// Runs `archive-get` with its arguments; returns the exit code.
pub fn get(arguments: &[OsString], form: Form) -> u8 {
    let of_trouble = Cell::new(STOPS_RECOVERY);
    report("archive-get", form, &of_trouble, || {
        let invocation = Invocation::of_file(arguments)?;
        if invocation.data.join("standby.signal").exists() {
            of_trouble.set(FAILED);
        }
        try_get(Call::at(invocation, form)?)
    })
}

/// Runs `archive-socket`, for programs that talk to the agent themselves: starts one, if there is none, and says what stands for the
/// settings, and where it listens. Returns the exit code.
pub fn socket(arguments: &[OsString], form: Form) -> u8 {
    report("archive-socket", form, &Cell::new(FAILED), || try_socket(Call::of_directory(arguments, form)?))
}

/// Runs `archive-status`; returns the exit code.
pub fn status(arguments: &[OsString], form: Form) -> u8 {
    let attempt = || {
        let call = Call::of_directory(arguments, form)?;
        match ask_running(&Request::Status(form), &call)? {
            Answer::Status(message) => print(&message),
            other => Err(unexpected(other)),
        }
    };
    report("archive-status", form, &Cell::new(FAILED), attempt)
}

/// Runs `archive-stop`; returns the exit code.
pub fn stop(arguments: &[OsString], form: Form) -> u8 {
    report("archive-stop", form, &Cell::new(FAILED), || {
        let call = Call::of_directory(arguments, form)?;
        match (ask_running(&Request::Stop, &call)?, call.data.display()) {
            (Answer::Ok, data) => match form {
                Form::Text => print(&format!("the agent of {data} ends when what is under way is done")),
                Form::Json => {
                    print(&json!({ "data_directory": data.to_string(), "stopping": true }).to_string())
                }
            },
            (other, _) => Err(unexpected(other)),
        }
    })
}

/// Makes an attempt, of which `of_trouble` is the exit code if it fails. The message goes to PostgreSQL's log. A panic, too, must not end with an exit code of its own: to a recovery that is the end of the
/// archive.
fn report(
    command: &str,
    form: Form,
    of_trouble: &Cell<u8>,
    attempt: impl FnOnce() -> Result<u8, Trouble>,
) -> u8 {
    let panicked = |_| Err(Trouble::new("a defect of seawall: its message is above; please report it"));
    let done = std::panic::catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(panicked);
    done.unwrap_or_else(|trouble| {
        let message = format!("{command}: {trouble}");
        match form {
            Form::Text => log_line!("seawall {message}"),
            Form::Json => log_line!("{}", json!({ "error": message, "exit_code": of_trouble.get() })),
        }
        of_trouble.get()
    })
}

/// The data directory that a command is about, and the command's other arguments.
struct Invocation {
    /// The full name of the data directory.
    data: PathBuf,
    /// All arguments but the option that named the data directory.
    arguments: Vec<OsString>,
}

impl Invocation {
    /// The last argument is the path of a file.
    fn of_file(arguments: &[OsString]) -> Result<Invocation, Trouble> {
        let (named, arguments) = take_data_directory(arguments)?;
        let path = arguments.last().map(PathBuf::from);
        let data = data_directory::find(named.as_deref(), path.as_deref()).map_err(Trouble::new)?;
        Ok(Invocation { data, arguments })
    }

    fn of_directory(arguments: &[OsString]) -> Result<Invocation, Trouble> {
        let (named, arguments) = take_data_directory(arguments)?;
        let data = data_directory::find(named.as_deref(), None).map_err(Trouble::new)?;
        Ok(Invocation { data, arguments })
    }
}

/// The value of the option that names the data directory, and the other arguments. No setting: it belongs to one call.
fn take_data_directory(arguments: &[OsString]) -> Result<(Option<PathBuf>, Vec<OsString>), Trouble> {
    const OPTION: &str = "--data-directory";
    let (mut named, mut rest) = (None, Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = argument.as_bytes().strip_prefix(OPTION.as_bytes());
        match value.map(|value| value.split_first()) {
            Some(Some((b'=', value))) => named = Some(PathBuf::from(OsStr::from_bytes(value))),
            Some(None) => {
                let value = arguments.next();
                named = Some(value.ok_or_else(|| Trouble::new(format!("{OPTION} has no value")))?.into());
            }
            None | Some(Some(_)) => rest.push(argument.clone()),
        }
    }
    Ok((named, rest))
}

/// What a command works with.
struct Call {
    settings: ArchiveSettings,
    spool: Spool,
    /// Where the spool really is.
    spool_path: PathBuf,
    data: PathBuf,
    /// The arguments that are no options.
    rest: Vec<OsString>,
    /// What it says looks like this.
    form: Form,
}

impl Call {
    fn of_file(arguments: &[OsString], form: Form) -> Result<Call, Trouble> {
        Call::at(Invocation::of_file(arguments)?, form)
    }

    fn of_directory(arguments: &[OsString], form: Form) -> Result<Call, Trouble> {
        Call::at(Invocation::of_directory(arguments)?, form)
    }

    /// With the spool, which nobody else could have written into: what it says is believed from here on.
    fn at(invocation: Invocation, form: Form) -> Result<Call, Trouble> {
        let Invocation { data, arguments } = invocation;
        let (settings, rest) = ArchiveSettings::load(&arguments).map_err(Trouble::new)?;
        settings.guard_secrets().map_err(Trouble::new)?;
        let spool = Spool::new(settings.spool(&data).map_err(Trouble::new)?, settings.repositories_mark());
        let spool_path = spool.check().map_err(Trouble::io("use the spool (SEAWALL_SPOOL names another)"))?;
        Ok(Call { settings, spool, spool_path, data, rest, form })
    }

    /// To be called before anything is archived. What only fetches, a drill for example, leaves nothing to remember.
    fn check_memory(&self) -> Result<(), Trouble> {
        self.settings.check_memory(&self.spool_path).map_err(Trouble::new)
    }

    /// Says what is no failure.
    fn warn(&self, text_label: &str, warning: &str) {
        match self.form {
            Form::Text => log_line!("{text_label}: {warning}"),
            Form::Json => log_line!("{}", json!({ "warning": warning })),
        }
    }

    /// The path of a file for the agent, which works in the data directory.
    fn path_for_agent(&self, path: &OsString) -> Result<String, Trouble> {
        let text = text_of(path)?;
        let here = std::env::current_dir().map_err(Trouble::io("look at the current directory"))?;
        if here == self.data {
            return Ok(text);
        }
        text_of(&here.join(text).into_os_string())
    }
}

fn try_push(call: Call) -> Result<u8, Trouble> {
    call.check_memory()?;
    let [path] = call.rest.as_slice() else {
        return Err(Trouble::new("expected one file: archive_command = 'seawall archive-push %p'"));
    };
    let file = Path::new(path);
    let name =
        file.file_name().and_then(OsStr::to_str).ok_or_else(|| Trouble::new("the file has no name"))?;
    let metadata = std::fs::metadata(file).map_err(Trouble::io(format!("look at {}", file.display())))?;
    if call.spool.is_acknowledged(name, FileIdentity::of(&metadata)) {
        return Ok(DONE);
    }
    let request = Request::Push { path: call.path_for_agent(path)? };
    match ask_agent(&call, &request)? {
        Answer::Ok => Ok(DONE),
        // It goes on without this segment, and its log says so.
        Answer::Released(message) => {
            call.warn("seawall archive-push", &message);
            Ok(DONE)
        }
        Answer::Failed(message) => Err(Trouble::new(message)),
        Answer::Missing | Answer::Status(_) | Answer::OtherSettings => Err(confused()),
    }
}

fn try_get(call: Call) -> Result<u8, Trouble> {
    let [name, path] = call.rest.as_slice() else {
        let usage = "expected a name and a path: restore_command = 'seawall archive-get %f %p'";
        return Err(Trouble::new(usage));
    };
    let request = Request::Fetch { name: text_of(name)?, path: call.path_for_agent(path)? };
    match ask_agent(&call, &request)? {
        Answer::Ok => Ok(DONE),
        // Asked for at the end of each archive, and by a standby every few seconds: nothing to say.
        Answer::Missing => Ok(FAILED),
        Answer::Failed(message) => Err(Trouble::new(message)),
        Answer::Released(_) | Answer::Status(_) | Answer::OtherSettings => Err(confused()),
    }
}

fn try_socket(call: Call) -> Result<u8, Trouble> {
    call.check_memory()?;
    match ask_agent(&call, &Request::Hello)? {
        Answer::Ok => {
            print(&format!("{:08x} {}", mark_of(&call.settings, &call.data), call.spool.socket().display()))
        }
        Answer::Failed(message) => Err(Trouble::new(message)),
        Answer::Released(_) | Answer::Missing | Answer::Status(_) | Answer::OtherSettings => Err(confused()),
    }
}

/// Asks the agent that runs, and starts none.
fn ask_running(request: &Request, call: &Call) -> Result<Answer, Trouble> {
    let stream = connect(&call.spool)?;
    let stream = stream.ok_or_else(|| {
        let (data, spool) = (call.data.display(), call.spool.directory().display());
        Trouble::new(format!("no agent runs for the data directory {data} with the spool {spool}"))
    })?;
    let line = request.to_line(mark_of(&call.settings, &call.data));
    let answer = exchange(stream, &line, call.settings.timeout())?;
    answer.ok_or_else(confused)
}

/// Why an answer is not the one that was asked for.
fn unexpected(answer: Answer) -> Trouble {
    match answer {
        Answer::Failed(message) => Trouble::new(message),
        Answer::Ok | Answer::Released(_) | Answer::Missing | Answer::Status(_) | Answer::OtherSettings => {
            confused()
        }
    }
}

/// The answer, on standard output.
fn print(answer: &str) -> Result<u8, Trouble> {
    let mut output = io::stdout();
    let printed = output.write_all(format!("{answer}\n").as_bytes()).and_then(|()| output.flush());
    printed.map(|()| DONE).map_err(Trouble::io("write the answer"))
}

fn confused() -> Trouble {
    Trouble::new(
        "the agent gave an answer that does not belong to the question; stop it with `seawall archive-stop`",
    )
}

fn text_of(argument: &OsString) -> Result<String, Trouble> {
    let text = argument.to_str().map(str::to_owned);
    text.ok_or_else(|| Trouble::new(format!("{} is not valid UTF-8", argument.display())))
}

/// Asks the agent, starting one where there is none.
fn ask_agent(call: &Call, request: &Request) -> Result<Answer, Trouble> {
    let Call { settings, spool, .. } = call;
    let line = request.to_line(mark_of(settings, &call.data));
    let timeout = settings.timeout();
    for _ in 0..AGENTS_TRIED {
        let stream = connect_or_start(call)?;
        match exchange(stream, &line, timeout)? {
            // It was just ending, or runs with other settings and ends now: the next one is ours.
            None => {}
            Some(Answer::OtherSettings) => {
                let ended = spool.lock_within(Lock::Agent, timeout, &SystemClock);
                drop(ended.map_err(Trouble::io("wait for the agent with other settings"))?);
            }
            Some(answer) => return Ok(answer),
        }
    }
    Err(Trouble::new(
        "the agent ended again and again without an answer; its log is beside its socket, agent.log",
    ))
}

/// One question and its answer; `None` if the agent went away.
fn exchange(mut stream: UnixStream, line: &str, timeout: Duration) -> Result<Option<Answer>, Trouble> {
    let prepared = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.write_all(line.as_bytes()));
    if prepared.is_err() {
        return Ok(None);
    }
    let mut answer = String::new();
    match BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut answer) {
        Ok(0) => Ok(None),
        Ok(_) => Answer::parse(&answer).map(Some).ok_or_else(confused),
        Err(error) if is_out_of_time(&error) => Err(Trouble::new(format!(
            "not done within {} s; the agent continues, and `seawall archive-status` says how far it is",
            timeout.as_secs()
        ))),
        Err(_) => Ok(None),
    }
}

fn is_out_of_time(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The agent, if one listens, and if it is one of ours.
fn connect(spool: &Spool) -> Result<Option<UnixStream>, Trouble> {
    let Ok(stream) = UnixStream::connect(spool.socket()) else { return Ok(None) };
    let who = format!("believe who listens at {}", spool.socket().display());
    check_peer(&stream).map_err(Trouble::io(who))?;
    Ok(Some(stream))
}

fn connect_or_start(call: &Call) -> Result<UnixStream, Trouble> {
    let Call { settings, spool, .. } = call;
    if let Some(stream) = connect(spool)? {
        return Ok(stream);
    }
    spool.prepare().map_err(Trouble::io("prepare the spool (SEAWALL_SPOOL names another)"))?;
    // One starts it, the others find it running.
    let timeout = settings.timeout();
    let _start =
        spool.lock_within(Lock::Start, timeout, &SystemClock).map_err(Trouble::io("lock the spool"))?;
    if let Some(stream) = connect(spool)? {
        return Ok(stream);
    }
    start(call)?;
    connect(spool)?.ok_or_else(|| {
        Trouble::new(format!(
            "the agent that was just started does not listen; see {}",
            spool.log().display()
        ))
    })
}

/// Starts an agent and waits until it listens, or says why it does not.
fn start(call: &Call) -> Result<(), Trouble> {
    let Call { settings, spool, data, .. } = call;
    // Said once for each agent: a command runs for each segment.
    settings.warnings().iter().for_each(|warning| call.warn("seawall: warning", warning));
    let timeout = settings.timeout() + WORD_OF_AGENT;
    // A socket, since a pipe has no time limit.
    let (ours, theirs) = UnixStream::pair().map_err(Trouble::io("make a socket for the agent"))?;
    ours.set_read_timeout(Some(timeout)).map_err(Trouble::io("limit the wait for the agent"))?;
    let program = std::env::current_exe().map_err(Trouble::io("find the program"))?;
    spool.turn_log().map_err(Trouble::io("put the agent's log aside"))?;
    let log = spool.open_log().map_err(Trouble::io("open the agent's log"))?;
    let mut agent = Command::new(program)
        .arg(AGENT_COMMAND)
        .arg(spool.socket().parent().expect("the socket lies in the spool"))
        .arg(data)
        .current_dir("/")
        // The C library keeps what a thread frees for that thread, up to the longest it has ever freed: with many uploads in
        // flight that is many times what they need. Told so, it gives long stretches back.
        .env("MALLOC_MMAP_THRESHOLD_", "524288")
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::piped())
        .stdout(OwnedFd::from(theirs))
        .stderr(log)
        .spawn()
        .map_err(Trouble::io("start the agent"))?;
    // Not in its arguments or its environment, where others could see credentials.
    let mut input = agent.stdin.take().expect("its standard input was asked for");
    input.write_all(settings.to_text().as_bytes()).map_err(Trouble::io("hand the settings to the agent"))?;
    drop(input);
    // A line, and not all: it goes on with its standard output open.
    let mut said = String::new();
    match BufReader::new(ours.take(LINE_BYTES_MAX)).read_line(&mut said) {
        Err(error) if is_out_of_time(&error) => {
            return Err(Trouble::new(format!(
                "the agent that was just started does not listen within {} s: a repository may hang; see {}",
                timeout.as_secs(),
                spool.log().display()
            )));
        }
        read => read.map_err(Trouble::io("hear from the agent"))?,
    };
    match Answer::parse(&said) {
        Some(Answer::Ok) => Ok(()),
        Some(Answer::Failed(message)) => Err(Trouble::new(message)),
        _ => Err(Trouble::new(format!("the agent did not start; {} may say why", spool.log().display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_does_not_look_like_the_end_of_the_archive() {
        assert_eq!(
            report("archive-get", Form::Text, &Cell::new(STOPS_RECOVERY), || panic!("on purpose")),
            STOPS_RECOVERY
        );
        assert_eq!(report("archive-get", Form::Text, &Cell::new(STOPS_RECOVERY), || Ok(FAILED)), FAILED);
    }
}
