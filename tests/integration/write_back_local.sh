#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fs.write at "back" with servers of this host alone: nothing is staged, for that would be one more copy
# of what is a copy, unless fs.stage_local asks for it. Either way the bytes are right.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio
CONFIG_MORE='fs = { write = "back"; dirty_age = "1h"; };'
config_write one two
server_start one
server_start two
mount_start

verified() { # NAME OPTION...
    local name=$1
    shift
    [[ $name != direct ]] || set -- --direct=1 --bsrange=4k-64k --bs_unaligned=0 "$@"
    fio --name="$name" --directory="$MNT" --size=8M --bsrange=512-64k --bs_unaligned=1 --rw=randwrite \
        --ioengine=psync --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=0 \
        --randseed=7 --output="$WORK/fio.out" "$@" || fail "fio $name: $(cat "$WORK/fio.out")"
}
verified direct
verified buffered
sync -f "$MNT"
says '"write": \{"mode": "back", "dirty_bytes": 0, "dirty_bytes_max": 0, "flushed_bytes": 0, "flush_batches": 0,' \
    "$RMEMCTL" -c "$CONF" status --json
says 'writes back: never, all servers are of this host \(fs.stage_local\)' "$RMEMCTL" -c "$CONF" status
grep -q 'fs.write is back, but all servers are of this host' "$WORK/rmemfs.log" || fail "the log does not say so"
# All of it is in the servers' memory, not in that of the mount.
mount_kill

mount_start "$MNT" --set fs.stage_local=true
for name in direct buffered; do
    verified "$name" --do_verify=1 --verify_only=1
done
# Closing a file sends what is dirty of it, unless it has no name any more.
exec 5>"$MNT/gone"
rm "$MNT/gone"
head -c 100000 /dev/urandom >&5
same 102400 "$(written_back dirty_bytes)" "dirty bytes with fs.stage_local"
says 'writes back: 100K of 64M dirty' "$RMEMCTL" -c "$CONF" status
exec 5>&-
head -c 100000 /dev/urandom >"$MNT/staged"
same 102400 "$(written_back flushed_bytes)" "flushed bytes after close()"
finish
