//! Values of which a part is set: `UPDATE t SET a[1] = 2, b[2:3] = '{1,2}', j['x'][0] = '1'`.
//!
//! `array`: elements and slices of arrays. `json`: members and elements of `jsonb`.

mod array;
mod json;
#[cfg(test)]
mod tests;

pub use array::{set_element, set_slice};
pub use json::set_member;
