//! Texts that differ in constants only, as one text: with `$1` in the place of each constant that could as well be a parameter.
//!
//! ```text
//!   update t set a = a + 5 where id = 17      update t set a = a + $1 where id = $2      5 (integer), 17 (integer)
//! ```
//! Only such constants are taken out whose type does not depend on how they are written: what a column is compared with or set to, what is
//! added to something, and values of one new row. A text with any other constant is left alone, but for a count after `LIMIT` or `OFFSET`: these stay
//! in the text, since programs send few different ones.

use seawall_values::{Oid, oid};

use super::lexer::Lexer;
use super::token::{Token, TokenKind};

/// Longer texts are seldom alike.
const TEXT_BYTES_MAX: usize = 4 << 10;
const CONSTANTS_MAX: usize = 64;

/// A text without its constants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WithoutConstants {
    pub(crate) text: String,
    /// The type of each parameter; 0: it follows from where the parameter stands, as that of a string constant does.
    pub(crate) types: Vec<Oid>,
    /// The constants, in the form in which texts have values of these types.
    pub(crate) constants: Vec<String>,
}

/// Where a constant stands in the tokens: with its sign, if it has one of its own.
struct Place {
    first: usize,
    last: usize,
}

impl WithoutConstants {
    /// `None`: it is no single query or change, has no constant, or one that is more than a value.
    pub(crate) fn of(source: &str) -> Option<WithoutConstants> {
        if source.len() > TEXT_BYTES_MAX {
            return None;
        }
        let tokens = tokens_of(source)?;
        let TokenKind::Word(command) = &tokens.first()?.kind else { return None };
        if !matches!(command.as_str(), "select" | "insert" | "update" | "delete") {
            return None;
        }
        let row = match command.as_str() {
            "insert" => Some(new_row(&tokens)?),
            _ => None,
        };
        let mut without = WithoutConstants {
            text: String::with_capacity(source.len()),
            types: Vec::new(),
            constants: Vec::new(),
        };
        let mut copied = 0;
        for (index, token) in tokens.iter().enumerate() {
            match &token.kind {
                TokenKind::Number(_) | TokenKind::String(_) => {}
                TokenKind::Bits(_) | TokenKind::HexadecimalBits(_) | TokenKind::Parameter(_) => return None,
                _ => continue,
            }
            if is_count(&tokens, index) {
                continue;
            }
            let place = place_of(source, &tokens, index, row.as_ref())?;
            let start = tokens[place.first].start;
            let of = without.take(&tokens, &place)?;
            without.text.push_str(source.get(copied..start)?);
            without.types.push(of);
            without.text.push_str(&format!("${}", without.types.len()));
            copied = tokens[place.last].end;
        }
        without.text.push_str(source.get(copied..)?);
        let count = without.types.len();
        (1..=CONSTANTS_MAX).contains(&count).then_some(without)
    }

    /// Keeps a constant; its type.
    fn take(&mut self, tokens: &[Token], place: &Place) -> Option<Oid> {
        let is_negative = place.first != place.last;
        let (constant, of) = match &tokens[place.last].kind {
            TokenKind::String(value) => (value.clone(), 0),
            TokenKind::Number(digits) => {
                let of = number_type(digits)?;
                (if is_negative { format!("-{digits}") } else { digits.clone() }, of)
            }
            _ => return None,
        };
        self.constants.push(constant);
        Some(of)
    }
}

/// The tokens of a text that is one statement, without a `;` at its end.
fn tokens_of(source: &str) -> Option<Vec<Token>> {
    let mut lexer = Lexer::new(source, 0, source.len());
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next().ok()? {
        if token.kind.is_character(';') {
            return lexer.next().ok()?.is_none().then_some(tokens);
        }
        tokens.push(token);
    }
    Some(tokens)
}

