/*
 * dial.h: connections to brokers.
 *
 * A list of addresses is "host:port,host:port"; "[::1]:9092" and a host alone (port 9092) are understood.
 */
#ifndef BENCH_LOAD_DIAL_H
#define BENCH_LOAD_DIAL_H

/*
 * A connected socket (blocking, TCP_NODELAY) to the first address of the list that takes a connection within
 * 5 s.  Ends the program, naming the last trouble, when none does.
 */
int dial_any(const char *list);

/* The same for one host and port. */
int dial_host(const char *host, int port);
void dial_close(int fd);

#endif
