//! `DateStyle`: how dates are shown, and in which order their parts are read.

use seawall_values::settings::{DateOrder, DateStyle};

/// Why a text is not a style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotStyle {
    /// Two words say different things.
    Conflicting,
    /// The word means nothing.
    Unrecognized(String),
}

/// The style and order that words name. What they leave open stays as in `current`; `default` is meant by the word `DEFAULT`.
pub(super) fn parse(
    words: &[String],
    current: (DateStyle, DateOrder),
    default: (DateStyle, DateOrder),
) -> Result<(DateStyle, DateOrder), NotStyle> {
    let (mut style, mut order) = (None, None);
    // German dates have the day first, unless an order is named.
    let mut implied_order = None;
    let mut has_default = false;
    for word in words {
        match word_of(word).ok_or_else(|| NotStyle::Unrecognized(word.clone()))? {
            Word::Style(named) => {
                if style.replace(named).is_some_and(|before| before != named) {
                    return Err(NotStyle::Conflicting);
                }
                if named == DateStyle::German {
                    implied_order = Some(DateOrder::DayMonthYear);
                }
            }
            Word::Order(named) => {
                if order.replace(named).is_some_and(|before| before != named) {
                    return Err(NotStyle::Conflicting);
                }
            }
            Word::Default => has_default = true,
        }
    }
    let rest = if has_default { default } else { current };
    Ok((style.unwrap_or(rest.0), order.or(implied_order).unwrap_or(rest.1)))
}

enum Word {
    Style(DateStyle),
    Order(DateOrder),
    Default,
}

fn word_of(word: &str) -> Option<Word> {
    let word = word.to_ascii_lowercase();
    Some(match &word[..] {
        "iso" => Word::Style(DateStyle::Iso),
        "sql" => Word::Style(DateStyle::Sql),
        "german" => Word::Style(DateStyle::German),
        "ymd" => Word::Order(DateOrder::YearMonthDay),
        "dmy" => Word::Order(DateOrder::DayMonthYear),
        "mdy" | "us" => Word::Order(DateOrder::MonthDayYear),
        "default" => Word::Default,
        _ if word.starts_with("postgres") => Word::Style(DateStyle::Postgres),
        _ if word.starts_with("euro") => Word::Order(DateOrder::DayMonthYear),
        _ if word.starts_with("noneuro") => Word::Order(DateOrder::MonthDayYear),
        _ => return None,
    })
}

/// A style and order as `SHOW` prints them.
pub(super) fn show((style, order): (DateStyle, DateOrder)) -> String {
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Postgres => "Postgres",
        DateStyle::Sql => "SQL",
        DateStyle::German => "German",
    };
    let order = match order {
        DateOrder::MonthDayYear => "MDY",
        DateOrder::DayMonthYear => "DMY",
        DateOrder::YearMonthDay => "YMD",
    };
    format!("{style}, {order}")
}
