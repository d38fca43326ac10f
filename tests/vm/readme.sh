#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README's "On two machines": its first block of commands as the one machine, the second as the other.
# They share a kernel here, so the interfaces and devices that both call eth0 and rxe0 get names that
# tell them apart, and the module is there already.
# shellcheck source=tests/vm/guest/lib.sh
. "$RMEM_VM/lib.sh"
set -Eeuo pipefail
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR

readme=$RMEM_VM/../../../README.md
rdma link delete rxe_a
rdma link delete rxe_b

block() { # NUMBER: the commands, and not what stands for the user's own work
    awk -v wanted="$1" '
        /^## / { inside = $0 == "## On two machines" }
        !inside { next }
        /^    / { if (!within) number++; within = 1; if (number == wanted) print substr($0, 5); next }
        /^$/ { next }
        { within = 0 }' "$readme" | grep -v '^\.\.\.$'
}
modprobe() {
    [ -d "/sys/module/$1" ]
}
export -f modprobe

block 1 | sed 's/eth0/vb/; s/rxe0/rxe_b/' >/tmp/server
block 2 | sed 's/eth0/va/; s/rxe0/rxe_a/' >/tmp/client
grep -q 'rmemd --listen' /tmp/server && grep -q '^rmemfs .*far' /tmp/client && grep -q '^umount' /tmp/client

# It goes on in the background, as in the README.
bash -exc ". /tmp/server; wait" >/tmp/server.log 2>&1 &
wait_until 30 grep -q 'listens at' /tmp/server.log || { cat /tmp/server.log; exit 1; }
wait_until 20 gid_index rxe_b "$B"
# A device is there before its addresses are; and what was copied is looked at.
awk '/^umount/ { print "diff -r /usr/share/common-licenses /mnt/far/common-licenses" } { print }
    /^modprobe/ { print "wait_until 20 gid_index rxe_a $A" }' /tmp/client >/tmp/client.checked
bash -exc ". \"$RMEM_VM/lib.sh\"; . /tmp/client.checked" 2>&1 | tee /tmp/client.log
grep -q 'verbs://10.77.0.2:7471 *up' /tmp/client.log
kill %1 2>/dev/null || true
echo "readme: the commands of the section work"
