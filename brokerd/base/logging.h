/*
 * logging.h: brokerd's log lines, one a line on stderr:
 *
 *     2026-11-29 23:59:01.123 UTC INFO  storage: orders-0 recovered, 12 batches cut at offset 4711
 *
 * Any thread may call it.  A line is formatted into a fixed buffer and written with one write(2) by the
 * caller when `log_start_writer` has not been called (tests, start-up); afterwards it goes to a bounded
 * ring that one thread drains, and a line that finds the ring full is dropped and counted, so that a
 * blocked stderr never blocks the loop.
 */
#ifndef BROKERD_BASE_LOGGING_H
#define BROKERD_BASE_LOGGING_H

#include <stdbool.h>
#include <stdint.h>

typedef enum LogLevel
{
	LOG_DEBUG,
	LOG_INFO,
	LOG_WARNING,
	LOG_ERROR,
	LOG_FATAL
} LogLevel;

/* `subsystem` is a folder of brokerd: "storage", "net", "meta".  The message has no newline. */
void log_msg(LogLevel level, const char *subsystem, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void log_set_level(LogLevel least);
bool log_start_writer(void);
void log_stop_writer(void); /* drains the ring */
uint64_t log_dropped(void);

#endif
