//! `to_char` of numbers.

use num_traits::ToPrimitive;

use super::numbers::{Field, SignPlace, Template};
use super::roman;
use super::template::{Ordinal, Part};
use crate::datum::{Datum, Numeric};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::Table;
use crate::functions::arguments::{out_of_range, row};
use crate::numeric;

pub(super) const TABLE: Table = &[
    row!("int4_to_char", [Int4 value, Text template], of_integer(i64::from(*value), template, Width::Four)),
    row!("int8_to_char", [Int8 value, Text template], of_integer(*value, template, Width::Eight)),
    row!("numeric_to_char", [Numeric value, Text template], of_numeric(value, template)),
    row!("float4_to_char", [Float4 value, Text template], of_float(f64::from(*value), template, 6)),
    row!("float8_to_char", [Float8 value, Text template], of_float(*value, template, 15)),
];

/// The size of an integer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Four,
    Eight,
}

/// Digits after the point of a number with an exponent, at most.
const DECIMALS_MAX: usize = 16_383;

/// A power of ten.
fn ten_to(exponent: usize) -> Option<i64> {
    10_i64.checked_pow(u32::try_from(exponent).ok()?)
}

fn of_integer(value: i64, template: &str, width: Width) -> SqlResult<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let mut template = Template::read(template)?;
    if template.is_roman {
        if i32::try_from(value).is_err() {
            return Err(out_of_range("integer"));
        }
        return roman_digits(&mut template, Some(value));
    }
    if template.has_exponent {
        let text = match width {
            Width::Four => scientific(value.to_f64().unwrap_or(0.0), template.after),
            Width::Eight => numeric_scientific(&Numeric::from(value), template.after),
        };
        return Ok(Datum::text(text));
    }
    let mut shifted = value;
    if template.has_shift {
        let product = ten_to(template.shift).and_then(|power| value.checked_mul(power));
        let (name, limit) =
            if width == Width::Four { ("integer", i64::from(i32::MAX)) } else { ("bigint", i64::MAX) };
        shifted = product
            .filter(|product| (-limit - 1..=limit).contains(product))
            .ok_or_else(|| out_of_range(name))?;
        template.before += template.shift;
    }
    let mut digits = shifted.unsigned_abs().to_string();
    let whole = digits.len();
    if template.after > 0 {
        digits.push('.');
        digits.extend(std::iter::repeat_n('0', template.after));
    }
    Writer::new(template, digits, whole, shifted < 0).write()
}

fn of_numeric(value: &Numeric, template: &str) -> SqlResult<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let mut template = Template::read(template)?;
    if template.is_roman {
        let whole: i32 = numeric::to_integer(&value.rounded(0), "integer")?;
        return roman_digits(&mut template, Some(i64::from(whole)));
    }
    let is_finite = matches!(value, Numeric::Finite { .. });
    if template.has_exponent {
        let text =
            if is_finite { numeric_scientific(value, template.after) } else { hashes_exponent(&template) };
        return Ok(Datum::text(text));
    }
    let mut shifted = value.clone();
    if template.has_shift {
        if u64::try_from(template.shift).unwrap_or(u64::MAX) > numeric::INTEGER_DIGITS_MAX {
            return Err(numeric::overflow());
        }
        let power = num_bigint::BigInt::from(10).pow(u32::try_from(template.shift).unwrap_or(0));
        shifted = numeric::mul(value, &Numeric::Finite { digits: power, scale: 0 })?;
        template.before += template.shift;
    }
    let rounded = shifted.rounded(i32::try_from(template.after).unwrap_or(i32::MAX));
    let text = rounded.to_string();
    write(template, &text)
}

fn of_float(value: f64, template: &str, significant: usize) -> SqlResult<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let mut template = Template::read(template)?;
    if template.is_roman {
        return roman_digits(&mut template, value.round_ties_even().to_i64());
    }
    if template.has_exponent {
        let text =
            if value.is_finite() { scientific(value, template.after) } else { hashes_exponent(&template) };
        return Ok(Datum::text(text));
    }
    let mut shifted = value;
    if template.has_shift {
        let power = 10_f64.powi(i32::try_from(template.shift).unwrap_or(i32::MAX));
        // `real` has the precision of its own type here, too.
        shifted = if significant == 6 { narrowed(value * power) } else { value * power };
        template.before += template.shift;
    }
    // Digits that a float does not have are not asked for.
    let whole = c_fixed(shifted.abs(), 0).len();
    template.after = template.after.min(significant.saturating_sub(whole));
    let text = c_fixed(shifted, template.after);
    write(template, &text)
}

