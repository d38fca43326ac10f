#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The suite that every fabric provider has to pass, over verbs, server and client on the two ends of
# the pair; and the engine's own tests on top of it.
. "$RMEM_VM/lib.sh"
set -eu

export CK_TIMEOUT_MULTIPLIER=5 # emulated, and with company
export RMEM_TEST_VERBS=$A
[ ! -x "$RMEM_BUILD/tests/unit/test_auth" ] || "$RMEM_BUILD/tests/unit/test_auth"
"$RMEM_BUILD/tests/unit/test_fabric_conformance"
"$RMEM_BUILD/tests/unit/test_fabric_notices"
"$RMEM_BUILD/tests/unit/test_fabric_queues"
"$RMEM_BUILD/tests/unit/test_fabric_errors"
"$RMEM_BUILD/tests/unit/test_engine"
"$RMEM_BUILD/tests/unit/test_notices"

# rmem-bench between the two ends, with what it moves compared: every size class, operation and mode.
rmem-bench echo --listen "verbs://$B:7472" >/tmp/echo.log 2>&1 &
echo_pid=$!
wait_until 60 grep -q "echoes at" /tmp/echo.log
for op in write read; do
    rmem-bench bw --op $op --size 512:64KiB --batch 16 --iterations 4 --repeat 1 --verify \
        --server "verbs://$B:7472" --overwrite --set engine.detect=10s
done
rmem-bench lat --op all --size 4KiB --iterations 20 --repeat 1 --idle 0 --verify \
    --server "verbs://$B:7472" --overwrite --answer "verbs://$A:7473" --set engine.detect=10s
kill $echo_pid
wait $echo_pid
