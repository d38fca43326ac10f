/* SPDX-License-Identifier: Apache-2.0 */
/* The list of dirty inodes. */
#include <assert.h>

#include "fs/inode_table.h"

/* Table lock held. */
static void dirty_append(struct inode_table *table, struct inode *inode)
{
	inode->dirty_next = NULL;
	inode->dirty_prev = table->dirty_tail;
	if (table->dirty_tail != NULL)
		table->dirty_tail->dirty_next = inode;
	else
		table->dirty_head = inode;
	table->dirty_tail = inode;
	table->dirty_count++;
}

/* Table lock held. */
static void dirty_remove(struct inode_table *table, struct inode *inode)
{
	if (inode->dirty_prev != NULL)
		inode->dirty_prev->dirty_next = inode->dirty_next;
	else
		table->dirty_head = inode->dirty_next;
	if (inode->dirty_next != NULL)
		inode->dirty_next->dirty_prev = inode->dirty_prev;
	else
		table->dirty_tail = inode->dirty_prev;
	inode->dirty_next = inode->dirty_prev = NULL;
	table->dirty_count--;
}

void inode_mark_dirty(struct volume *volume, struct inode *inode, unsigned what)
{
	struct inode_table *table = volume->inodes;
	bool first = inode->dirty == 0;

	/* Nothing of a file without a name is wanted after a crash. */
	if (inode->attr.nlink == 0)
		return;
	inode->dirty |= what;
	if (!first || what == 0)
		return;
	pthread_mutex_lock(&table->lock);
	inode->refs++;
	dirty_append(table, inode);
	pthread_mutex_unlock(&table->lock);
}

void inode_mark_clean(struct inode *inode)
{
	struct inode_table *table = inode->volume->inodes;

	if (inode->dirty == 0)
		return;
	inode->dirty = 0;
	pthread_mutex_lock(&table->lock);
	dirty_remove(table, inode);
	inode->refs--;
	assert(inode->refs > 0); /* whoever holds the lock holds a reference */
	pthread_mutex_unlock(&table->lock);
}

/* The first of the dirty list, which becomes the last of it, with a reference. */
static struct inode *dirty_next(struct inode_table *table)
{
	struct inode *inode;

	pthread_mutex_lock(&table->lock);
	inode = table->dirty_head;
	if (inode != NULL) {
		dirty_remove(table, inode);
		dirty_append(table, inode);
		inode->refs++;
	}
	pthread_mutex_unlock(&table->lock);
	return inode;
}

int inode_flush_all(struct volume *volume)
{
	struct inode_table *table = volume->inodes;
	int first_error = 0;
	size_t count;

	/* One turn around the list: what cannot be flushed stays on it. */
	pthread_mutex_lock(&table->lock);
	count = table->dirty_count;
	pthread_mutex_unlock(&table->lock);
	while (count-- > 0) {
		struct inode *inode = dirty_next(table);
		int error;

		if (inode == NULL)
			break;
		error = inode_flush(volume, inode);
		if (first_error == 0)
			first_error = error;
		inode_unref(volume, inode, 1);
	}
	return first_error;
}
