#!/usr/bin/env bash
# Runs every fuzzer for SECONDS, one after another, and fails if any of them finds something.
#
#   testing/fuzz/run.sh SECONDS [TARGET...]
#
# Memory and the time of one input are bounded; what a target learns stays in corpus, findings in artifacts, beside this program.
set -euo pipefail
seconds=${1:?"usage: testing/fuzz/run.sh SECONDS [TARGET...]"}
shift
cd "$(dirname "$0")/../.."
fuzz=testing/fuzz

if [ $# -gt 0 ]; then targets=("$@"); else mapfile -t targets < <(cd "$fuzz/fuzz_targets" && basename -s .rs -- *.rs); fi
cargo +nightly fuzz build --fuzz-dir "$fuzz"

failed=()
for target in "${targets[@]}"; do
    mkdir -p "$fuzz/corpus/$target"
    echo "== $target, $seconds s"
    # The kept cases come second: only the first directory is written to. Looking for leaks after each input would
    # take a third of the time, and nothing here is freed by hand.
    cargo +nightly fuzz run --fuzz-dir "$fuzz" "$target" "$fuzz/corpus/$target" "$fuzz/regressions/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10 -max_len=8192 \
        -detect_leaks=0 -print_final_stats=1 || failed+=("$target")
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "findings in: ${failed[*]}; the inputs are in $fuzz/artifacts" >&2
    exit 1
fi
echo "no findings in ${#targets[@]} targets"
