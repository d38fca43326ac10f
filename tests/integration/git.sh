#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A git repository lives on the mount: commits, branches, packing, checking, cloning.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need git
setup

export HOME=$WORK GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_COMMITTER_NAME=t
export GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_EMAIL=t@example.org
source_tree "$SRC/tree"
rm "$SRC/tree/pipe"
rmdir "$SRC/tree/closed" "$SRC/tree/empty" # git keeps neither
mkdir "$MNT/work"
cd "$MNT/work"
git init -q .
cp -a "$SRC/tree/." .
git add -A
git commit -qm "the tree"
for i in {1..20}; do
    seq "$i" 200 >"file$i"
    echo "$i" >>counter
    git add -A
    git commit -qm "change $i"
done
git checkout -qb side HEAD~10
same 10 "$(wc -l <counter)" "lines at an older commit"
echo side >side
git add side
git commit -qm side
git merge -q -m merged master 2>/dev/null || git merge -q -m merged main
git gc -q --prune=now
git fsck --full --strict
git status --porcelain >"$WORK/status"
[ ! -s "$WORK/status" ] || fail "git sees changes that nobody made: $(head -3 "$WORK/status")"
cd /
remount
git -C "$MNT/work" fsck --full --strict
git clone -q "$MNT/work" "$MNT/clone"
diff -r --no-dereference --exclude=.git "$MNT/work" "$MNT/clone"
same 20 "$(wc -l <"$MNT/clone/counter")" "lines at the newest commit"
finish
