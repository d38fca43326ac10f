#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Extended attributes: set, replace, remove, list, large and binary values; kept over a remount.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need setfattr getfattr
setup
cd "$MNT"

echo x >file
mkdir dir
ln -s file link
for thing in file dir; do
    setfattr -n user.colour -v blue "$thing"
    setfattr -n user.binary -v 0x00ff0a0d00 "$thing"
    setfattr -n user.empty "$thing"
done
same blue "$(getfattr --only-values -n user.colour file)" "a value"
setfattr -n user.colour -v green file
same green "$(getfattr --only-values -n user.colour file)" "a replaced value"
refused '*' 'no such attribute' getfattr -n user.none file
refused '*' 'no such attribute' setfattr -x user.none file
big=$(head -c 3000 /dev/urandom | od -An -tx1 | tr -d ' \n')
setfattr -n user.big -v "0x$big" file
for i in {1..60}; do
    setfattr -n "user.many.$i" -v "$i" file
done
setfattr -n "user.$(printf 'n%.0s' {1..250})" -v long file
if [ "$(id -u)" = 0 ]; then
    setfattr -n trusted.secret -v yes file
    setfattr -h -n trusted.link -v onlink link
fi
before=$(getfattr -d -m - -e hex file dir; getfattr -h -d -m - -e hex link)
same 65 "$(getfattr -d -m '^user' file | grep -c =)" "attributes of the file"
cd /
remount
cd "$MNT"
same "$before" "$(getfattr -d -m - -e hex file dir; getfattr -h -d -m - -e hex link)" "after a remount"
for i in {1..60}; do
    setfattr -x "user.many.$i" file
done
setfattr -x user.big file
same 4 "$(getfattr -d -m '^user' file | grep -c =)" "attributes after removing most"
rm -r dir file link
touch file
same "" "$(getfattr -d -m - file)" "attributes of a new file of the same name"
cd /
finish
