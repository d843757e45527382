//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
    AppliedToldEarly "applied-told-early"
        "a standby says that it has applied what is only durable"
        => "Readers of a standby miss commits that waited until it shows them",
    QuorumOfOne "quorum-of-one"
        "of the standbys that commits wait for, the most advanced one is enough"
        => "Readers of the others miss commits that waited for them",
}
