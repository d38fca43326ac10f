#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fs.write at "back" over RDMA, with hardly any memory for dirty bytes: what was fsynced is there after
# kill -9, and a file mapped by four threads holds what they wrote.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio
over_verbs || skip "needs RMEM_TEST_VERBS"
POOL_SIZE=64MiB
CONFIG_MORE='staging = { size = "16MiB"; };
    fs = { write = "back"; dirty_limit = "64KiB"; stage_max = "64KiB"; dirty_age = "20ms"; };'
config_write one two
server_start one
server_start two
mount_start

verified() { # NAME OPTION...
    local name=$1
    shift
    fio --name="$name" --directory="$MNT" --size=2M --bsrange=4k-64k --rw=randwrite --ioengine=psync \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=0 --randseed=7 \
        --output="$WORK/fio.out" "$@" || fail "fio $name: $(cat "$WORK/fio.out")"
}
verified synced --end_fsync=1
(trap - ERR; dd if=/dev/urandom of="$MNT/busy" bs=3000 count=100000 2>/dev/null) &
busy=$!
sleep 0.5
alive "$busy" || fail "the writer ended before the crash"
mount_kill
ended "$busy" 20 "the writer" || true
mount_start
verified synced --do_verify=1 --verify_only=1
cat "$MNT/busy" >/dev/null
"$MEMTOUCH" --num_threads 4 --file "$MNT/touched" --verify --thread_mem 1 --rw_ratio 50 --duration 3s
says '"flush_errors": 0, "throttled_writes": [1-9]' "$RMEMCTL" -c "$CONF" status --json
rm "$MNT"/*
finish
