#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fs.write at "back": what was fsynced or closed survives kill -9 even when there is no room for dirty
# bytes, a lost server is told once to every open file, and rmemctl shows what is dirty.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio
CONFIG_MORE='fs = { write = "back"; stage_local = true; dirty_limit = "64KiB"; stage_max = "64KiB"; dirty_age = "20ms"; };'
setup

# verified NAME OPTION...
verified() {
    local name=$1
    shift
    fio --name="$name" --directory="$MNT" --size=6M --bsrange=512-64k --bs_unaligned=1 --rw=randwrite \
        --ioengine=psync --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=0 \
        --randseed=7 --output="$WORK/fio.out" "$@" || fail "fio $name: $(cat "$WORK/fio.out")"
}
for round in 1 2; do
    verified "synced$round" --end_fsync=1
    # Somebody is at it when the crash comes.
    (trap - ERR; dd if=/dev/urandom of="$MNT/busy" bs=3000 count=100000 2>/dev/null) &
    busy=$!
    sleep 0.2
    alive "$busy" || fail "the writer ended before the crash"
    mount_kill
    ended "$busy" 10 "the writer" || true
    mount_start
    for ((i = 1; i <= round; i++)); do
        verified "synced$i" --do_verify=1 --verify_only=1
    done
    store_size=$(stat -c %s "$MNT/busy")
    [ "$(wc -c <"$MNT/busy")" = "$store_size" ] || fail "what the crash left cannot be read"
done
says '"throttled_writes": [1-9]' bash -c "for n in 1 2 3 4; do
    dd if=/dev/zero of='$MNT/busy'\$n bs=64k count=100 conv=fsync & done; wait
    '$RMEMCTL' -c '$CONF' status --json"
mount_stop

# With room, bytes stay until they are asked for, which any close() does.
mount_start "$MNT" --set fs.dirty_limit=16MiB --set fs.dirty_age=1h
random_file "$SRC/random" 100000
status_json() {
    "$RMEMCTL" -c "$CONF" status --json
}

# A file without a name is never sent, if nobody asks for it.
exec 5>"$MNT/gone" 6<"$MNT/gone"
rm "$MNT/gone"
flushed=$(status_json | grep -o '"flushed_bytes": [0-9]*')
head -c 100000 "$SRC/random" >&5
says '"dirty_bytes": 102400,' status_json
cmp <(head -c 100000 "$SRC/random") /dev/fd/6
exec 5>&- 6<&-
not_dirty() {
    [[ $(status_json) == *"\"dirty_bytes\": 0,"* ]]
}
wait_for 5 "the end of a file without a name" not_dirty
says "$flushed," status_json

mkfifo "$WORK/input"
fsop lose "$MNT/lost" <"$WORK/input" >"$WORK/lose.out" 2>&1 &
loser=$!
exec 5>"$WORK/input"
wait_for 10 "dirty bytes" grep -q dirty "$WORK/lose.out"
says 'writes back: 8.0K of 16M dirty' "$RMEMCTL" -c "$CONF" status
same "some bytes" "$(bytes "$MNT/lost" 0 10)" "bytes that are dirty"
server_kill
exec 5>&-
ended "$loser" 15 "fsop lose" || fail "$(cat "$WORK/lose.out")"
says 'dirty, 1 flush failed' "$RMEMCTL" -c "$CONF" status
server_start
rm "$MNT"/*
finish
