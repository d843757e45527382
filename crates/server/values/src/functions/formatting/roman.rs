//! Roman numbers.

const MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Months in the order in which inputs try them: longer ones first.
pub(super) const MONTHS_BACKWARD: [&str; 12] =
    ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// A month from 1 to 12.
pub(super) fn month(number: i64) -> &'static str {
    crate::date_time::output::name(&MONTHS, number - 1)
}

/// A number from 1 to 3,999.
pub(super) fn number(number: i64) -> Option<String> {
    const LETTERS: [(i64, &str); 13] = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4_000).contains(&number) {
        return None;
    }
    let (mut rest, mut text) = (number, String::new());
    for (value, letters) in LETTERS {
        while rest >= value {
            text.push_str(letters);
            rest -= value;
        }
    }
    Some(text)
}
