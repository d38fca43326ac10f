#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Holes: sparse files up to 2^60 bytes, fallocate in its ways, SEEK_DATA and SEEK_HOLE, and
# copy_file_range.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fallocate truncate
setup
cd "$MNT"

pages() { # FILE: how many 4 KiB pages it takes
    echo $(($(stat -c %b "$1") / 8))
}

# A file of 2^60 bytes with a few bytes in it.
truncate -s $((1 << 60)) huge
same $((1 << 60)) "$(stat -c %s huge)" "size of the huge file"
fsop write huge $((1 << 59)) middle
fsop write huge $(((1 << 60) - 3)) end
same middle "$(bytes huge $((1 << 59)) 6)" "the middle"
same end "$(tail -c 3 huge)" "the end"
same 2 "$(pages huge)" "pages of the huge file"
same $((1 << 59)) "$(fsop seek data huge 0)" "first data"
same $(((1 << 59) + 4096)) "$(fsop seek hole huge $((1 << 59)))" "hole behind the middle"
same $(((1 << 60) - 4096)) "$(fsop seek data huge $(((1 << 59) + 4096)))" "second data"
same $((1 << 60)) "$(fsop seek hole huge $(((1 << 60) - 2)))" "the end counts as a hole"
same none "$(fsop seek data huge $((1 << 60)))" "data at the end"
refused '*' 'too large' truncate -s $(((1 << 60) + 1)) huge
truncate -s 4096 huge
same 0 "$(pages huge)" "pages of the huge file when it is cut"
same 4096 "$(tr -dc '\0' <huge | wc -c)" "zeros of the cut file"

# A file that grows in leaps takes what is written, also while it is open.
exec 5>leaps
for i in {0..99}; do
    dd if=/dev/zero of=/dev/fd/5 bs=4k count=1 seek=$((i * 256)) conv=notrunc status=none
done
same 100 "$(pages leaps)" "pages of a file with 4 KiB in each MiB"
exec 5>&-
rm leaps

# fallocate.
fallocate -l 1MiB reserved
same "1048576 256" "$(stat -c %s reserved) $(pages reserved)" "a reserved file"
same 1048576 "$(tr -dc '\0' <reserved | wc -c)" "zeros of a reserved file"
fallocate -n -o 1MiB -l 1MiB reserved
same "1048576 512" "$(stat -c %s reserved) $(pages reserved)" "reserved beyond its end"
random_file "$SRC/data" 1048576
cp "$SRC/data" data
cp "$SRC/data" "$SRC/model"
for range in 8192:65536 100000:5000 300001:200003 1000000:100000; do
    offset=${range%:*} length=${range#*:}
    fallocate -p -o "$offset" -l "$length" data
    fallocate -p -o "$offset" -l "$length" "$SRC/model" 2>/dev/null ||
        dd if=/dev/zero of="$SRC/model" conv=notrunc bs=1 seek="$offset" count="$length" status=none
done
cmp data "$SRC/model"
same 8192 "$(fsop seek hole data 0)" "where the punched hole begins"
same 73728 "$(fsop seek data data 8192)" "where it ends"
[ "$(pages data)" -lt 200 ] || fail "punching freed too little: $(pages data) pages are left"
fallocate -z -o 500000 -l 100000 data
dd if=/dev/zero of="$SRC/model" conv=notrunc bs=20000 seek=25 count=5 status=none
cmp data "$SRC/model"
fallocate -z -n -o 2MiB -l 64KiB data
same 1048576 "$(stat -c %s data)" "size after zeroing beyond the end"
fallocate -z -o 1048576 -l 4096 data
same 1052672 "$(stat -c %s data)" "size after zeroing over the end"
truncate -s 1048576 data

# Truncating up shows zeros, not what was there before.
truncate -s 500 data
truncate -s 9000 data
head -c 500 "$SRC/model" >"$SRC/short"
truncate -s 9000 "$SRC/short"
cmp data "$SRC/short"

# Copies.
cp "$SRC/data" whole
same 700000 "$(fsop copy whole 12345 part 54321 700000)" "bytes copied"
cmp <(bytes part 54321 700000) <(bytes "$SRC/data" 12345 700000)
same 54321 "$(head -c 54321 part | tr -dc '\0' | wc -c)" "zeros before the copy"
same 48576 "$(fsop copy whole 1000000 part 0 100000)" "bytes copied up to the end"
same 4096 "$(fsop copy whole 0 whole 524288 4096)" "bytes copied within one file"
cmp <(bytes whole 0 4096) <(bytes whole 524288 4096)
truncate -s 100M holes
fsop write holes 50000000 x
cp --sparse=always holes holes2
cmp holes holes2
[ "$(pages holes2)" -le 32 ] || fail "a sparse copy takes $(pages holes2) pages"

sum=$(sha256sum data part whole holes huge reserved)
stats=$(stat -c '%n %s %b' data part whole holes reserved)
cd /
remount
cd "$MNT"
same "$sum" "$(sha256sum data part whole holes huge reserved)" "contents after a remount"
same "$stats" "$(stat -c '%n %s %b' data part whole holes reserved)" "sizes after a remount"
cd /
finish
