//! Changes to a valid conversation: of bytes, of lengths, and of whole messages.

use super::conversation::{Conversation, bytes};

/// Changes a conversation in up to so many places; `other` gives messages that do not belong there.
pub(crate) fn mutate(conversation: &mut Conversation, other: &Conversation, random: &mut fastrand::Rng) {
    let parts = &mut conversation.parts;
    // Some stay as they are: what follows them must be as right as ever.
    for _ in 0..random.usize(0..4) {
        if parts.is_empty() {
            return;
        }
        // Seldom the first: behind a start-up packet that is wrong nothing is looked at.
        let at = if random.u8(0..6) == 0 { 0 } else { random.usize(0..parts.len()) };
        match random.u8(0..10) {
            0 => drop(parts.remove(at)),
            1 => parts.insert(at, parts[at].clone()),
            2 => {
                let with = random.usize(0..parts.len());
                parts.swap(at, with);
            }
            3 if !other.parts.is_empty() => {
                parts.insert(at, other.parts[random.usize(0..other.parts.len())].clone());
            }
            4 => change_length(&mut parts[at], random),
            5 => change_kind(&mut parts[at], random),
            6 => {
                let length = random.usize(0..=parts[at].len());
                parts[at].truncate(length);
            }
            7 => parts.insert(at, bytes(random, 40)),
            8 => change_body(&mut parts[at], random),
            _ => change_bytes(&mut parts[at], random),
        }
    }
}

fn change_bytes(part: &mut [u8], random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        if let Some(byte) = part.get_mut(random.usize(0..part.len().max(1))) {
            *byte = *[*byte ^ 1 << random.u8(0..8), 0, 0xff, random.u8(..)].get(random.usize(0..4)).unwrap();
        }
    }
}

/// Changes, inserts or removes bytes, and makes the length right again.
fn change_body(part: &mut Vec<u8>, random: &mut fastrand::Rng) {
    if part.len() < 6 {
        return;
    }
    let at = random.usize(5..part.len());
    match random.u8(0..3) {
        0 => part.truncate(at),
        1 => drop(part.splice(at..at, bytes(random, 20))),
        _ => change_bytes(&mut part[5..], random),
    }
    let length = u32::try_from(part.len() - 1).unwrap();
    part[1..5].copy_from_slice(&length.to_be_bytes());
}

fn change_length(part: &mut [u8], random: &mut fastrand::Rng) {
    if let Some(length) = part.get_mut(1..5) {
        let right = u32::from_be_bytes(length.try_into().unwrap());
        let choices = [
            0,
            3,
            4,
            right.wrapping_add(1),
            right.wrapping_sub(1),
            1 << 20,
            i32::MAX.cast_unsigned(),
            u32::MAX,
        ];
        length.copy_from_slice(&choices[random.usize(0..choices.len())].to_be_bytes());
    }
}

fn change_kind(part: &mut [u8], random: &mut fastrand::Rng) {
    if let Some(kind) = part.first_mut() {
        *kind = b"QPBDECHSXFdcfp\0Z"[random.usize(0..16)];
    }
}
