#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README's commands. "Two commands", by hand: the block as it stands, but for packages and build, in one
# go, as when it is pasted. "On two machines": the first block as the one machine, the second as the other;
# they share a kernel here, so the interfaces and devices that both call eth0 and rxe0 get names that
# tell them apart, and the module is there already.
# shellcheck source=tests/vm/guest/lib.sh
. "$RMEM_VM/lib.sh"
set -Eeuo pipefail
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR

readme=$RMEM_VM/../../../README.md

block() { # SECTION NUMBER: the commands, and not what stands for the user's own work
    awk -v section="## $1" -v wanted="$2" '
        /^## / { inside = $0 == section }
        !inside { next }
        /^    / { if (!within) number++; within = 1; if (number == wanted) print substr($0, 5); next }
        /^$/ { next }
        { within = 0 }' "$readme" | grep -v '^\.\.\.$'
}

mkdir /tmp/by_hand
cd /tmp/by_hand
ln -s "$RMEM_BUILD" build
block "Two commands" 2 | sed '/^apt /,/^meson /d' >commands
grep -q '^build/tools/rmemd' commands && grep -q '^umount' commands && [ "$(wc -l <commands)" -ge 7 ]
awk '/^umount/ { print "echo works >/mnt/rmem/file; cmp /mnt/rmem/file - <<<works" } { print }' commands >checked
bash -exc '. ./checked; kill %1; wait'
cd /

rdma link delete rxe_a
rdma link delete rxe_b
modprobe() {
    [ -d "/sys/module/$1" ]
}
export -f modprobe

block "On two machines" 1 | sed 's/eth0/vb/; s/rxe0/rxe_b/' >/tmp/server
block "On two machines" 2 | sed 's/eth0/va/; s/rxe0/rxe_a/' >/tmp/client
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
echo "readme: the commands of both sections work"
