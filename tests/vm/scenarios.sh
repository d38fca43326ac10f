#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: scenarios.sh [--verbs] "SCENARIO [ARGUMENT...]"...
# Runs integration scenarios, or others by their paths, in the guest, on its kernel's FUSE; servers and
# mounts meet over shared memory, or over RDMA.
. "$RMEM_VM/lib.sh"
set -u

export RMEMFS="$RMEM_BUILD/fs/rmemfs" RMEMD="$RMEM_BUILD/tools/rmemd"
export RMEMCTL="$RMEM_BUILD/tools/rmemctl" RMEM_HELPERS="$RMEM_BUILD/tests/support"
export MEMTOUCH="$RMEM_BUILD/tools/memtouch" MEMTOUCH_MIB=2 MEMTOUCH_SECONDS=3
export RMEM_TEST_SECONDS=400 # emulation is slow
if [ "$1" = --verbs ]; then
    export RMEM_TEST_VERBS="$B" RMEM_TEST_CLIENT="$A"
    shift
fi
failed=0
for scenario; do
    # shellcheck disable=SC2086 # its arguments
    if bash "$RMEM_VM/../../integration/run.sh" $scenario; then
        echo "ok: $scenario"
    else
        echo "FAILED: $scenario (status $?)"
        failed=1
    fi
done
exit $failed
