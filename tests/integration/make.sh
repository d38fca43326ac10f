#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make -j2 builds a program on the mount, and rebuilds what changed and nothing else.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need make cc
setup

mkdir "$MNT/project"
cd "$MNT/project"
for i in {1..24}; do
    printf '#include "all.h"\nint part%d(int x)\n{\n\treturn x + %d;\n}\n' "$i" "$i" >"part$i.c"
    echo "int part$i(int x);"
done >all.h
{
    printf '#include <stdio.h>\n#include "all.h"\nint main(void)\n{\n\tint x = 0;\n'
    for i in {1..24}; do printf '\tx = part%d(x);\n' "$i"; done
    printf '\tprintf("%%d\\n", x);\n\treturn 0;\n}\n'
} >main.c
printf '%s\n' 'OBJECTS = $(patsubst %.c,%.o,$(sort $(wildcard *.c)))' \
    'program: $(OBJECTS)' '	cc -o $@ $(OBJECTS)' \
    '%.o: %.c all.h' '	cc -O1 -c -o $@ $<' >Makefile
make -s -j2
same 300 "$(./program)" "what the program says"
make -q || fail "make wants to build again what is fresh"
sed -i 's/x + 24/x + 25/' part24.c
same 2 "$(make -j2 | wc -l)" "commands after one change"
same 301 "$(./program)" "what the changed program says"
cd /
remount
cd "$MNT/project"
make -q || fail "make wants to build again after a remount"
same 301 "$(./program)" "what the program says after a remount"
make -s -B -j2
same 301 "$(./program)" "what the rebuilt program says"
cd /
finish
