# SPDX-License-Identifier: Apache-2.0
# rmem-bench ablate, in small: every contender has its figures, and the siblings move bytes rightly.
source "$RMEM_LIB"
need python3

siblings=${RMEM_BENCH%/*}/ablation
for sibling in ledger-requests ledger-records context snapshot timers all-records all-requests; do
    "$siblings/rmem-bench-$sibling" bw --verify --size 512:4KiB --batch 100 --iterations 5 --repeat 1 \
        --lanes 2 --depth 64 --reactors 2 --memory 16MiB >"$WORK/out" || fail "$sibling: status $?"
done

"$RMEM_BENCH" ablate --preset mw-chunkon --repeat 1 --limit 10ms --count 0 -- --size 1KiB:2KiB \
    --memory 64MiB --iterations 20 >"$WORK/out" || fail "ablate: status $?"
for who in ours ledger-requests ledger-records context snapshot timers all-records all-requests; do
    grep -Eq "^$who +[0-9.]+" "$WORK/out" || fail "no row of $who: $(cat "$WORK/out")"
done
grep -q '^# over all 2 sizes' "$WORK/out" || fail "no sum of the sweep"

count=0
! command -v valgrind >/dev/null || count=2000
"$RMEM_BENCH" ablate --preset single --repeat 1 --limit 10ms --count $count --json >"$WORK/out" ||
    fail "ablate --json: status $?"
python3 - "$WORK/out" $count <<'END' || fail "the JSON is not right: $(cat "$WORK/out")"
import json, sys
result = json.load(open(sys.argv[1]))
rows = {row["with"]: row for row in result["presets"][0]["results"]}
assert len(rows) == 8
for row in rows.values():
    assert row["full_load"][0]["cpu_ns_per_op"]["median"] > 0
    assert row["equal_throughput"]["ops_per_s"]["median"] > 0
    if sys.argv[2] != "0":
        assert row["instructions_per_op"] > 0
if sys.argv[2] != "0":
    count = {name: row["instructions_per_op"] for name, row in rows.items()}
    for name in ("ledger-requests", "ledger-records", "context", "snapshot", "timers"):
        assert count["ours"] < count[name] < count["all-requests"], (name, count)
END
refused 2 'there is no "fast"' "$RMEM_BENCH" ablate --preset fast
cp "$RMEM_BENCH" "$WORK/alone"
refused 1 'build folder' "$WORK/alone" ablate
