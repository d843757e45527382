//! What can go wrong in a benchmark: mostly what an engine said, with who said it and at what.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Why a cell of the benchmark has no figure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// An engine failed. Whatever it says is kept whole: it is another project's error.
    #[error("{engine}: {operation}: {source}")]
    Engine { engine: &'static str, operation: &'static str, source: Box<dyn Error + Send + Sync> },
    /// The engine has no such operation, so that its cell stays empty.
    #[error("{engine} has no {operation}")]
    Unsupported { engine: &'static str, operation: &'static str },
    /// The engine answered, and wrongly: a figure taken from it would mean nothing.
    #[error("{engine}: {fact}")]
    Wrong { engine: &'static str, fact: String },
    #[error("{operation} {}: {source}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("process for one cell: {0}")]
    Process(String),
    #[error("JSON between two processes of the benchmark: {0}")]
    Json(#[from] serde_json::Error),
    #[error("engine {0} is not in this program: build it with `--features {0}`")]
    NotBuilt(&'static str),
}

/// For `map_err`: an engine's own error, and what it was asked to do.
pub(crate) fn engine_error<E: Into<Box<dyn Error + Send + Sync>>>(
    engine: &'static str,
    operation: &'static str,
) -> impl FnOnce(E) -> BenchError {
    move |source| BenchError::Engine { engine, operation, source: source.into() }
}

/// For `map_err`: a file of the benchmark's own.
pub(crate) fn file_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
    move |source| BenchError::File { operation, path: path.to_path_buf(), source }
}
