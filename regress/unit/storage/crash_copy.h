/*
 * crash_copy.h: a data directory as a process that is killed now leaves it.
 */
#ifndef REGRESS_UNIT_STORAGE_CRASH_COPY_H
#define REGRESS_UNIT_STORAGE_CRASH_COPY_H

#include "regress/unit/storage/harness.h"

static void
copy_file(const char *from, const char *to, off_t limit)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	char buf[65536];
	ssize_t n;

	while (limit > 0 && (n = read(in, buf, sizeof(buf) < (size_t) limit ? sizeof(buf) : (size_t) limit)) > 0)
	{
		if (write(out, buf, (size_t) n) != n)
			abort();
		limit -= n;
	}
	close(in);
	close(out);
}

static void
copy_dir(const char *from, const char *to)
{
	DIR *dh = opendir(from);
	struct dirent *e;
	char a[600], b[600];

	/* A folder that the deleter removes meanwhile is gone. */
	if (dh == NULL)
		return;
	mkdir(to, 0755);
	while ((e = readdir(dh)) != NULL)
	{
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(a, sizeof(a), "%s/%s", from, e->d_name);
		snprintf(b, sizeof(b), "%s/%s", to, e->d_name);
		if (e->d_type == DT_DIR)
			copy_dir(a, b);
		else
			copy_file(a, b, INT64_MAX);
	}
	closedir(dh);
}

__attribute__((unused)) static void
crash_copy(const Harness *live, Harness *copy, const char *name)
{
	harness_init(copy, name);
	copy_dir(live->dir, copy->dir);
	copy->config = live->config;
}

#endif
