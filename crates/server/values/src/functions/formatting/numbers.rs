//! Templates for numbers: their fields, and the digits and signs that these come to.

use super::template::{Grammar, Part, parse};
use crate::error::{SqlError, SqlResult, SqlState};

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// `9`.
    Digit,
    /// `0`.
    Zero,
    /// `.` or `D`.
    Point,
    /// `,`.
    Comma,
    /// `G`.
    Group,
    /// `B`.
    Blank,
    /// `C`, `SP`: nothing.
    Ignored,
    /// `EEEE`.
    Exponent,
    /// `FM`.
    FillMode,
    /// `L`.
    Currency,
    /// `MI`.
    Minus,
    /// `PL`.
    Plus,
    /// `PR`.
    Brackets,
    /// `RN`, or `rn`.
    Roman { is_lower: bool },
    /// `SG`.
    PlusOrMinus,
    /// `S`.
    Sign,
    /// `TH`, `th`.
    Ordinal(super::template::Ordinal),
    /// `V`.
    Shift,
}

use super::template::Ordinal::{Lower, Upper};

const GRAMMAR: Grammar<Field> = Grammar {
    is_of_moments: false,
    fields: &[
        (",", Field::Comma),
        (".", Field::Point),
        ("0", Field::Zero),
        ("9", Field::Digit),
        ("B", Field::Blank),
        ("C", Field::Ignored),
        ("D", Field::Point),
        ("EEEE", Field::Exponent),
        ("FM", Field::FillMode),
        ("G", Field::Group),
        ("L", Field::Currency),
        ("MI", Field::Minus),
        ("PL", Field::Plus),
        ("PR", Field::Brackets),
        ("RN", Field::Roman { is_lower: false }),
        ("SG", Field::PlusOrMinus),
        ("SP", Field::Ignored),
        ("S", Field::Sign),
        ("TH", Field::Ordinal(Upper)),
        ("V", Field::Shift),
        ("b", Field::Blank),
        ("c", Field::Ignored),
        ("d", Field::Point),
        ("eeee", Field::Exponent),
        ("fm", Field::FillMode),
        ("g", Field::Group),
        ("l", Field::Currency),
        ("mi", Field::Minus),
        ("pl", Field::Plus),
        ("pr", Field::Brackets),
        ("rn", Field::Roman { is_lower: true }),
        ("sg", Field::PlusOrMinus),
        ("sp", Field::Ignored),
        ("s", Field::Sign),
        ("th", Field::Ordinal(Lower)),
        ("v", Field::Shift),
    ],
};

/// Where `S` is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignPlace {
    Before,
    After,
}

/// A template, and what its fields come to.
#[derive(Debug, Default)]
pub(super) struct Template {
    pub(super) parts: Vec<Part<Field>>,
    /// Digits before the point.
    pub(super) before: usize,
    /// Digits after it.
    pub(super) after: usize,
    /// Digits after `V`.
    pub(super) shift: usize,
    /// The place of the first `0`, from 1; 0: none.
    pub(super) zero_start: usize,
    /// The place of the last `0`.
    pub(super) zero_end: usize,
    pub(super) has_zero: bool,
    pub(super) has_point: bool,
    pub(super) is_filled: bool,
    pub(super) is_blank: bool,
    pub(super) has_shift: bool,
    pub(super) has_brackets: bool,
    pub(super) has_minus: bool,
    pub(super) has_plus: bool,
    pub(super) is_roman: bool,
    pub(super) has_exponent: bool,
    /// `S`.
    pub(super) sign: Option<SignPlace>,
    /// Digits before `S`.
    pub(super) digits_before_sign: usize,
}

