//! `pg_isready`, which scripts ask before they begin.

use crate::program::{both, program};
use crate::served::Served;

#[test]
fn readiness_has_three_answers() {
    let starting = Served::starting();
    let Some(mut asks) = program("pg_isready", "127.0.0.1", starting.port()) else { return };
    let rejected = asks.output().unwrap();
    assert_eq!(rejected.status.code(), Some(1), "{}", both(&rejected));
    assert!(both(&rejected).ends_with("rejecting connections\n"));

    let port = starting.port();
    drop(starting);
    let nobody = program("pg_isready", "127.0.0.1", port).unwrap().output().unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{}", both(&nobody));

    let served = Served::new();
    for host in ["127.0.0.1", served.path().to_str().unwrap()] {
        let accepted = program("pg_isready", host, served.port()).unwrap().output().unwrap();
        assert_eq!(accepted.status.code(), Some(0), "{}", both(&accepted));
        assert!(both(&accepted).ends_with("accepting connections\n"));
    }
}
