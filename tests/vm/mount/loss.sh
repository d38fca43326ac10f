#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One packet in fifty is lost, in both directions: slow, and otherwise nothing.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio tc
over_verbs || skip "needs RMEM_TEST_VERBS"
POOL_SIZE=64MiB
CONFIG_MORE='staging = { size = "16MiB"; };'
config_write
server_start
mount_start
for link in va vb; do
    tc qdisc add dev $link root netem loss 2%
done
for direct in 0 1; do
    fio --name="lossy$direct" --directory="$MNT" --size=4M --bsrange=4k-128k --iomem_align=4k \
        --rw=randwrite --ioengine=libaio --iodepth=4 --direct=$direct --verify=crc32c \
        --verify_fatal=1 --verify_state_save=0 --output="$WORK/fio.out" ||
        fail "fio with lost packets: $(cat "$WORK/fio.out")"
done
for link in va vb; do
    tc -s qdisc show dev $link | grep -q 'dropped [1-9]' || fail "no packet was lost on $link"
done
! grep -q 'is down' "$WORK/rmemfs.log" || fail "the connection was given up: $(grep down "$WORK/rmemfs.log")"
mount_stop
for link in va vb; do
    tc qdisc del dev $link root
done
finish
