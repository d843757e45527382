//! The messages that the server sends, appended to a buffer.

use seawall_sql::session::{EncodedRow, Field, Notice, TransactionStatus};
use seawall_values::error::ErrorObject;
use seawall_values::{Oid, SqlError};

use super::ProtocolVersion;

/// How bad an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement has failed.
    Error,
    /// The connection ends.
    Fatal,
}

/// The messages to send, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) bytes: Vec<u8>,
}

impl Messages {
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        // A message is smaller than 4 GiB: rows and errors have limits far below.
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.message(b'R', |body| body.extend_from_slice(&0_u32.to_be_bytes()));
    }

    pub(crate) fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        self.message(b'R', |body| {
            body.extend_from_slice(&10_u32.to_be_bytes());
            mechanisms.iter().for_each(|mechanism| text(body, mechanism));
            body.push(0);
        });
    }

    pub(crate) fn authentication_sasl_continue(&mut self, data: &str) {
        self.message(b'R', |body| {
            body.extend_from_slice(&11_u32.to_be_bytes());
            body.extend_from_slice(data.as_bytes());
        });
    }

    pub(crate) fn authentication_sasl_final(&mut self, data: &str) {
        self.message(b'R', |body| {
            body.extend_from_slice(&12_u32.to_be_bytes());
            body.extend_from_slice(data.as_bytes());
        });
    }

    pub(crate) fn negotiate_protocol_version(&mut self, version: ProtocolVersion, unknown: &[&str]) {
        self.message(b'v', |body| {
            body.extend_from_slice(&version.number().to_be_bytes());
            body.extend_from_slice(&u32::try_from(unknown.len()).unwrap_or(u32::MAX).to_be_bytes());
            unknown.iter().for_each(|name| text(body, name));
        });
    }

    pub(crate) fn backend_key_data(&mut self, process_id: i32, key: &[u8]) {
        self.message(b'K', |body| {
            body.extend_from_slice(&process_id.to_be_bytes());
            body.extend_from_slice(key);
        });
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            text(body, name);
            text(body, value);
        });
    }

    pub(crate) fn ready_for_query(&mut self, status: TransactionStatus) {
        self.message(b'Z', |body| {
            body.push(match status {
                TransactionStatus::Idle => b'I',
                TransactionStatus::InTransaction => b'T',
                TransactionStatus::Failed => b'E',
            });
        });
    }

    pub(crate) fn parse_complete(&mut self) {
        self.message(b'1', |_| {});
    }

    pub(crate) fn bind_complete(&mut self) {
        self.message(b'2', |_| {});
    }

    pub(crate) fn close_complete(&mut self) {
        self.message(b'3', |_| {});
    }

    pub(crate) fn no_data(&mut self) {
        self.message(b'n', |_| {});
    }

    pub(crate) fn portal_suspended(&mut self) {
        self.message(b's', |_| {});
    }

    pub(crate) fn parameter_description(&mut self, types: &[Oid]) {
        self.message(b't', |body| {
            count(body, types.len());
            types.iter().for_each(|number| body.extend_from_slice(&number.to_be_bytes()));
        });
    }

    pub(crate) fn row_description(&mut self, fields: &[Field]) {
        self.message(b'T', |body| {
            count(body, fields.len());
            for field in fields {
                text(body, &field.name);
                body.extend_from_slice(&field.table.to_be_bytes());
                body.extend_from_slice(&field.column.to_be_bytes());
                body.extend_from_slice(&field.of.oid.to_be_bytes());
                body.extend_from_slice(&field.type_length.to_be_bytes());
                body.extend_from_slice(&field.of.modifier.to_be_bytes());
                body.extend_from_slice(&field.format.to_be_bytes());
            }
        });
    }

    pub(crate) fn data_row(&mut self, row: &EncodedRow) {
        self.message(b'D', |body| {
            body.extend_from_slice(&row.columns.to_be_bytes());
            body.extend_from_slice(&row.bytes);
        });
    }

    /// `None`: the statement was empty.
    pub(crate) fn command_complete(&mut self, tag: Option<&str>) {
        match tag {
            Some(tag) => self.message(b'C', |body| text(body, tag)),
            None => self.message(b'I', |_| {}),
        }
    }

    pub(crate) fn copy_in_response(&mut self, format: i8, columns: usize) {
        self.copy_response(b'G', format, columns);
    }

    pub(crate) fn copy_out_response(&mut self, format: i8, columns: usize) {
        self.copy_response(b'H', format, columns);
    }

    /// Of a stream of replication: both sides send data.
    pub(crate) fn copy_both_response(&mut self) {
        self.copy_response(b'W', 0, 0);
    }

    fn copy_response(&mut self, kind: u8, format: i8, columns: usize) {
        self.message(kind, |body| {
            body.extend_from_slice(&format.to_be_bytes());
            count(body, columns);
            (0..columns).for_each(|_| body.extend_from_slice(&i16::from(format).to_be_bytes()));
        });
    }

    pub(crate) fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', |body| body.extend_from_slice(data));
    }

    pub(crate) fn copy_done(&mut self) {
        self.message(b'c', |_| {});
    }

    pub(crate) fn notification(&mut self, process_id: i32, channel: &str, payload: &str) {
        self.message(b'A', |body| {
            body.extend_from_slice(&process_id.to_be_bytes());
            text(body, channel);
            text(body, payload);
        });
    }

    pub(crate) fn error(&mut self, severity: Severity, error: &SqlError) {
        let severity = match severity {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        };
        self.message(b'E', |body| fields(body, severity, error));
    }

    pub(crate) fn notice(&mut self, notice: &Notice) {
        self.message(b'N', |body| fields(body, notice.severity, &notice.content));
    }
}

