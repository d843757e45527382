//! `to_number`.

use std::sync::Arc;

use super::numbers::{Field, Template};
use super::template::Part;
use crate::datum::{Datum, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::Table;
use crate::functions::arguments::row;
use crate::modifier::{self, Cast};
use crate::{numeric, oid};

pub(super) const TABLE: Table =
    &[row!("numeric_to_number", [Text text, Text template], number(text, template))];

fn number(text: &str, template: &str) -> SqlResult<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let template = Template::read(template)?;
    let unsupported = |what: &str| {
        let message = format!("\"{what}\" not supported for input");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    if template.has_exponent {
        return unsupported("EEEE");
    }
    if template.is_roman {
        return unsupported("RN");
    }
    let mut reader = Reader::new(text, &template);
    reader.read();
    let (digits, scale) = reader.result();
    let value: Numeric = digits.parse()?;
    let value = with_precision(value, template.before + template.shift + scale, scale)?;
    if !template.has_shift {
        return Ok(Datum::Numeric(Arc::new(value)));
    }
    let exponent = i64::try_from(template.shift).unwrap_or(0);
    let power = numeric::power(&Numeric::from(10_i64), &Numeric::from(-exponent))?;
    numeric::mul(&value, &power).map(|value| Datum::Numeric(Arc::new(value)))
}

/// The number as one of the type `numeric(precision, scale)` that the template says.
fn with_precision(value: Numeric, precision: usize, scale: usize) -> SqlResult<Numeric> {
    const HEADER: i32 = 4;
    let packed = i32::try_from(precision << 16 | scale).ok().and_then(|packed| packed.checked_add(HEADER));
    let Some(packed) = packed.filter(|_| precision <= 0x7fff && scale <= 0x3ff) else {
        return Ok(value);
    };
    match modifier::apply(oid::NUMERIC, packed, Datum::Numeric(Arc::new(value)), Cast::Assignment)? {
        Datum::Numeric(value) => Ok(Arc::unwrap_or_clone(value)),
        _ => Err(SqlError::internal("a number became a value of another type")),
    }
}

/// A text that is read by a template.
struct Reader<'a> {
    template: &'a Template,
    text: &'a str,
    at: usize,
    sign: Option<char>,
    digits: String,
    digits_before: usize,
    digits_after: usize,
    has_point: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, template: &'a Template) -> Reader<'a> {
        Reader {
            template,
            text,
            at: 0,
            sign: None,
            digits: String::new(),
            digits_before: 0,
            digits_after: 0,
            has_point: false,
        }
    }

    /// The digits with their sign, and how many are after the point.
    fn result(self) -> (String, usize) {
        let digits = self.digits.strip_suffix('.').unwrap_or(&self.digits);
        let sign = self.sign.unwrap_or(' ');
        (format!("{sign}{digits}"), self.digits_after)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn accept(&mut self, character: char) -> bool {
        let is_next = self.peek() == Some(character);
        if is_next {
            self.skip();
        }
        is_next
    }

    fn read(&mut self) {
        for part in &self.template.parts {
            if self.peek().is_none() {
                return;
            }
            match part {
                Part::Field(field, _) => self.field(*field),
                // Any character of the text, whichever the template has.
                Part::Space(_) | Part::Separator(_) | Part::Text(_) => self.skip(),
            }
        }
    }

    fn field(&mut self, field: Field) {
        match field {
            Field::Digit | Field::Zero | Field::Point => self.place(field),
            Field::Comma | Field::Group => {
                if !self.template.is_filled {
                    self.accept(',');
                }
            }
            Field::Currency => self.skip_other(1),
            Field::Ordinal(_) => self.skip_other(2),
            Field::Minus | Field::Plus | Field::PlusOrMinus => self.sign_field(field),
            Field::Blank
            | Field::Ignored
            | Field::Exponent
            | Field::FillMode
            | Field::Brackets
            | Field::Roman { .. }
            | Field::Sign
            | Field::Shift => {}
        }
    }

    fn sign_field(&mut self, field: Field) {
        let is_sign = match self.peek() {
            Some('-') => field != Field::Plus,
            Some('+') => field != Field::Minus,
            _ => false,
        };
        if is_sign {
            self.sign = self.peek();
            self.skip();
        } else {
            self.skip_other(1);
        }
    }

    /// Skips characters that are not part of a number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            match self.peek() {
                Some(next) if !"0123456789.,+-".contains(next) => self.skip(),
                _ => return,
            }
        }
    }

    /// A place for a digit or the point. One character of the text belongs to it, whether or not it is one of these.
    fn place(&mut self, field: Field) {
        self.accept(' ');
        let has_digits = self.digits_before + self.digits_after > 0;
        if self.sign.is_none() && field != Field::Point && !has_digits {
            self.leading_sign();
        }
        let Some(next) = self.peek() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.has_point && self.digits_after == self.template.after {
                return self.skip();
            }
            self.digits.push(next);
            if self.has_point {
                self.digits_after += 1;
            } else {
                self.digits_before += 1;
            }
            is_read = true;
        } else if next == '.' && self.template.has_point && !self.has_point {
            self.digits.push('.');
            self.has_point = true;
            is_read = true;
        }
        if self.sign.is_none() && self.digits_before + self.digits_after > 0 {
            self.trailing_sign(is_read);
        }
        self.skip();
    }

    fn leading_sign(&mut self) {
        match self.peek() {
            Some(sign @ ('-' | '+')) => self.sign = Some(sign),
            Some('<') if self.template.has_brackets => self.sign = Some('-'),
            _ => return,
        }
        self.skip();
    }

    /// A sign after the last digit, whose place in the template is not known exactly.
    fn trailing_sign(&mut self, is_read: bool) {
        if self.template.sign.is_some() && is_read {
            let after = self.at + self.peek().map_or(0, char::len_utf8);
            if let Some(sign @ ('-' | '+')) = self.text[after..].chars().next() {
                self.sign = Some(sign);
                self.at = after;
            }
        } else if !is_read
            && self.template.sign.is_none()
            && (self.template.has_plus || self.template.has_minus)
            && let Some(sign @ ('-' | '+')) = self.peek()
        {
            self.sign = Some(sign);
        }
    }
}
