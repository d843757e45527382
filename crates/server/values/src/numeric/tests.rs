use super::*;

fn number(text: &str) -> Numeric {
    text.parse().unwrap()
}

#[test]
fn digits_are_counted() {
    for (text, count) in [("0", 0), ("9", 1), ("10", 2), ("999999999999999999999999999999999999999999", 42)] {
        let magnitude = text.parse::<BigUint>().unwrap();
        assert_eq!(digit_count(&magnitude), count, "{text}");
    }
    for exponent in 38..700_u32 {
        let power = BigUint::from(10_u32).pow(exponent);
        assert_eq!(digit_count(&power), u64::from(exponent) + 1);
        assert_eq!(digit_count(&(power - 1_u32)), u64::from(exponent));
    }
}

#[test]
fn numbers_that_are_equal_compare_and_hash_alike() {
    let hash = |value: &Numeric| {
        let mut hasher = rustc_hash::FxHasher::default();
        value.hash_into(&mut hasher);
        hasher.finish()
    };
    for (left, right) in [("1", "1.000"), ("0", "-0.00"), ("100", "1e2"), ("NaN", "nan"), ("1.50", "1.5")] {
        let (left, right) = (number(left), number(right));
        assert_eq!(left.compare(&right), Ordering::Equal);
        assert_eq!(hash(&left), hash(&right));
    }
}
