#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What rmemd says to wrong options and wrong places, and that it harms nothing by it; stale sockets
# are replaced and live ones are not.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
sock=$WORK/bad.sock
mkdir "$WORK/folder"

# Options.
refused '*' 'size' "$RMEMD" --listen "shm:$sock" --size 0
refused '*' 'size|banana' "$RMEMD" --listen "shm:$sock" --size banana
refused '*' 'memory|size' "$RMEMD" --listen "shm:$sock" --size 63TiB
refused '*' 'memory|size' "$RMEMD" --listen "shm:$sock" \
    --size "$(($(awk '/^MemTotal/ {print $2}' /proc/meminfo) / 1024 + 1024))MiB"
refused '*' 'ftp|allowed' "$RMEMD" --listen "ftp:$sock"
refused '*' 'listen|allowed' "$RMEMD" --listen "$sock"
refused '*' 'listen|allowed|empty' "$RMEMD" --listen 'shm:'
refused '*' 'long' "$RMEMD" --listen "shm:$WORK/$(printf 'long%.0s' {1..40}).sock"
refused '*' 'backing|exist|no such' "$RMEMD" --listen "shm:$sock" --size 1MiB --backing "$WORK/no/pool"
refused '*' 'backing|folder|directory' "$RMEMD" --listen "shm:$sock" --size 1MiB --backing "$WORK/folder"
refused '*' 'option' "$RMEMD" --listen "shm:$sock" --frobnicate
refused '*' 'option|argument|operand' "$RMEMD" "shm:$sock"
refused '*' "no/rmemd.cfg" "$RMEMD" -c "$WORK/no/rmemd.cfg"
refused '*' 'exist|no such' "$RMEMD" --listen "shm:$WORK/nowhere/x.sock" --size 1MiB
refused '*' 'server.sise.*server.size' "$RMEMD" --listen "shm:$sock" --set server.sise=1MiB
echo 'server = { size = "2 bananas"; lissten = [ "shm:/x" ]; ' >"$WORK/bad.cfg"
refused '*' 'bad.cfg:[0-9]' "$RMEMD" -c "$WORK/bad.cfg"
echo 'server = { size = "2 bananas"; lissten = [ "shm:/x" ]; };' >"$WORK/bad.cfg"
refused '*' 'bad.cfg:1.*server.lissten.*listen' "$RMEMD" -c "$WORK/bad.cfg"
refused '*' 'bad.cfg:1.*2 bananas' "$RMEMD" -c "$WORK/bad.cfg"
refused '*' 'bad.cfg:1.*2 bananas' "$RMEMD" -c "$WORK/bad.cfg" --check-config
[ ! -e "$sock" ] || fail "a refused server left its socket"

# A file that is no socket is not touched.
echo precious >"$WORK/file"
refused '*' 'socket|exists' "$RMEMD" --listen "shm:$WORK/file" --size 1MiB
same precious "$(cat "$WORK/file")" "a file in the socket's place"

# A live server's socket is refused, and the server named; the server is not disturbed.
server_start
refused '*' "in use|${SERVER_PID[rmemd]}" "$RMEMD" --listen "shm:$WORK/rmemd.sock" --size 1MiB
[ -S "$WORK/rmemd.sock" ] || fail "the refused server took the live one's socket away"
same yes "$(alive "${SERVER_PID[rmemd]}" && echo yes)" "the live server"

# A dead server's socket is replaced.
server_kill
[ -S "$WORK/rmemd.sock" ] || fail "there is no stale socket: the test tests nothing"
server_start
server_stop

# Several places at once; SIGINT ends it as SIGTERM does.
server_start rmemd --listen "shm:$WORK/other.sock"
[ -S "$WORK/other.sock" ] || fail "the second --listen was ignored"
kill -INT "${SERVER_PID[rmemd]}"
ended "${SERVER_PID[rmemd]}" 10 rmemd || fail "rmemd ended with status $? on SIGINT"
[ ! -e "$WORK/rmemd.sock" ] && [ ! -e "$WORK/other.sock" ] || fail "rmemd left its sockets"
unset 'SERVER_PID[rmemd]'

# By a configuration file alone, and overridden by the command line.
echo "server = { listen = [ \"shm:$sock\" ]; size = \"8MiB\"; };" >"$WORK/good.cfg"
"$RMEMD" -c "$WORK/good.cfg" --check-config
"$RMEMD" -c "$WORK/good.cfg" --size 16MiB >"$WORK/good.log" 2>&1 &
pid=$!
wait_for 10 "what it exports" grep -qF "$sock" "$WORK/good.log"
grep -q '16 MiB' "$WORK/good.log" || fail "--size was ignored: $(cat "$WORK/good.log")"
kill "$pid"
ended "$pid" 10 rmemd || fail "rmemd ended with status $?"
same "" "$(find "$WORK" -type s)" "sockets left behind"