#[expect(clippy::cast_possible_truncation, reason = "the value is rounded to a narrower float on purpose")]
fn narrowed(value: f64) -> f64 {
    f64::from(value as f32)
}

/// A float as C's `%.*f` shows it.
fn c_fixed(value: f64, decimals: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    format!("{value:.decimals$}")
}

/// A float as C's `%+.*e` shows it, with a blank for a plus.
fn scientific(value: f64, decimals: usize) -> String {
    let decimals = decimals.min(DECIMALS_MAX);
    let text = format!("{value:.decimals$e}");
    let sign = if text.starts_with('-') { "" } else { " " };
    format!("{sign}{}", with_exponent_sign(&text))
}

/// `1e5` as `1e+05`.
fn with_exponent_sign(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// A number with a power of ten and so many digits after the point, rounded half away from zero.
fn numeric_scientific(value: &Numeric, decimals: usize) -> String {
    let Numeric::Finite { digits, scale } = value else { return String::new() };
    let decimals = decimals.min(DECIMALS_MAX);
    let sign = if value.sign() < 0 { "-" } else { " " };
    let magnitude = digits.magnitude().to_string();
    let mut exponent = i64::try_from(magnitude.len()).unwrap_or(0) - 1 - i64::from(*scale);
    if value.sign() == 0 {
        exponent = 0;
    }
    // The exponent is that of the number before it is rounded: a number may have two digits before the point.
    let places = i32::try_from(i64::try_from(decimals).unwrap_or(0) - exponent).unwrap_or(0);
    let digits = round_wide(&value.absolute(), places).magnitude().to_string();
    let text = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, rest) = text.split_at(text.len() - decimals);
    let point = if decimals > 0 { "." } else { "" };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{whole}{point}{rest}e{exponent_sign}{:02}", exponent.abs())
}

/// `value * 10^places`, rounded half away from zero.
fn round_wide(value: &Numeric, places: i32) -> num_bigint::BigInt {
    use num_integer::Integer;
    let Numeric::Finite { digits, scale } = value else { return num_bigint::BigInt::default() };
    let shift = i64::from(places) - i64::from(*scale);
    let power = num_bigint::BigInt::from(10).pow(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
    if shift >= 0 {
        return digits * power;
    }
    let (quotient, remainder) = digits.div_rem(&power);
    if remainder.magnitude() * 2_u32 >= *power.magnitude() { quotient + 1 } else { quotient }
}

/// What stands for a number without an exponent.
fn hashes_exponent(template: &Template) -> String {
    let mut text = vec!['#'; template.before + template.after + 6];
    text[0] = ' ';
    if let Some(point) = text.get_mut(template.before + 1) {
        *point = '.';
    }
    text.into_iter().collect()
}

/// The template with a Roman number; other fields of it show nothing.
fn roman_digits(template: &mut Template, value: Option<i64>) -> SqlResult<Datum> {
    let digits = value.and_then(roman::number).unwrap_or_else(|| "#".repeat(15));
    let roman = Template {
        parts: std::mem::take(&mut template.parts),
        is_filled: template.is_filled,
        is_roman: true,
        ..Template::default()
    };
    let whole = digits.len();
    let mut writer = Writer::new(roman, digits, whole, false);
    writer.blanks = 0;
    writer.write()
}

/// The template with a number in decimal digits.
fn write(template: Template, text: &str) -> SqlResult<Datum> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let whole = digits.find('.').unwrap_or(digits.len());
    Writer::new(template, digits.to_owned(), whole, is_negative).write()
}

/// Fills a template from left to right.
struct Writer {
    template: Template,
    /// The digits and their point.
    digits: Vec<u8>,
    /// The next of them.
    at: usize,
    is_negative: bool,
    /// Places before the first digit.
    blanks: usize,
    /// How many places were written.
    places: usize,
    /// The last place of all; -1 in a template without digits.
    last_place: i64,
    /// A place has no digit: the text ends before it, whatever the template has after it.
    is_ended: bool,
    is_sign_written: bool,
    /// Whether the last place had a digit.
    is_in_number: bool,
    /// In fill mode, the last digit after the point that is not 0, or the point.
    last_relevant: Option<usize>,
    sign_place: Option<SignPlace>,
    out: String,
}

