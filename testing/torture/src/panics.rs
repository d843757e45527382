//! A panic of what is under torture is a finding, not the end of the chamber.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work`; a panic in it is an error that says what the panic said.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What `work` has left half done is given up with it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(said(&*payload)))
}

/// What a panic said, of a thread that was joined, too.
pub(crate) fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}
