/* SPDX-License-Identifier: Apache-2.0 */
/* Folders for tests: in $TMPDIR, or else where syncs cost nothing. */
#pragma once

#include <stddef.h>

/* `path` gets the name of a new folder. Ends the program when there can be none. */
void folder_make(char *path, size_t size);

/* Removes the folder with all that is in it. */
void folder_remove(const char *path);