impl Writer {
    fn new(template: Template, digits: String, whole: usize, is_negative: bool) -> Writer {
        let mut digits = digits.into_bytes();
        let blanks = template.before.saturating_sub(whole);
        if whole > template.before && !template.is_roman {
            // The number does not fit.
            digits = vec![b'#'; template.before + template.after + 1];
            digits[template.before] = b'.';
        }
        let mut writer = Writer {
            digits,
            at: 0,
            is_negative,
            blanks,
            places: 0,
            last_place: 0,
            is_ended: false,
            is_sign_written: false,
            is_in_number: false,
            last_relevant: None,
            sign_place: template.sign,
            out: String::new(),
            template,
        };
        writer.prepare();
        writer
    }

    fn prepare(&mut self) {
        let template = &mut self.template;
        // Places are counted from 0 here.
        template.zero_start = template.zero_start.saturating_sub(1);
        if template.has_plus || template.has_minus {
            self.is_sign_written = !template.has_plus || template.has_minus;
        } else {
            if !self.is_negative && template.has_brackets && template.is_filled {
                template.has_brackets = false;
            }
            self.is_sign_written = !self.is_negative && template.is_filled && self.sign_place.is_none();
            if self.sign_place == Some(SignPlace::Before) && template.before == template.digits_before_sign {
                self.sign_place = Some(SignPlace::After);
            }
        }
        self.last_place = count(template.after + template.before) - 1;
        if template.is_filled && template.has_point {
            self.last_relevant = last_relevant(&self.digits);
            if let Some(last) = &mut self.last_relevant {
                // Digits of a `0` stay.
                if template.zero_end > self.blanks {
                    *last = (*last)
                        .max((template.zero_end - self.blanks).min(self.digits.len().saturating_sub(1)));
                }
            }
        }
        if !self.is_sign_written && self.blanks == 0 {
            self.last_place += 1;
        }
    }

    fn digit(&self) -> u8 {
        self.digits.get(self.at).copied().unwrap_or(0)
    }

