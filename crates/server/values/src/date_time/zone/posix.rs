//! POSIX specifications of zones without summer time: an abbreviation and the hours west of Greenwich, `UTC+3`, `<-03>3`, `IST-5:30`.

/// Hours of an offset, at most.
const HOURS_MAX: i32 = 24 * 7 - 1;

/// The offset of a specification in seconds east of Greenwich.
pub(super) fn offset(specification: &str) -> Option<i32> {
    let rest = after_abbreviation(specification)?;
    let (sign, rest) = match rest.strip_prefix('-') {
        Some(rest) => (1, rest),
        None => (-1, rest.strip_prefix('+').unwrap_or(rest)),
    };
    let mut parts = rest.split(':');
    let mut number = |limit: i32| -> Option<i32> {
        let Some(part) = parts.next() else { return Some(0) };
        let is_number = !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|value| is_number && *value <= limit)
    };
    let (hours, minutes, seconds) = (number(HOURS_MAX)?, number(59)?, number(60)?);
    if parts.next().is_some() { None } else { Some(sign * (hours * 3_600 + minutes * 60 + seconds)) }
}

/// The rest after an abbreviation, which may be in angle brackets, or missing.
fn after_abbreviation(specification: &str) -> Option<&str> {
    if let Some(quoted) = specification.strip_prefix('<') {
        return quoted.split_once('>').map(|(_, rest)| rest);
    }
    let is_end = |character: char| character.is_ascii_digit() || ",+-".contains(character);
    specification.find(is_end).map(|length| &specification[length..])
}
