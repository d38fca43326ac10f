#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times to the nanosecond, set and moved by the operations that should move them; suid and sgid go
# when somebody writes; kept over a remount.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
cd "$MNT"

stamp() { # FILE: mtime and ctime
    stat -c '%.9Y %.9Z' "$1"
}

touch -d '2001-02-03 04:05:06.123456789 UTC' file
touch -a -d '1969-12-31 23:59:58.000000001 UTC' file
touch -d '2200-01-01 00:00:00.999999999 UTC' future
mkdir dir
touch -d '1980-01-01 00:00:00.5 UTC' dir
times=$(stat -c '%n %.9X %.9Y' file future dir)
grep -q '^file -1.999999999 981173106.123456789' <<<"$times" ||
    fail "times were not kept: $times"
cd /
remount
cd "$MNT"
same "$times" "$(stat -c '%n %.9X %.9Y' file future dir)" "times after a remount"

# Beyond what is kept: the nearest time that is, not one from another century.
touch -d '2300-01-01 UTC' later
touch -d '1600-01-01 UTC' earlier
same "9223372036.854775807 -9223372036.854775808" \
    "$(stat -c %.9Y later earlier | paste -sd' ')" "times outside of 1677 to 2262"

# moves WHAT FILE COMMAND...: WHAT is "mtime ctime", "ctime" or "nothing"
moves() {
    local what=$1 file=$2 before after moved=
    before=$(stamp "$file")
    shift 2
    sleep 0.02
    "$@" >/dev/null
    after=$(stamp "$file")
    [ "${before% *}" = "${after% *}" ] || moved=mtime
    [ "${before#* }" = "${after#* }" ] || moved+=${moved:+ }ctime
    same "$what" "${moved:-nothing}" "the times of $file that '$*' moves"
}

moves "mtime ctime" file sh -c 'echo x >>file'
moves "mtime ctime" file truncate -s 100 file
moves ctime file chmod 640 file
moves ctime file ln file link
moves ctime file rm link
moves ctime file sh -c 'mv file file2; mv file2 file'
moves nothing file cat file
moves nothing file true
moves "mtime ctime" dir touch dir/new
moves "mtime ctime" dir rm dir/new
moves "mtime ctime" dir mkdir dir/sub
moves "mtime ctime" dir mv dir/sub sub
moves nothing dir ls dir
moves "mtime ctime" file fallocate -p -o 0 -l 10 file
if command -v setfattr >/dev/null; then
    moves ctime file setfattr -n user.a -v b file
fi
stamps=$(stamp file; stamp dir)
cd /
remount
same "$stamps" "$(stamp "$MNT/file"; stamp "$MNT/dir")" "times after all of it and a remount"
finish
