//! Waiting for whatever comes first: a command, or a file that is to be archived.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

/// Room for some hundred events.
const BUFFER_BYTES: usize = 16 << 10;

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Somebody wants to connect.
    Command,
    /// The file with this name is to be archived.
    Ready(String),
    /// More than the kernel can remember.
    Missed,
}

/// Watches a directory, if it is there.
#[derive(Debug)]
pub(super) struct Watch {
    directory: Option<OwnedFd>,
}

impl Watch {
    pub(super) fn new(directory: &Path) -> io::Result<Watch> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let watching = inotify::init(flags)?;
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        match inotify::add_watch(&watching, directory, events) {
            Ok(_) => Ok(Watch { directory: Some(watching) }),
            // A data directory without it, or one that is just being restored: commands come all the same.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Watch { directory: None }),
            Err(error) => Err(error.into()),
        }
    }

    /// What comes within `timeout`; nothing, if nothing does.
    pub(super) fn wait(&mut self, listener: &UnixListener, timeout: Duration) -> io::Result<Vec<Event>> {
        let mut sources = vec![PollFd::new(listener, PollFlags::IN)];
        sources.extend(self.directory.as_ref().map(|directory| PollFd::new(directory, PollFlags::IN)));
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        match poll(&mut sources, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_come = |index: usize| sources.get(index).is_some_and(|source| !source.revents().is_empty());
        let (command, directory) = (has_come(0), has_come(1));
        let mut events = Vec::new();
        if command {
            events.push(Event::Command);
        }
        if let (true, Some(watching)) = (directory, &self.directory) {
            read_events(watching.as_fd(), &mut events)?;
        }
        Ok(events)
    }
}

fn read_events(watching: std::os::fd::BorrowedFd<'_>, events: &mut Vec<Event>) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut reader = inotify::Reader::new(watching, &mut buffer);
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
            events.push(Event::Missed);
        }
        let name = event.file_name().and_then(|name| name.to_str().ok());
        events.extend(
            name.and_then(|name| name.strip_suffix(".ready")).map(|name| Event::Ready(name.to_owned())),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let watched = directory.path().join("archive_status");
        std::fs::create_dir(&watched).unwrap();
        let mut watch = Watch::new(&watched).unwrap();
        assert_eq!(watch.wait(&listener, Duration::ZERO).unwrap(), []);
        for name in ["000000010000000000000001.ready", "000000010000000000000002.done", "x.ready"] {
            std::fs::write(watched.join(name), b"").unwrap();
        }
        let expected = ["000000010000000000000001", "x"].map(|name| Event::Ready(name.to_owned()));
        assert_eq!(watch.wait(&listener, Duration::from_secs(10)).unwrap(), expected);
        let _stream = std::os::unix::net::UnixStream::connect(directory.path().join("socket")).unwrap();
        assert_eq!(watch.wait(&listener, Duration::from_secs(10)).unwrap(), [Event::Command]);
        let mut nothing = Watch::new(Path::new("/nowhere/at/all")).unwrap();
        assert_eq!(nothing.wait(&listener, Duration::ZERO).unwrap(), [Event::Command]);
    }
}