#[cold]
fn error(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// `42601` if its fields do not go together.
    pub(super) fn read(text: &str) -> SqlResult<Template> {
        let parts = parse(text, &GRAMMAR);
        let mut template = Template::default();
        for part in &parts {
            if let Part::Field(field, _) = part {
                template.add(*field)?;
            }
        }
        template.parts = parts;
        Ok(template)
    }

    fn add(&mut self, field: Field) -> SqlResult<()> {
        if self.has_exponent && field != Field::Exponent {
            return Err(error("\"EEEE\" must be the last pattern used"));
        }
        match field {
            Field::Digit | Field::Zero => self.add_digit(field),
            Field::Point => self.add_point(),
            Field::Blank => {
                self.is_blank |= self.before == 0 && self.after == 0 && !self.has_zero;
                Ok(())
            }
            Field::FillMode => {
                self.is_filled = true;
                Ok(())
            }
            Field::Roman { .. } => {
                self.is_roman = true;
                Ok(())
            }
            Field::Sign | Field::Minus | Field::Plus | Field::PlusOrMinus | Field::Brackets => {
                self.add_sign(field)
            }
            Field::Shift if self.has_point => Err(error("cannot use \"V\" and decimal point together")),
            Field::Shift => {
                self.has_shift = true;
                Ok(())
            }
            Field::Exponent => self.add_exponent(),
            Field::Comma | Field::Group | Field::Currency | Field::Ignored | Field::Ordinal(_) => Ok(()),
        }
    }

    fn add_digit(&mut self, field: Field) -> SqlResult<()> {
        let is_zero = field == Field::Zero;
        if self.has_brackets {
            let name = if is_zero { '0' } else { '9' };
            return Err(error(format!("\"{name}\" must be ahead of \"PR\"")));
        }
        if self.has_shift && !is_zero {
            self.shift += 1;
            return Ok(());
        }
        if is_zero && !self.has_zero && !self.has_point {
            self.has_zero = true;
            self.zero_start = self.before + 1;
        }
        if self.has_point {
            self.after += 1;
        } else {
            self.before += 1;
        }
        if is_zero {
            self.zero_end = self.before + self.after;
        }
        Ok(())
    }

    fn add_point(&mut self) -> SqlResult<()> {
        if self.has_point {
            return Err(error("multiple decimal points"));
        }
        if self.has_shift {
            return Err(error("cannot use \"V\" and decimal point together"));
        }
        self.has_point = true;
        Ok(())
    }

    fn add_sign(&mut self, field: Field) -> SqlResult<()> {
        let has_sign = self.sign.is_some();
        match field {
            Field::Sign if has_sign => return Err(error("cannot use \"S\" twice")),
            Field::Sign if self.has_plus || self.has_minus || self.has_brackets => {
                return Err(error("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
            }
            Field::Sign if self.has_point => self.sign = Some(SignPlace::After),
            Field::Sign => {
                self.sign = Some(SignPlace::Before);
                self.digits_before_sign = self.before;
            }
            Field::Minus if has_sign => return Err(error("cannot use \"S\" and \"MI\" together")),
            Field::Minus => self.has_minus = true,
            Field::Plus if has_sign => return Err(error("cannot use \"S\" and \"PL\" together")),
            Field::Plus => self.has_plus = true,
            Field::PlusOrMinus if has_sign => return Err(error("cannot use \"S\" and \"SG\" together")),
            Field::PlusOrMinus => (self.has_plus, self.has_minus) = (true, true),
            _ if has_sign || self.has_plus || self.has_minus => {
                return Err(error("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
            }
            _ => self.has_brackets = true,
        }
        Ok(())
    }

    fn add_exponent(&mut self) -> SqlResult<()> {
        if self.has_exponent {
            return Err(error("cannot use \"EEEE\" twice"));
        }
        let has_others = self.is_blank
            || self.is_filled
            || self.sign.is_some()
            || self.has_brackets
            || self.has_minus
            || self.has_plus
            || self.is_roman
            || self.has_shift;
        if has_others {
            return Err(error("\"EEEE\" is incompatible with other formats")
                .with_detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
        }
        self.has_exponent = true;
        Ok(())
    }
}
