//! Threads that start with a name.

use std::io;

use shuttle::thread::{JoinHandle, Scope, ScopedJoinHandle};

/// See `std::thread::Builder`; shuttle's own starts no scoped threads.
#[derive(Debug, Default)]
pub struct Builder(shuttle::thread::Builder);

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    pub fn name(self, name: String) -> Builder {
        Builder(self.0.name(name))
    }

    pub fn spawn<R: Send + 'static>(
        self,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<JoinHandle<R>> {
        self.0.spawn(body)
    }

    pub fn spawn_scoped<'scope, R: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> R + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, R>> {
        Ok(scope.spawn(body))
    }
}
