//! One repository as a destination of uploads: whether it answers, and how many uploads may be under way to it.

use std::time::Duration;

use super::failure::Failure;
use super::limits::OPTIONAL_MEMORY_BYTES;
use crate::log_line::log_line;

/// Rests after uploads that failed because of the store: from the first to the longest, doubling.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);

/// Uploads to one repository.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) is_required: bool,
    pub(super) running: usize,
    /// Bytes of the packed files that are on their way.
    under_way_bytes: u64,
    in_flight_max: usize,
    /// Most that may run: `in_flight_max`, or fewer where the store asks for that. In thousandths.
    limit_thousandths: usize,
    /// How long uploads rest after the next failure.
    rest: Duration,
    /// The last one failed.
    down: Option<Down>,
    pub(super) archived: u64,
    pub(super) last_archived: Option<String>,
}

/// Uploads rest.
#[derive(Debug)]
struct Down {
    /// No upload has succeeded since the first failure, which was then.
    since: Duration,
    until: Duration,
    why: String,
}

/// Whether another upload may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capacity {
    Free,
    /// Not before this.
    Later(Duration),
    /// Not before one has ended.
    Full,
}

impl Destination {
    pub(super) fn new(is_required: bool, in_flight_max: usize) -> Destination {
        Destination {
            is_required,
            running: 0,
            under_way_bytes: 0,
            in_flight_max,
            limit_thousandths: in_flight_max * 1000,
            rest: REST,
            down: None,
            archived: 0,
            last_archived: None,
        }
    }

    pub(super) fn capacity(&self, now: Duration) -> Capacity {
        match &self.down {
            Some(down) if now < down.until => return Capacity::Later(down.until),
            // One finds out whether the store is back.
            Some(_) if self.running > 0 => return Capacity::Full,
            _ => {}
        }
        let has_memory = self.is_required || self.under_way_bytes < OPTIONAL_MEMORY_BYTES;
        if self.running < self.limit() && has_memory { Capacity::Free } else { Capacity::Full }
    }

    /// A packed file is on its way.
    pub(super) fn begin(&mut self, bytes: u64) {
        self.under_way_bytes += bytes;
    }

    /// It is there, or is not on its way any more.
    pub(super) fn end(&mut self, bytes: u64) {
        self.under_way_bytes -= bytes;
    }

    pub(super) fn limit(&self) -> usize {
        (self.limit_thousandths / 1000).max(1)
    }

    /// Why uploads rest, if they do.
    pub(super) fn trouble(&self, now: Duration) -> Option<&str> {
        self.lasting_trouble(now, Duration::ZERO)
    }

    /// Why they rest, if every upload has failed for `patience`.
    pub(super) fn lasting_trouble(&self, now: Duration, patience: Duration) -> Option<&str> {
        let lasts = |down: &&Down| now < down.until && now.saturating_sub(down.since) >= patience;
        self.down.as_ref().filter(lasts).map(|down| down.why.as_str())
    }

    /// The store has not answered since this.
    pub(super) fn last_trouble(&self) -> Option<&str> {
        self.down.as_ref().map(|down| down.why.as_str())
    }

    pub(super) fn succeeded(&mut self, name: &str) {
        self.archived += 1;
        self.last_archived = Some(name.to_owned());
        self.rest = REST;
        self.down = None;
        // One more in flight for each round of all that are.
        let step = 1_000_000 / self.limit_thousandths.max(1000);
        self.limit_thousandths = (self.limit_thousandths + step).min(self.in_flight_max * 1000);
    }

    pub(super) fn failed(&mut self, now: Duration, failure: &Failure) {
        // Those that were in flight when the store went away fail together, and count as one.
        if self.trouble(now).is_some() {
            return;
        }
        if self.down.is_none() {
            log_line!("uploads to a repository rest: {}", failure.message);
        }
        let since = self.down.as_ref().map_or(now, |down| down.since);
        self.down = Some(Down { since, until: now + self.rest, why: failure.message.clone() });
        self.rest = (self.rest * 2).min(REST_MAX);
        if failure.is_too_much {
            self.limit_thousandths = (self.limit_thousandths / 2).max(1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(is_too_much: bool) -> Failure {
        Failure { message: "down".to_owned(), is_of_store: true, is_too_much }
    }

    #[test]
    fn a_store_that_is_down_rests_and_is_tried_by_one() {
        let mut destination = Destination::new(true, 8);
        let now = Duration::from_secs(100);
        destination.failed(now, &failure(false));
        // The others that were in flight fail, too.
        destination.failed(now, &failure(false));
        assert_eq!(destination.rest, REST * 2);
        assert_eq!(
            (destination.capacity(now), destination.trouble(now)),
            (Capacity::Later(now + REST), Some("down"))
        );
        let later = now + REST;
        assert_eq!((destination.capacity(later), destination.trouble(later)), (Capacity::Free, None));
        destination.running = 1;
        assert_eq!(destination.capacity(later), Capacity::Full, "one finds out");
        destination.succeeded("a");
        assert_eq!((destination.capacity(later), destination.rest), (Capacity::Free, REST));
        for round in 1..20 {
            destination.failed(Duration::from_secs(1000 * round), &failure(false));
        }
        assert_eq!(destination.rest, REST_MAX);
    }

    #[test]
    fn an_optional_repository_that_takes_long_gets_no_more_than_its_memory() {
        let now = Duration::from_secs(100);
        for is_required in [true, false] {
            let mut destination = Destination::new(is_required, 8);
            destination.begin(OPTIONAL_MEMORY_BYTES - 1);
            destination.running = 1;
            assert_eq!(destination.capacity(now), Capacity::Free);
            destination.begin(1);
            destination.running = 2;
            assert_eq!(destination.capacity(now), if is_required { Capacity::Free } else { Capacity::Full });
            destination.end(1);
            destination.running = 1;
            assert_eq!(destination.capacity(now), Capacity::Free);
        }
    }

    #[test]
    fn a_store_that_asks_for_less_gets_less_until_it_answers_again() {
        let mut destination = Destination::new(true, 16);
        destination.failed(Duration::ZERO, &failure(true));
        assert_eq!(destination.limit(), 8);
        for round in 1..20 {
            destination.failed(Duration::from_secs(100 * round), &failure(true));
        }
        assert_eq!(destination.limit(), 1, "never none");
        for _ in 0..1000 {
            destination.succeeded("a");
        }
        assert_eq!(destination.limit(), 16);
        destination.running = 16;
        assert_eq!(destination.capacity(Duration::from_secs(1)), Capacity::Full);
    }
}
