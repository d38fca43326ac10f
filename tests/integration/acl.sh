#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# POSIX access lists with several users: enforced, inherited instead of the umask, in step with modes,
# kept over a remount and by copies.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need setpriv setfacl getfacl
[ "$(id -u)" = 0 ] || skip "needs root, to be other users"
config_write
server_start
chmod 711 "$WORK"
mount_start "$MNT" -o allow_other
cd "$MNT"
chmod 1777 .

one=(setpriv --reuid 4001 --regid 4001 --clear-groups)
two=(setpriv --reuid 4002 --regid 4002 --clear-groups)
grouped=(setpriv --reuid 4003 --regid 4003 --groups 4500)

acl() { # NAME: on one line
    getfacl -cEn "$1" | paste -sd' ' | sed 's/ *$//'
}

# Named users and groups may, within the mask.
echo secret >file
chmod 600 file
refused '*' denied "${one[@]}" cat file
setfacl -m u:4001:r,g:4500:rw file
same "user::rw- user:4001:r-- group::--- group:4500:rw- mask::rw- other::---" "$(acl file)" "a list"
same 660 "$(stat -c %a file)" "the mode shows the mask"
same secret "$("${one[@]}" cat file)" "what a named user may read"
refused '*' denied "${one[@]}" sh -c 'echo x >>file'
refused '*' denied "${two[@]}" cat file
"${grouped[@]}" sh -c 'echo more >>file'
chmod 640 file
refused '*' denied "${grouped[@]}" sh -c 'echo x >>file'
same "user::rw- user:4001:r-- group::--- group:4500:rw- mask::r-- other::---" "$(acl file)" "after chmod"
"${grouped[@]}" cat file >/dev/null
refused '*' 'not permitted' "${one[@]}" setfacl -m u:4002:r file

# Without names a list is a mode.
setfacl -b file
same "user::rw- group::--- other::---" "$(acl file)" "a list that was removed"
setfacl -b file
refused '*' denied "${one[@]}" cat file

# Defaults go to children, and beat the umask.
mkdir dir
setfacl -d -m u::rwx,u:4001:rwx,g::rx,o::- dir
(umask 077; touch dir/new; mkdir dir/sub)
same "user::rw- user:4001:rwx group::r-x mask::rw- other::---" "$(acl dir/new)" "a new file's list"
same 660 "$(stat -c %a dir/new)" "a new file's mode"
same 770 "$(stat -c %a dir/sub)" "a new directory's mode"
getfacl -cn dir/sub | grep -q 'default:user:4001:rwx' || fail "the default list is not passed on"
setfacl -m u:4001:rx dir
echo x >dir/new
same x "$("${one[@]}" cat dir/new)" "what the default list allows"
(umask 027; touch plain)
same 640 "$(stat -c %a plain)" "the umask without a default list"
refused '*' . setfacl -d -m u:4001:r plain

# Set-group-id goes when somebody outside the group changes the list.
"${one[@]}" touch program
chgrp 4500 program
chmod 2755 program
"${one[@]}" setfacl -m u:4002:rx program
same 755 "$(stat -c %a program)" "set-group-id after a foreign setfacl"

cp -a dir copy
before=$(getfacl -Rcn dir file)
same "$(getfacl -Rcn dir | sed s,dir,copy,)" "$(getfacl -Rcn copy)" "a copy's lists"
cd /
mount_stop
mount_start "$MNT" -o allow_other
cd "$MNT"
same "$before" "$(getfacl -Rcn dir file)" "lists after a remount"
same x "$("${one[@]}" cat dir/new)" "what the list allows after a remount"
rm -r dir copy
cd /
finish