/// The type of a number without a sign. `None`: with one, it would have another.
fn number_type(digits: &str) -> Option<Oid> {
    // Of an integer and of a bigint.
    const LARGEST: [u64; 2] = [2_147_483_647, 9_223_372_036_854_775_807];
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(oid::NUMERIC);
    }
    let Ok(number) = digits.parse::<u64>() else { return Some(oid::NUMERIC) };
    match () {
        () if LARGEST.iter().any(|largest| number == largest + 1) => None,
        () if number <= LARGEST[0] => Some(oid::INT4),
        () if number <= LARGEST[1] => Some(oid::INT8),
        () => Some(oid::NUMERIC),
    }
}

/// The tokens between the parentheses of the only row after `VALUES`.
fn new_row(tokens: &[Token]) -> Option<std::ops::Range<usize>> {
    let values = tokens.iter().position(|token| token.kind.is_word("values"))?;
    tokens.get(values + 1)?.kind.is_character('(').then_some(())?;
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(values + 1) {
        match &token.kind {
            TokenKind::Character('(' | '[') => depth += 1,
            TokenKind::Character(')' | ']') => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            let has_more = tokens.get(index + 1).is_some_and(|next| next.kind.is_character(','));
            return (!has_more).then_some(values + 2..index);
        }
    }
    None
}

/// Whether a number is a count of rows.
fn is_count(tokens: &[Token], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| &tokens[before].kind);
    matches!(tokens[index].kind, TokenKind::Number(_))
        && before.is_some_and(|before| before.is_word("limit") || before.is_word("offset"))
}

/// The place of a constant that could as well be a parameter.
fn place_of(
    source: &str,
    tokens: &[Token],
    index: usize,
    row: Option<&std::ops::Range<usize>>,
) -> Option<Place> {
    let kind_at = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map(|token| &token.kind);
    let is_string = matches!(tokens[index].kind, TokenKind::String(_));
    if is_string && !source[tokens[index].start..].starts_with('\'') {
        return None;
    }
    if !may_follow(kind_at(Some(index + 1))) {
        return None;
    }
    let before = index.checked_sub(1);
    let is_minus = kind_at(before).is_some_and(|kind| kind.is_operator("-"));
    // A sign of its own follows an operator or the beginning of a value.
    let before_sign = if is_minus { before.and_then(|at| at.checked_sub(1)) } else { None };
    let is_own_sign = !is_string
        && before_sign.is_some_and(|at| {
            matches!(tokens[at].kind, TokenKind::Operator(_)) || begins_value(tokens, at, row)
        });
    let first = if is_own_sign { before? } else { index };
    let lead = first.checked_sub(1)?;
    let is_value = match &tokens[lead].kind {
        TokenKind::Operator(operator) => match operator.as_str() {
            "=" => ends_operand(kind_at(lead.checked_sub(1))),
            "+" | "-" => !is_string && ends_operand(kind_at(lead.checked_sub(1))),
            _ => false,
        },
        _ => begins_value(tokens, lead, row),
    };
    is_value.then_some(Place { first, last: index })
}

/// Whether a value of a new row begins after a token.
fn begins_value(tokens: &[Token], at: usize, row: Option<&std::ops::Range<usize>>) -> bool {
    let Some(row) = row else { return false };
    if at + 1 < row.start || at >= row.end {
        return false;
    }
    let depth = |token: &Token| match token.kind {
        TokenKind::Character('(' | '[') => 1,
        TokenKind::Character(')' | ']') => -1,
        _ => 0,
    };
    let is_outside = tokens[row.start..=at.max(row.start)].iter().map(depth).sum::<i32>() == 0;
    at + 1 == row.start || (is_outside && tokens[at].kind.is_character(','))
}

/// Whether an operand ends with a token: a name, or an expression in parentheses. What stands between two words is no keyword then, but for
/// those that begin an expression anew.
fn ends_operand(kind: Option<&TokenKind>) -> bool {
    const KEYWORDS: [&str; 12] =
        ["and", "or", "not", "where", "select", "set", "values", "on", "when", "then", "else", "returning"];
    match kind {
        Some(TokenKind::Word(word)) => !KEYWORDS.contains(&word.as_str()),
        Some(TokenKind::Quoted(_) | TokenKind::Character(')')) => true,
        _ => false,
    }
}

