# SPDX-License-Identifier: Apache-2.0
# rmem-bench stream, in small: table and JSON have every size, operation, place and version; a version
# that the CPU lacks is refused with the key that asked for it.
source "$RMEM_LIB"
need python3

stream=(timeout 60 "$RMEM_BENCH" stream --limit 100us --repeat 1)
"${stream[@]}" --size 2KiB:8KiB >"$WORK/out" || fail "rmem-bench stream: status $?"
same "12" "$(grep -cE '^ +[0-9]+ (fill|copy) (warm|cold)( +[0-9.]+)+$' "$WORK/out")" "rows"
same "6" "$(grep -cE '^ +[0-9]+ +[0-9]+( +[0-9.]+){5}$' "$WORK/out")" "rows of mixed work"

"${stream[@]}" --size 64:256 --json >"$WORK/out" || fail "rmem-bench stream --json: status $?"
python3 - "$WORK/out" <<'END' || fail "the JSON is not right: $(cat "$WORK/out")"
import json, platform, sys
result = json.load(open(sys.argv[1]))
rows = {(row["op"], row["destination"], row["bytes"]) for row in result["results"]}
assert len(rows) == 12 and ("fill", "cold", 128) in rows and ("copy", "warm", 64) in rows, rows
for row in result["results"]:
    assert platform.machine() != "x86_64" or "sse2" in row
    for version in set(row) - {"bytes", "op", "destination"}:
        assert row[version]["write_gb_per_s"]["median"] > 0
        assert row[version]["read_back_gb_per_s"]["median"] > 0
assert result["mixed"] == []
END

grep -qw avx512f /proc/cpuinfo ||
    refused 1 'staging.streaming.*avx512 is not available' \
        "$RMEM_BENCH" stream --set staging.streaming=avx512
refused 2 'avx512, avx2, sse2' "$RMEM_BENCH" stream --set staging.streaming=avx3
