//! `to_char`, `to_date`, `to_timestamp` and `to_number`: texts in the form of a template.
//!
//! * `template`: cuts a template into fields and the text between them. * `moments`: fields of dates and times.
//! * `moment_output`, `moment_input`: values by such a template. * `moment_fields`: the moment that fields come to. * `numbers`: the digits and signs that a template has.
//! * `number_output`, `number_input`: numbers by such a template.

mod moment_fields;
mod moment_input;
mod moment_output;
mod moments;
mod number_input;
mod number_output;
mod numbers;
mod roman;
mod template;

use super::Table;

/// The tables of these files.
pub(super) const TABLES: &[Table] =
    &[moment_input::TABLE, moment_output::TABLE, number_input::TABLE, number_output::TABLE];