/// Whether a constant before a token is whole: nothing after it binds to it, nor changes its type.
fn may_follow(kind: Option<&TokenKind>) -> bool {
    const KEYWORDS: [&str; 10] =
        ["and", "or", "where", "from", "returning", "order", "limit", "for", "on", "offset"];
    match kind {
        None | Some(TokenKind::Character(')' | ',')) => true,
        Some(TokenKind::Word(word)) => KEYWORDS.contains(&word.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(String, Vec<Oid>, Vec<String>)> {
        WithoutConstants::of(text).map(|without| (without.text, without.types, without.constants))
    }

    fn taken(text: &str) -> (String, String) {
        let (text, _, constants) = of(text).unwrap_or_else(|| panic!("left alone: {text}"));
        (text, constants.join(" "))
    }

    #[test]
    fn values_are_parameters_and_keep_their_types() {
        let (text, types, constants) =
            of("UPDATE t SET a = a + -17, b='it''s', c = 3000000000, d = 1.5 WHERE id = 9 ;").unwrap();
        assert_eq!(text, "UPDATE t SET a = a + $1, b=$2, c = $3, d = $4 WHERE id = $5 ;");
        assert_eq!(types, [oid::INT4, 0, oid::INT8, oid::NUMERIC, oid::INT4]);
        assert_eq!(constants, ["-17", "it's", "3000000000", "1.5", "9"]);
    }

    #[test]
    fn the_values_of_one_new_row_are_parameters() {
        let (text, constants) =
            taken("insert into t (a, b) values (1, 'x', -2, now(), f(g), x + 4) returning a");
        assert_eq!(text, "insert into t (a, b) values ($1, $2, $3, now(), f(g), x + $4) returning a");
        assert_eq!(constants, "1 x -2 4");
    }

    #[test]
    fn a_sign_between_operands_is_no_part_of_the_number() {
        assert_eq!(taken("select a - 5 from t where b = 1").1, "5 1");
        assert_eq!(taken("select a from t where b = -5").1, "-5");
        assert_eq!(taken("select a from t where b = (c) -5").1, "5");
    }

    #[test]
    fn counts_of_rows_stay() {
        let (text, constants) = taken("select a from t where b = 'x' limit 10 offset 20");
        assert_eq!(
            (text.as_str(), constants.as_str()),
            ("select a from t where b = $1 limit 10 offset 20", "x")
        );
    }

    #[test]
    fn what_is_more_than_a_value_is_left_alone() {
        for text in [
            "select 1",
            "select a from t",
            "select a from t where b = 5::bigint",
            "select a from t where b = '5'::bigint",
            "select a from t where b = 'x' collate \"C\"",
            "select a from t where b = 1 + 2 * c",
            "select a from t where b in (1, 2)",
            "select a from t where b = 5 order by 1",
            "select a from t where b between 1 and 2",
            "select a from t where b = date '2020-01-01'",
            "select a from t where b = c + '1 day'",
            "select a from t where b = E'x'",
            "select a from t where b = 2147483648",
            "select a from t where b = -2147483648",
            "select a from t where b = 9223372036854775808",
            "select a from t where b = $1 and c = 1",
            "select a from t where b = 1; select 2",
            "insert into t values (1), (2)",
            "insert into t values (f(1))",
            "insert into t values (array[1, 2])",
            "insert into t select 1",
            "insert into t values ('x' 'y')",
            "select a from t where b = 1 = c",
            "select a from t where b -5 > c",
            "select a from t where b = - - 5",
            "select a from t where b = 5 is null",
            "set a = 1",
            "with x as (select 1) select a from x where b = 1",
            "explain select a from t where b = 1",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
