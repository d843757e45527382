//! The deliberate defects of this crate: see [`seawall_io::sabotage`].

seawall_io::defects! {
    NoncesShort "nonces-short"
        "four bytes of each nonce are drawn, and the others are zero"
        => "Nonces repeat, and encrypted messages give each other away",
    KeysNameNotSynced "keys-name-not-synced"
        "the directory is not synced when the keys file is replaced"
        => "After a power loss the old master key is asked for",
}
