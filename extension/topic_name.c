#include "topic_name.h"

#include <stdio.h>
#include <string.h>

bool
topic_name_check(const char *name, char *why, size_t size)
{
	static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);

	if (len == 0)
		snprintf(why, size, "topic name is invalid: it is empty");
	else if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		snprintf(why, size, "topic name is invalid: '%s' is not allowed", name);
	else if (len > TOPIC_NAME_MAX)
		snprintf(why, size, "topic name is invalid: it has %zu characters, at most %d are allowed", len,
				 TOPIC_NAME_MAX);
	else if (strspn(name, legal) != len)
		snprintf(
			why, size,
			"topic name is invalid: '%s' has characters other than ASCII letters, digits, '.', '_' and '-'",
			name);
	else
		return true;
	return false;
}

void
topic_name_fold(const char *name, char *out)
{
	size_t i;

	for (i = 0; name[i] != '\0'; i++)
		out[i] = name[i] == '.' ? '_' : name[i];
	out[i] = '\0';
}
