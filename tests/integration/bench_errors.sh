# SPDX-License-Identifier: Apache-2.0
# What rmem-bench says when it can't do what it is told.
source "$RMEM_LIB"

mkdir "$WORK/tmp"
export TMPDIR=$WORK/tmp

refused 2 'usage: rmem-bench COMMAND' "$RMEM_BENCH"
refused 2 '"fly" is no command' "$RMEM_BENCH" fly
refused 2 'there is no "fast".*mw-chunkoff, mw-chunkon, hi-iops' "$RMEM_BENCH" bw --preset fast
refused 2 '"0", which is out of range' "$RMEM_BENCH" bw --size 0
refused 2 'batch.*"0"' "$RMEM_BENCH" bw --batch 0
refused 2 "unrecognized option '--batch'" "$RMEM_BENCH" lat --batch 4
refused 2 'too many to prepare' "$RMEM_BENCH" bw --batch 65536 --in-flight 1024
refused 2 'one or the other' "$RMEM_BENCH" bw --servers 2 --server shm:/nowhere
refused 2 'echo needs --listen' "$RMEM_BENCH" echo
refused 2 'engine.lanes.*out of range' "$RMEM_BENCH" bw --set engine.lanes=1000
refused 1 '1GiB does not fit.*--memory' "$RMEM_BENCH" bw --size 1GiB --memory 64MiB
refused 1 'nowhere.sock.*rmemd' "$RMEM_BENCH" bw --server "shm:$WORK/nowhere.sock" --op read \
    --set engine.connect_timeout=100ms
refused 1 'folder for sockets' env TMPDIR="$WORK/missing" "$RMEM_BENCH" bw
if [ -w /dev/full ]; then
    status=0
    "$RMEM_BENCH" bw --size 64 --iterations 1 --repeat 1 >/dev/full 2>"$WORK/err" || status=$?
    same 1 "$status" "the status when the result can't be written"
    grep -q "can't write the result" "$WORK/err" || fail "it said: $(cat "$WORK/err")"
fi

for command in bw lat; do
    "$RMEM_BENCH" $command --help >"$WORK/out" || fail "$command --help: status $?"
    grep -q -- '--iterations N' "$WORK/out" || fail "$command --help does not tell of --iterations"
    says 'engine\.post_batch' "$RMEM_BENCH" $command --help-config
done
says 'lat .*latency' "$RMEM_BENCH" --help
says '^rmem-bench [0-9]' "$RMEM_BENCH" --version
same "" "$(ls -A "$TMPDIR")" "what it left in its folder"
