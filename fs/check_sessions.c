/* SPDX-License-Identifier: Apache-2.0 */
/* Mount sessions, and deleted inodes that they keep. */
#include <inttypes.h>

#include "fs/check_parts.h"

static int visit_session(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct record_mount_fields fields;
	void *sessions = check->sessions;
	char text[CHECK_KEY_TEXT];
	uint64_t number;
	int error;

	if (record_parse_number(key, RECORD_MOUNT, &number) != 0 ||
	    record_decode_mount(value, &fields) != 0) {
		check_report(check, CHECK_WRONG, true, "record %s cannot be read",
			     check_key_text(key, text));
		check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
		return 0;
	}
	if (number >= check->volume.mount_next)
		check_report(check, CHECK_WRONG, false,
			     "session %" PRIu64 " has a number that was not given yet", number);
	error = check_grow(&sessions, &check->session_room, check->session_count,
			   sizeof(*check->sessions));
	check->sessions = sessions;
	if (error != 0)
		return error;
	check->sessions[check->session_count++] = number;
	if (check->alone)
		check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
	return check->error;
}

static bool session_exists(const struct check *check, uint64_t number)
{
	for (size_t i = 0; i < check->session_count; i++) {
		if (check->sessions[i] == number)
			return true;
	}
	return false;
}

static int visit_orphan(void *user, struct store_slice key, struct store_slice value)
{
	struct check *check = user;
	struct check_inode *inode;
	char text[CHECK_KEY_TEXT];
	uint64_t mount, ino;

	(void)value;
	if (record_parse_pair(key, RECORD_ORPHAN, &mount, &ino) != 0) {
		check_report(check, CHECK_WRONG, true, "record %s cannot be read",
			     check_key_text(key, text));
		check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
		return check->error;
	}
	inode = check_inode_find(check, ino);
	if (inode == NULL || inode->nlink > 0) {
		check_report(check, CHECK_WRONG, true,
			     "session %" PRIu64 " keeps inode %" PRIu64 " as deleted, which %s",
			     mount, ino, inode == NULL ? "does not exist" : "has a name");
		check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
		return check->error;
	}
	inode->orphan = true;
	if (session_exists(check, mount)) {
		check->result->orphans++;
		if (!check->alone)
			return 0;
	} else {
		check_report(check, CHECK_LEAK, true,
			     "inode %" PRIu64 " is kept for session %" PRIu64
			     ", which does not exist",
			     ino, mount);
	}
	check_fix_add(check, FIX_DELETE_INODE, ino, mount);
	check_fix_key(check, FIX_DELETE_KEY, key, 0, 0);
	return check->error;
}

int check_sessions(struct check *check)
{
	int error = check_scan(check, RECORD_MOUNT, visit_session);

	if (error == 0)
		error = check_scan(check, RECORD_ORPHAN, visit_orphan);
	check->result->sessions = check->session_count;
	for (size_t i = 0; i < check->inode_count && error == 0; i++) {
		const struct check_inode *inode = &check->inodes[i];

		if (inode->nlink > 0 || inode->orphan || inode->names > 0)
			continue;
		check_report(check, CHECK_LEAK, true,
			     "inode %" PRIu64 " has no name, and no session keeps it", inode->ino);
		check_fix_add(check, FIX_DELETE_INODE, inode->ino, 0);
		error = check->error;
	}
	return error;
}

/* A mount that was killed leaves its session and its deleted open files to the next one. */
void check_note_sessions(struct check *check)
{
	char holder[256];

	store_holder(check->options->store, holder, sizeof(holder));
	if (check->session_count == 0 || holder[0] != '\0')
		return;
	check_report(check, CHECK_NOTE, true,
		     "%zu mount sessions ended without unmounting; %" PRIu64
		     " deleted files of theirs go with the next mount",
		     check->session_count, check->result->orphans);
}