    fn last_relevant_is_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.digits.get(last) == Some(&b'.'))
    }

    fn write(mut self) -> SqlResult<Datum> {
        for part in std::mem::take(&mut self.template.parts) {
            match part {
                Part::Field(field, _) => self.field(field)?,
                Part::Space(text) | Part::Separator(text) | Part::Text(text) => self.out.push(text),
            }
            if self.is_ended {
                break;
            }
        }
        Ok(Datum::text(self.out))
    }

    /// # Errors
    /// `22P02` if what is to have an ordinal suffix does not end in a digit.
    fn field(&mut self, field: Field) -> SqlResult<()> {
        let is_filled = self.template.is_filled;
        match field {
            Field::Digit | Field::Zero | Field::Point => self.place(field),
            Field::Comma | Field::Group if self.is_in_number => self.out.push(','),
            Field::Comma | Field::Group if is_filled => {}
            // The locale C has no symbol of a currency: a blank.
            Field::Comma | Field::Group | Field::Currency => self.out.push(' '),
            Field::Roman { is_lower } => self.roman(is_lower),
            Field::Ordinal(ordinal) => return self.ordinal(ordinal),
            Field::Minus if self.is_negative => self.out.push('-'),
            Field::Plus if !self.is_negative => self.out.push('+'),
            Field::Minus | Field::Plus if is_filled => {}
            Field::Minus | Field::Plus => self.out.push(' '),
            Field::PlusOrMinus => self.out.push(if self.is_negative { '-' } else { '+' }),
            Field::Blank
            | Field::Ignored
            | Field::Exponent
            | Field::FillMode
            | Field::Brackets
            | Field::Sign
            | Field::Shift => {}
        }
        Ok(())
    }

    fn roman(&mut self, is_lower: bool) {
        let mut text = String::from_utf8_lossy(&self.digits).into_owned();
        if is_lower {
            text.make_ascii_lowercase();
        }
        if !self.template.is_filled {
            text = format!("{text:>15}");
        }
        self.out.push_str(&text);
    }

    fn ordinal(&mut self, ordinal: Ordinal) -> SqlResult<()> {
        let is_number = self.digits.first() != Some(&b'#');
        if self.template.is_roman || !is_number || self.is_negative || self.template.has_point {
            return Ok(());
        }
        let digits = String::from_utf8_lossy(&self.digits).into_owned();
        if !digits.ends_with(|last: char| last.is_ascii_digit()) {
            let message = format!("\"{digits}\" is not a number");
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        }
        self.out.push_str(ordinal.suffix(&digits));
        Ok(())
    }

    /// Whether the zero before the point is not shown: `0.1` by `9.9` is `.1`.
    fn is_hidden_zero(&self) -> bool {
        !self.template.has_zero && self.at == 0 && self.digit() == b'0' && self.template.after != 0
    }

    /// A place for a digit or the point.
    fn place(&mut self, field: Field) {
        if self.template.is_roman {
            return;
        }
        self.is_in_number = false;
        let (is_filled, has_zero) = (self.template.is_filled, self.template.has_zero);
        self.leading_sign();
        let is_before = self.places < self.blanks;
        if is_before && (self.template.zero_start > self.places || !has_zero) {
            if !is_filled {
                self.out.push(' ');
            }
        } else if is_before && has_zero {
            self.out.push('0');
            self.is_in_number = true;
        } else {
            self.digit_or_point(field);
        }
        if !self.is_ended {
            self.trailing_sign();
        }
        self.places += 1;
    }

    fn digit_or_point(&mut self, field: Field) {
        let is_filled = self.template.is_filled;
        if self.digit() == b'.' {
            if !self.last_relevant_is_point() || is_filled {
                self.out.push('.');
            }
        } else if self.last_relevant.is_some_and(|last| self.at > last) && field != Field::Zero {
            // A zero at the end, in fill mode.
        } else if self.is_hidden_zero() {
            if !is_filled {
                self.out.push(' ');
            } else if self.last_relevant_is_point() {
                self.out.push('0');
            }
        } else if self.at < self.digits.len() {
            self.out.push(char::from(self.digit()));
            self.is_in_number = true;
        } else {
            self.is_ended = true;
        }
        if self.at < self.digits.len() {
            self.at += 1;
        }
    }

    fn leading_sign(&mut self) {
        let is_at_number =
            self.places >= self.blanks || self.template.has_zero && self.template.zero_start == self.places;
        let is_shown = !self.is_hidden_zero() || self.last_relevant_is_point();
        if self.is_sign_written || !is_at_number || !is_shown {
            return;
        }
        if let Some(place) = self.sign_place {
            if place == SignPlace::Before {
                self.out.push(if self.is_negative { '-' } else { '+' });
                self.is_sign_written = true;
            }
            return;
        }
        self.is_sign_written = true;
        match (self.template.has_brackets, self.is_negative) {
            (true, true) => self.out.push('<'),
            (false, true) => self.out.push('-'),
            (true, false) => self.out.push(' '),
            (false, false) if !self.template.is_filled => self.out.push(' '),
            (false, false) => {}
        }
    }

    fn trailing_sign(&mut self) {
        let mut end = self.last_place + i64::from(self.blanks > 0) + i64::from(self.template.has_point);
        if self.last_relevant == Some(self.at) {
            end = count(self.places);
        }
        if count(self.places) + 1 != end {
            return;
        }
        if self.is_sign_written && self.template.has_brackets {
            self.out.push(if self.is_negative { '>' } else { ' ' });
        } else if self.sign_place == Some(SignPlace::After) {
            self.out.push(if self.is_negative { '-' } else { '+' });
        }
    }
}

fn count(places: usize) -> i64 {
    i64::try_from(places).unwrap_or(i64::MAX)
}

/// The place of the last digit after the point that is not 0, or of the point.
fn last_relevant(digits: &[u8]) -> Option<usize> {
    let point = digits.iter().position(|digit| *digit == b'.')?;
    let last = digits[point + 1..].iter().rposition(|digit| *digit != b'0');
    Some(last.map_or(point, |last| point + 1 + last))
}
