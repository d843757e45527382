//! Which of several functions or operators with one name is meant: the rules of PostgreSQL's section 10.3.

use seawall_values::{Oid, oid};

use super::coerce::can_coerce_all;
use super::types::{STRING, category, is_preferred};
use seawall_values::system::CastContext;

/// A function or an operator that arguments could be given to.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The position in the list that it is from.
    pub(super) index: usize,
    /// The declared types, one for each argument.
    pub(super) types: Vec<Oid>,
}

/// Those that the arguments can be converted to.
pub(super) fn matching(arguments: &[Oid], candidates: &[Candidate]) -> Vec<Candidate> {
    let accepts = |candidate: &&Candidate| can_coerce_all(arguments, &candidate.types, CastContext::Implicit);
    candidates.iter().filter(accepts).cloned().collect()
}

/// The best of several that all accept the arguments; `None`: none is better than all others.
pub(super) fn best(arguments: &[Oid], mut candidates: Vec<Candidate>) -> Option<Candidate> {
    if candidates.len() <= 1 {
        return candidates.pop();
    }
    let unknown = arguments.iter().filter(|oid| **oid == oid::UNKNOWN).count();
    // The most exact matches.
    keep_best(&mut candidates, |candidate| {
        count(arguments, &candidate.types, |argument, declared| argument == declared)
    });
    if candidates.len() == 1 {
        return candidates.pop();
    }
    // Exact, or preferred in the category of the argument.
    keep_best(&mut candidates, |candidate| {
        count(arguments, &candidate.types, |argument, declared| {
            argument == declared || is_preferred(category(argument), declared)
        })
    });
    if candidates.len() == 1 {
        return candidates.pop();
    }
    if unknown == 0 {
        return None;
    }
    if let Some(slots) = categories_of_unknown(arguments, &candidates) {
        let fits = |candidate: &Candidate| {
            slots.iter().zip(&candidate.types).all(|(slot, declared)| match slot {
                Some((wanted, has_preferred)) => {
                    category(*declared) == *wanted && (!has_preferred || is_preferred(*wanted, *declared))
                }
                None => true,
            })
        };
        let fitting: Vec<Candidate> =
            candidates.iter().filter(|candidate| fits(candidate)).cloned().collect();
        if !fitting.is_empty() {
            candidates = fitting;
        }
        if candidates.len() == 1 {
            return candidates.pop();
        }
    }
    of_one_known_type(arguments, &candidates)
}

fn count(arguments: &[Oid], declared: &[Oid], is_match: impl Fn(Oid, Oid) -> bool) -> usize {
    let pairs = arguments.iter().zip(declared);
    pairs
        .filter(|(argument, declared)| **argument != oid::UNKNOWN && is_match(**argument, **declared))
        .count()
}

fn keep_best(candidates: &mut Vec<Candidate>, score: impl Fn(&Candidate) -> usize) {
    let best = candidates.iter().map(&score).max().unwrap_or(0);
    candidates.retain(|candidate| score(candidate) == best);
}

/// For each argument that is unknown: the category that it is taken to have, and whether a preferred type is among the candidates.
fn categories_of_unknown(arguments: &[Oid], candidates: &[Candidate]) -> Option<Vec<Option<(u8, bool)>>> {
    let mut slots = Vec::with_capacity(arguments.len());
    for (position, argument) in arguments.iter().enumerate() {
        if *argument != oid::UNKNOWN {
            slots.push(None);
            continue;
        }
        let mut wanted: Option<u8> = None;
        let mut has_preferred = false;
        let mut has_conflict = false;
        for candidate in candidates {
            let declared = *candidate.types.get(position)?;
            let of = category(declared);
            match wanted {
                None => (wanted, has_preferred) = (Some(of), is_preferred(of, declared)),
                Some(known) if known == of => has_preferred |= is_preferred(of, declared),
                Some(_) if of == STRING => {
                    (wanted, has_preferred) = (Some(STRING), is_preferred(of, declared));
                }
                Some(_) => has_conflict = true,
            }
        }
        // Strings win over any conflict.
        if has_conflict && wanted != Some(STRING) {
            return None;
        }
        slots.push(wanted.map(|wanted| (wanted, has_preferred)));
    }
    Some(slots)
}

/// If all known arguments have one type, the unknown ones are taken to have it, too.
fn of_one_known_type(arguments: &[Oid], candidates: &[Candidate]) -> Option<Candidate> {
    let mut known = arguments.iter().copied().filter(|oid| *oid != oid::UNKNOWN);
    let first = known.next()?;
    if known.any(|other| other != first) {
        return None;
    }
    let all = vec![first; arguments.len()];
    let mut fitting =
        candidates.iter().filter(|candidate| can_coerce_all(&all, &candidate.types, CastContext::Implicit));
    let only = fitting.next()?;
    fitting.next().is_none().then(|| only.clone())
}

/// The one whose declared types are those of the arguments.
pub(super) fn exact(arguments: &[Oid], candidates: &[Candidate]) -> Option<Candidate> {
    candidates.iter().find(|candidate| candidate.types == arguments).cloned()
}
