#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rmemctl beside a mount that works, one that hangs, a dead one and none: it answers, tells the truth,
# and repairs only what nobody has mounted.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need python3

ctl() {
    timeout 20 "$RMEMCTL" -c "$CONF" "$@"
}

# field EXPRESSION: of the JSON document on standard input, named d.
field() {
    python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"
}

refused 2 'nothing|no such|not there|store' "$RMEMCTL" -c "$WORK/none.cfg" status
config_write a b
POOL_SIZE=128MiB server_start a
POOL_SIZE=384MiB server_start b
refused 2 "$STORE" "$RMEMCTL" -c "$CONF" status
[ ! -e "$STORE" ] || fail "status made a store"
mount_start
cp -r /usr/share/common-licenses "$MNT/tree"
sync -f "$MNT"

# A live mount.
ctl status | tee "$WORK/status"
grep -qF "$MNT" "$WORK/status"
server_url a
grep -qF "$URL" "$WORK/status"
grep -q 'answers on its control socket' "$WORK/status"
same "True up up alive" "$(ctl status --json |
    field "d['live']['pid'] == $MOUNT_PID, d['servers'][0]['state'], d['servers'][1]['state'], d['mounts'][0]['state']" |
    tr -d "(',)")" "status --json of a live mount"
same "536870912 $MNT" "$(ctl df --json | field "d['bytes_total'], d['mounted_on']" | tr -d "(',)")" "df --json"
used=$(ctl df --json | field "d['bytes_used']")
[ "$used" -gt 100000 ] || fail "df says only $used bytes are used"
says "$MNT" ctl df
for _ in 1 2 3 4 5; do
    cp -r "$MNT/tree" "$MNT/copy"
    ctl check
    rm -r "$MNT/copy"
    ctl check >/dev/null
done
same True "$(ctl check --json | field "d['clean']")" "check --json"
refused 2 "$MNT|$MOUNT_PID" "$RMEMCTL" -c "$CONF" check --repair

# The order is that of the configuration, whichever the volume knew first; new ones are no exception.
order() {
    local list
    list=$(printf "shm:$WORK/%s.sock," "$@")
    ctl --set "servers=${list%,}" status --json |
        field "' '.join(s['url'].split('/')[-1][0] for s in d['servers'])"
}
same "a b" "$(order a b)" "the order of the servers"
same "b a" "$(order b a)" "the order of the servers"
same "c b a" "$(order c b a)" "the order with a new server"
same "b a" "$(order b)" "the order without one of them"

# Which has nothing of the volume's, and one whose memory is another volume's.
POOL_SIZE=64MiB server_start c
server_url c
new=$(ctl --set "servers=$URL" status --json | field "d['servers'][0]['state']")
same new "$new" "the state of a new server"
says "$URL +new +rmemd " ctl --set "servers=$URL" status
(CONF=$WORK/other.cfg STORE=$WORK/other && config_write c && mkdir "$WORK/mnt2" && mount_start "$WORK/mnt2" &&
    mount_stop "$WORK/mnt2")
says "$URL +taken +rmemd " ctl --set "servers=$URL" status
other=$("$RMEMCTL" -c "$WORK/other.cfg" status --json | field "d['volume']")
says "holds another volume, $other" ctl --set "servers=$URL" status
says "up +1 region" "$RMEMCTL" -c "$WORK/other.cfg" status
says 'servers_missing.*c.sock' ctl --set "servers=$URL" df --json
server_stop c

# agree: what rmemctl says of space is what df says of the mount.
agree() {
    local ours theirs
    ours=$(ctl df 2>"$WORK/df.err" | awk 'NR == 2 { print $2, $3, $4, $5 }')
    theirs=$(df -h "$MNT" | awk 'NR == 2 { print $2, $3, $4, $5 }')
    same "$theirs" "$ours" "rmemctl df against df"
    ours=$(ctl df --json | field "d['bytes_total'], d['bytes_used'], d['bytes_available'], len(d['servers_missing'])" | tr -d '(,)')
    theirs=$(stat -f -c '%b %f %a' "$MNT" | awk -v missing="$1" '{ print $1 * 4096, ($1 - $2) * 4096, $3 * 4096, missing }')
    same "$theirs" "$ours" "rmemctl df --json against statfs"
}
agree 0
[ ! -s "$WORK/df.err" ] || fail "df complains: $(cat "$WORK/df.err")"

# Settings that change while it runs: telemetry, and what the log says.
reactor() {
    ctl status --json | field "sum(r['$1'] for r in d['live']['reactors'])"
}
same 0 "$(reactor write_sampled)" "transfers measured while telemetry is off"
ctl set engine.telemetry=true
for _ in $(seq 20); do
    dd if=/dev/zero of="$MNT/measured" bs=64K count=4 conv=fsync status=none
done
[ "$(reactor write_sampled)" -gt 0 ] || fail "nothing was measured: $(ctl status --json)"
[ "$(reactor write_p99_ns)" -ge "$(reactor write_p50_ns)" ] || fail "p99 below p50"
ctl set engine.telemetry=false
measured=$(reactor write_sampled)
cp "$MNT/measured" "$MNT/measured2"
sync -f "$MNT"
same "$measured" "$(reactor write_sampled)" "transfers measured after telemetry was switched off"
rm "$MNT/measured" "$MNT/measured2"
ctl set log.engine=debug
grep -q 'set log.engine=debug' "$WORK/rmemfs.log" || fail "the mount does not log that its log changed"
ctl set log.engine=default && fail "a level that is none"
refused 2 'not a level.*debug' "$RMEMCTL" -c "$CONF" set log.engine=loud
refused 2 'no such module' "$RMEMCTL" -c "$CONF" set log.motor=info
refused 2 'engine.telemetry, log.level' "$RMEMCTL" -c "$CONF" set fs.cache=none
refused 2 'form KEY=VALUE' "$RMEMCTL" -c "$CONF" set engine.telemetry
refused 2 'set what' "$RMEMCTL" -c "$CONF" set
ctl set log.level=info

# A server that is gone, then one and the mount that hang.
server_stop b
server_url b
says "$URL *down" ctl status
wait_for 5 "the mount to see it" grep -q 'server .*b.sock is down' "$WORK/rmemfs.log"
agree 1
grep -qE 'b.sock is down: [0-9.]+[KM] of data there can.t be read, and [0-9]+M free can.t be used' "$WORK/df.err" ||
    fail "df does not say what is down: $(cat "$WORK/df.err")"
kill -STOP "${SERVER_PID[a]}" "$MOUNT_PID"
ctl status >"$WORK/status"
kill -CONT "${SERVER_PID[a]}" "$MOUNT_PID"
server_url a
grep -q "$URL *down" "$WORK/status" || fail "status does not see that a server hangs: $(cat "$WORK/status")"
grep -q 'does not answer' "$WORK/status" || fail "status does not see that the mount hangs: $(cat "$WORK/status")"

# A file that is open and deleted when the mount dies: the next mount, or a repair, takes it away.
exec 3>"$MNT/open"
echo data >&3
sync -f "$MNT"
rm "$MNT/open"
same 1 "$(ctl status --json | field "d['orphans']")" "deleted files that are open"
mount_kill
exec 3>&- || true
timeout 20 umount -l "$MNT" || true
says '^note: .*1 deleted' ctl check
refused 2 'is the volume mounted' "$RMEMCTL" -c "$CONF" set log.level=info
same dead "$(ctl status --json | field "d['mounts'][0]['state']")" "the session of a dead mount"
ctl check --repair
same "0 0" "$(ctl status --json | field "d['orphans'], len(d['mounts'])" | tr -d '(,)')" "after the repair"

# Other options.
refused 2 'which volume.*rmemctl -c .*cfg df' "$RMEMCTL" df
refused 2 'store.url: not set' "$RMEMCTL" --set "servers=shm:$WORK/a.sock" df
says '% ' "$RMEMCTL" --set "servers=shm:$WORK/a.sock" --set "store.url=lmdb:$STORE" df
refused 2 'repair' "$RMEMCTL" -c "$CONF" --repair df
refused 2 'one command' "$RMEMCTL" -c "$CONF" df df
refused 2 'servers' "$RMEMCTL" -c "$CONF" --set servers=x:y status
says check "$RMEMCTL" --help
says rmemctl "$RMEMCTL" --version
finish
