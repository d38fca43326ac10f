/* SPDX-License-Identifier: Apache-2.0 */
/* The schema for people. */
#pragma once

#include <stdio.h>

#include "config/schema.h"

/* What --help-config prints: every setting that `program` uses. */
void conf_help_print(enum conf_program program, FILE *stream);

/* config/README.md, whole. */
void conf_reference_print(FILE *stream);
