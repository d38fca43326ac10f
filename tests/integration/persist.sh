#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that a filesystem holds comes back with the next mount, however the last one ended.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need setfattr getfattr truncate
setup
cd "$MNT"

source_tree tree
mkfifo fifo
if [ "$(id -u)" = 0 ]; then
    mknod null c 1 3
    mknod disk b 7 200
    chown 12345:54321 fifo
fi
truncate -s 5G sparse
fsop write sparse 4000000000 far
for ((i = 0; i < 300; i++)); do
    echo "$i" >small$i
    setfattr -n user.number -v "$i" small$i
done
ln small7 linked
ln -s /somewhere/else symlink
mkdir -p deep/{1,2,3}/{4,5}/{6,7}
chmod 1777 deep
chmod 0 small9
random_file big 30M
touch -h -d '2011-11-11 11:11:11.111111111' symlink
touch -d '2011-11-11 11:11:11.111111111' deep small1

picture() {
    describe "$MNT"
    (cd "$MNT" && find . -type f ! -name sparse -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    (cd "$MNT" && getfattr -d -m - small* | sha256sum)
    stat -c '%n %b %t:%T' "$MNT"/{sparse,fifo,null,disk,big}
    bytes "$MNT/sparse" 4000000000 3
}

cd /
before=$(picture)
mount_stop
mount_start
same "$before" "$(picture)" "everything after umount"
mount_term
mount_start
same "$before" "$(picture)" "everything after SIGTERM"
sync -f "$MNT"
mount_kill
mount_start
same "$before" "$(picture)" "everything after sync and kill -9"
find "$MNT" -mindepth 1 -delete
same "" "$(ls -A "$MNT")" "what find -delete left"
remount
same "" "$(ls -A "$MNT")" "what is there after everything was deleted"
finish
