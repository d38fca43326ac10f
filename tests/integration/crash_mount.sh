#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of rmemfs at random moments while two writers are at it: the next mount takes the stale
# mount point over, everything that was fsynced is there, and the store is clean.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need setfattr
config_write
server_start
mount_start

# Names, links and directories come and go meanwhile; of these only the store must stay sound.
churn() { # FOLDER
    local i
    trap - ERR
    set +e
    mkdir "$1" && cd "$1" || return 0
    for ((i = 0; ; i++)); do
        mkdir -p "d$((i % 5))/e/f"
        echo "$i" >"d$((i % 5))/e/f/$i"
        ln "d$((i % 5))/e/f/$i" "link$((i % 20))-$i"
        mv "d$((i % 5))" "d$((i % 5 + 5))" || rm -rf "d$((i % 5 + 5))"
        ln -sf "$i" symbolic
        fsop rename exchange d5 d6
        rm -f link$((i % 7))-*
        setfattr -n user.x -v "$i" . || return 0
    done
}

for round in 1 2 3 4 5 6; do
    writers=()
    for writer in a b; do
        mkdir "$MNT/$round$writer"
        fsop fsync "$MNT"
        durable write "$MNT/$round$writer" "$WORK/$round$writer.journal" \
            "$((RANDOM * 2 + round))" 2>>"$WORK/writers.log" &
        writers+=($!)
    done
    churn "$MNT/churn$round" >/dev/null 2>&1 &
    churner=$!
    sleep "0.$((RANDOM % 9 + 1))"
    for pid in "${writers[@]}"; do
        alive "$pid" || fail "a writer ended before the crash"
    done
    mount_kill
    for pid in "${writers[@]}"; do
        ended "$pid" 10 "a writer" || fail "a writer failed"
    done
    ended "$churner" 10 "the churning process" || true
    mounted "$MNT" || fail "there is no stale mount point: the test tests nothing"
    refused '*' 'not connected' ls "$MNT"
    mount_start
    # Every round's files, also those of earlier ones.
    for ((i = 1; i <= round; i++)); do
        for writer in a b; do
            durable verify "$MNT/$i$writer" "$WORK/$i$writer.journal" ||
                fail "round $round: what was fsynced in round $i is not there"
        done
    done
    rm -f "$MNT/$round"[ab]/replacement
    find "$MNT/churn$round" -type f -exec cat {} + >/dev/null
    [ $((round % 3)) != 0 ] || rm -r "$MNT"/churn*
    if [ $((round % 2)) = 0 ]; then
        mount_stop
        store_clean
        mount_start
    fi
done
grep -q done "$WORK/1a.journal" || fail "the writers did nothing"

# A file that was open and had no name when the crash came gives its space back.
sync -f "$MNT"
free=$(stat -f -c %a "$MNT")
mkfifo "$WORK/input"
fsop hold "$MNT/held" 40000000 <"$WORK/input" >"$WORK/held" &
holder=$!
exec 5>"$WORK/input"
wait_for 20 "the held file" grep -q held "$WORK/held"
[ "$(stat -f -c %a "$MNT")" -le $((free - 9000)) ] || fail "the held file takes no space"
mount_kill
exec 5>&-
wait "$holder" || true
mount_start
[ ! -e "$MNT/held" ] || fail "the held file got its name back"
space_back() {
    [ "$(stat -f -c %a "$MNT")" -ge $((free - 64)) ]
}
wait_for 10 "the space of a file that was open without a name" space_back
finish
