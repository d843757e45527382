//! Bytes as text of two lower-case hexadecimal digits each.

/// Two digits for each byte.
pub fn to_hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    let mut text = String::with_capacity(bytes.len() * 2);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    text
}

/// The bytes of a text of lower-case digits, or `None` if the text is not one.
pub fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hexadecimal(&to_hexadecimal(&bytes)).unwrap(), bytes);
        assert_eq!(to_hexadecimal(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(from_hexadecimal("").unwrap(), []);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["0", "001", "0g", "FF", "+1", "1 ", "\u{e9}"] {
            assert_eq!(from_hexadecimal(text), None, "{text:?}");
        }
    }
}
