# The long commands, by name: `just` lists them, `just NAME` runs one. CONTRIBUTING.md says what each is for.

# Lists what there is.
default:
    @just --list --unsorted

# All that CI runs: format, lints, documentation, fuzz targets, licences, tests.
ci:
    .ci/run

# Formats everything.
format:
    cargo fmt --all

# Lints, also of what only tests of schedules and deliberate defects are built with. Warnings are errors.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo clippy -p seawall-schedules --features shuttle --all-targets --locked -- -D warnings
    cargo clippy -p seawall-torture --features sabotage --all-targets --locked -- -D warnings

# Licences, sources and duplicates of the dependencies (cargo install cargo-deny). With a network: just deny advisories
deny *what="bans licenses sources":
    cargo deny --workspace check {{ what }}

# All tests of the suite.
test:
    cargo test --workspace --locked

# The tests of one crate: just crate wal
crate name:
    cargo test -p seawall-{{ name }} --locked

# The engine at work on its defaults, killed and recovered.
tour:
    cargo run --release -- tour

# A hundred times as many schedules of threads as the suite runs.
schedules times="100":
    SEAWALL_SCHEDULES={{ times }} cargo test -p seawall-schedules --features shuttle --locked

# Power losses in the simulated disk, an equal share for each page protection and compression.
crashes count="20000":
    SEAWALL_CRASHES={{ count }} cargo test -p seawall-torture --test crash_campaign --locked -- --nocapture

# All tortures in turn.
campaign minutes="60":
    cargo run --release --locked -p seawall-torture -- campaign --minutes {{ minutes }}

# One torture: just torture power-loss --runs 100
torture *arguments:
    cargo run --release --locked -p seawall-torture -- {{ arguments }}

# Every deliberate defect, and which torture finds it. Takes hours.
sabotage *arguments:
    cargo run --release --locked -p seawall-torture --features sabotage -- sabotage {{ arguments }}

# Fuzzes every decoder for so many seconds each (nightly Rust, cargo install cargo-fuzz).
fuzz seconds="60" *targets:
    testing/fuzz/run.sh {{ seconds }} {{ targets }}

# The benchmark beside other engines: docs/benchmarks.md has the arguments.
bench *arguments:
    cargo run --release --locked -p seawall-bench -- {{ arguments }}

# Writes docs/formats.md anew, from the byte tables beside the code.
formats:
    SEAWALL_BLESS=1 cargo test -p seawall --test formats --locked

# Writes the golden files anew. Only with a change of a format that is meant.
golden:
    SEAWALL_BLESS=1 cargo test -p seawall-backup --test golden --locked
