#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: fio_verify.sh ENGINE DEPTH
# fio writes blocks of 4 KiB to 1 MiB in random order and finds each as it wrote it: buffered, direct,
# and again after a remount.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio
setup

engine=$1 depth=$2

# job NAME OPTION...
job() {
    local name=$1
    shift
    fio --name="$name" --directory="$MNT" --ioengine="$engine" --iodepth="$depth" --size=24M \
        --bsrange=4k-1M --iomem_align=4k --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
        --randrepeat=0 --group_reporting --output="$WORK/fio.out" "$@" ||
        fail "fio $name $*: $(cat "$WORK/fio.out")"
}

for direct in 0 1; do
    [ "$engine" != mmap ] || [ "$direct" = 0 ] || continue
    job "random$direct" --rw=randwrite --direct="$direct" --numjobs=2
    job "mixed$direct" --rw=randrw --direct="$direct" --numjobs=2 --verify_backlog=16
    job "straight$direct" --rw=write --direct="$direct" --bs_unaligned=0
    # What one way wrote, the other reads.
    other=$((1 - direct))
    [ "$engine" != mmap ] || other=0
    job "straight$direct" --rw=read --direct="$other" --verify_only=0
done
remount
for direct in 0 1; do
    [ "$engine" != mmap ] || [ "$direct" = 0 ] || continue
    job "straight$direct" --rw=read --direct="$direct"
done
finish
