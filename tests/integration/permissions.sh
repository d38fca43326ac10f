#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Access rights with several users: modes are enforced, set-group-id is inherited, and suid and sgid
# are cleared when somebody without privilege writes.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need setpriv
[ "$(id -u)" = 0 ] || skip "needs root, to be other users"
config_write
server_start
chmod 711 "$WORK"
mount_start "$MNT" -o allow_other
cd "$MNT"
chmod 1777 .

one=(setpriv --reuid 4001 --regid 4001 --clear-groups)
two=(setpriv --reuid 4002 --regid 4002 --clear-groups)

echo secret >mine
chmod 600 mine
refused '*' 'denied' "${one[@]}" cat mine
refused '*' 'denied' "${one[@]}" sh -c 'echo x >>mine'
refused '*' 'not permitted' "${one[@]}" rm -f mine # the directory is sticky
refused '*' 'not permitted' "${one[@]}" chmod 666 mine
"${one[@]}" sh -c 'echo theirs >theirs'
same 4001:4001 "$(stat -c %u:%g theirs)" "the owner of a new file"
refused '*' 'not permitted' "${one[@]}" chown 4002 theirs
chmod 444 theirs
refused '*' 'denied' "${two[@]}" sh -c 'echo x >>theirs'
same theirs "$("${two[@]}" cat theirs)" "what others may read"
mkdir -m 700 private
echo x >private/file
refused '*' 'denied' "${one[@]}" ls private
refused '*' 'denied' "${one[@]}" cat private/file
same 4755 "$(umask 022; touch u; chmod 4755 u; stat -c %a u)" "a mode with suid"

mkdir group
chgrp 4005 group
chmod 2777 group
"${one[@]}" touch group/file
"${one[@]}" mkdir group/sub
same "4001:4005 4001:4005" "$(stat -c %u:%g group/file group/sub | paste -sd' ')" "group inherited"
same 2 "$(stat -c %a group/sub | cut -c1)" "set-group-id inherited by a directory"

# clears COMMAND...: run by somebody else, it takes suid and sgid away from `program`.
clears() {
    printf '%8192s' x >program
    chown 4001:4001 program
    chmod 6777 program
    "${two[@]}" "$@"
    same 777 "$(stat -c %a program)" "mode of a suid file after '$*'"
}

clears sh -c 'echo more >>program'
clears dd if=/dev/zero of=program bs=4096 count=1 conv=notrunc oflag=direct status=none
clears truncate -s 5 program
clears fallocate -p -o 0 -l 4096 program
clears fallocate -l 20000 program
chmod 6777 program
chown 4003 program
same 777 "$(stat -c %a program)" "mode of a suid file after chown"
cd /
mount_stop
mount_start "$MNT"
refused '*' 'denied|not permitted' "${two[@]}" ls "$MNT"
finish
