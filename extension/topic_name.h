/*
 * topic_name.h: which names a topic may have (Kafka's rules).  Pure C, any thread.
 *
 * The same sentence reaches SQL and Kafka clients (INVALID_TOPIC_EXCEPTION).  Two names collide when they
 * differ only by '.' and '_', because metrics write both as '_'.
 */
#ifndef EXTENSION_TOPIC_NAME_H
#define EXTENSION_TOPIC_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define TOPIC_NAME_MAX 249

/* false: `why` says what is wrong. */
bool topic_name_check(const char *name, char *why, size_t size) __attribute__((warn_unused_result));
/* The name in metrics form; out has at least strlen(name) + 1 bytes. */
void topic_name_fold(const char *name, char *out);

#endif