/// The fields of an error or a notice, in PostgreSQL's order.
fn fields(body: &mut Vec<u8>, severity: &str, error: &SqlError) {
    let position = error.position.map(|position| position.to_string());
    let object = error.object.as_deref();
    let of_object =
        |part: fn(&ErrorObject) -> &Option<String>| object.and_then(|object| part(object).as_deref());
    for (code, value) in [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(error.code.as_str())),
        (b'M', Some(error.message.as_str())),
        (b'D', error.detail.as_deref()),
        (b'H', error.hint.as_deref()),
        (b'P', position.as_deref()),
        (b'W', error.context.as_deref()),
        (b's', of_object(|object| &object.schema)),
        (b't', of_object(|object| &object.table)),
        (b'c', of_object(|object| &object.column)),
        (b'd', of_object(|object| &object.data_type)),
        (b'n', of_object(|object| &object.constraint)),
    ] {
        if let Some(value) = value {
            body.push(code);
            text(body, value);
        }
    }
    body.push(0);
}

/// Text up to a zero byte. One within the text would end it early, and what follows would be read as something else.
fn text(body: &mut Vec<u8>, value: &str) {
    match value.contains('\0') {
        true => body.extend(value.bytes().filter(|byte| *byte != 0)),
        false => body.extend_from_slice(value.as_bytes()),
    }
    body.push(0);
}

/// Columns and parameters have limits far below that of two bytes.
fn count(body: &mut Vec<u8>, count: usize) {
    body.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use seawall_values::SqlState;

    use super::*;

    #[test]
    fn an_error_has_its_fields_and_no_zero_byte_within_one() {
        let mut messages = Messages::default();
        let error = SqlError::new(SqlState::SYNTAX_ERROR, "a\0b").with_hint("h").at(Some(3));
        messages.error(Severity::Error, &error);
        assert_eq!(messages.bytes, b"E\0\0\0\x24SERROR\0VERROR\0C42601\0Mab\0Hh\0P3\0\0");
    }

    #[test]
    fn messages_have_their_lengths() {
        let mut messages = Messages::default();
        messages.ready_for_query(TransactionStatus::Failed);
        messages.command_complete(None);
        messages.data_row(&EncodedRow { columns: 1, bytes: b"\xff\xff\xff\xff".to_vec() });
        assert_eq!(messages.bytes, b"Z\0\0\0\x05EI\0\0\0\x04D\0\0\0\x0a\0\x01\xff\xff\xff\xff");
    }
}
