#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Renames: over files, over open files, of directories, with NOREPLACE and EXCHANGE; files without a
# name.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
cd "$MNT"

echo old >target
echo new >source
exec 5<target
mv source target
same new "$(cat target)" "the name after a rename over it"
same old "$(cat <&5)" "the open file that was renamed over"
exec 5<&-
[ ! -e source ] || fail "the old name is still there"

# Many times, as editors and databases do it, with a reader that must always see one or the other.
(while [ -e target ]; do cat target || true; done >"$WORK/seen" 2>"$WORK/reader.log") &
reader=$!
for i in {1..300}; do
    echo "version $i" >next
    mv next target
done
mv target done
wait "$reader" || true
[ -s "$WORK/seen" ] || fail "the reader saw nothing"
! grep -i stale "$WORK/reader.log" || fail "the reader met a file that was being replaced"
odd=$(grep -vE '^(new|version [0-9]+)$' "$WORK/seen" || true)
same "" "$odd" "what a reader saw besides whole versions"

echo a >a
echo b >b
refused '*' 'exists' fsop rename noreplace a b
same "a b" "$(cat a b | paste -sd' ')" "files after a refused rename"
fsop rename noreplace a c
same "b a" "$(cat b c | paste -sd' ')" "files after a rename to a free name"
mkdir dir
echo inside >dir/inside
fsop rename exchange b dir
same "inside b" "$(cat b/inside dir | paste -sd' ')" "a file and a directory, exchanged"
refused '*' 'no such file' fsop rename exchange b nowhere

mkdir -p x/y/z p
refused '*' 'invalid argument|to a subdirectory of itself' mv x x/y/z/
refused '*' 'not empty|exists' mv -T b x
mv x p/
[ -d p/x/y/z ] || fail "the moved directory is not there"
same "$(stat -c %i p)" "$(stat -c %i p/x/..)" ".. of a moved directory"
same "3 3" "$(stat -c %h p p/x | paste -sd' ')" "link counts of directories after a move"
mkdir empty
mv -T p/x empty
[ -d empty/y/z ] || fail "a directory did not replace an empty one"
same 2 "$(stat -c %h p)" "link count of the directory that was left"
mkdir sub
echo 1 >sub/f
mv -T sub/f f
ln f f2
mv f f2 2>/dev/null || true # two names of one file: nothing happens
[ -e f2 ] || fail "a rename onto a link of itself lost it"

fsop unlinked "$MNT/nameless"
cd /
remount
same "inside b 1" "$(cat "$MNT/b/inside" "$MNT/dir" "$MNT/f2" | paste -sd' ')" "all after a remount"
finish
