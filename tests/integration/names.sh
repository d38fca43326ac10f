#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names of 255 bytes and of odd bytes; too long ones are refused; links, hard and symbolic.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup

long=$(printf 'n%.0s' {1..255})
echo long >"$MNT/$long"
mkdir "$MNT/d$(printf 'ü%.0s' {1..127})"
refused '*' 'too long' touch "$MNT/${long}n"
refused '*' 'too long' mkdir "$MNT/${long}n"
refused '*' 'too long' ln -s x "$MNT/${long}n"

mkdir "$MNT/odd"
names=()
for ((byte = 1; byte < 256; byte++)); do
    [ "$byte" -ne 47 ] || continue
    printf -v name 'x%b' "\\x$(printf %02x "$byte")"
    names+=("$name")
    printf '%s' "$byte" >"$MNT/odd/$name"
done
names+=(' ' '-rf' '*' $'new\nline' '...' '..x' '\' $'\xff\xfe')
for name in "${names[@]:254}"; do
    printf odd >"$MNT/odd/$name"
done
same "${#names[@]}" "$(find "$MNT/odd" -type f -print0 | tr -dc '\0' | wc -c)" "odd names"
remount
same "${#names[@]}" "$(find "$MNT/odd" -type f -print0 | tr -dc '\0' | wc -c)" "odd names, remounted"
for name in "${names[@]}"; do
    [ -f "$MNT/odd/$name" ] || fail "the name $(printf %q "$name") is lost"
done
same long "$(cat "$MNT/$long")" "the long name's file"
same 200 "$(cat "$MNT/odd/"$'x\xc8')" "the file named by byte 200"
rm -r "$MNT/odd"

# Hard links.
echo one >"$MNT/one"
for i in {1..100}; do ln "$MNT/one" "$MNT/link$i"; done
same 101 "$(stat -c %h "$MNT/one")" "link count"
echo more >>"$MNT/link50"
same "$(cat "$MNT/one")" "$(cat "$MNT/link99")" "what two links show"
same "$(stat -c %i "$MNT/one")" "$(stat -c %i "$MNT/link7")" "inode numbers of two links"
rm "$MNT/one"
remount
same 100 "$(stat -c %h "$MNT/link1")" "link count after removing one"
mkdir "$MNT/other"
mv "$MNT/link1" "$MNT/other/"
rm "$MNT"/link*
same "1 one more" "$(stat -c %h "$MNT/other/link1") $(paste -sd' ' "$MNT/other/link1")" "the last link"
refused '*' 'not permitted|not allowed' ln "$MNT/other" "$MNT/dirlink"
refused '*' 'exists' ln "$MNT/other/link1" "$MNT/$long"

# Symbolic links, up to the longest target there is.
target=$(printf '/t%.0s' {1..2000})
ln -s "$target" "$MNT/far"
ln -s other "$MNT/near"
ln -s loop "$MNT/loop"
remount
same "$target" "$(readlink "$MNT/far")" "a long target"
same "one more" "$(paste -sd' ' "$MNT/near/link1")" "through a symbolic link"
refused '*' 'levels of symbolic links' cat "$MNT/loop"

# Directories.
mkdir -p "$MNT/a/b/c"
same "3 3" "$(stat -c %h "$MNT/a" "$MNT/a/b" | paste -sd' ')" "link counts of directories"
refused '*' 'not empty' rmdir "$MNT/a"
rm -r "$MNT/a"
[ ! -e "$MNT/a" ] || fail "rm -r left a"
finish
