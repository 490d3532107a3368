/* dial.c: see dial.h. */
#include "bench/load/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/load/options.h"

enum
{
	CONNECT_MS = 5000,
	ADDRESS_MAX = 300
};

static bool
wait_connected(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(errno);
	int error = 0;

	if (poll(&pfd, 1, CONNECT_MS) != 1)
	{
		errno = ETIMEDOUT;
		return false;
	}
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	errno = error;
	return error == 0;
}

static bool
connect_to(int fd, const struct addrinfo *ai)
{
	int flags = fcntl(fd, F_GETFL);
	int one = 1;

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) != 0 && (errno != EINPROGRESS || !wait_connected(fd)))
		return false;
	fcntl(fd, F_SETFL, flags);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return true;
}

/* -1: `why` says it. */
static int
dial(const char *host, const char *port, char *why, size_t size)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int e = getaddrinfo(host, port, &hints, &found);
	int fd = -1;

	if (e != 0)
	{
		snprintf(why, size, "%s:%s: %s", host, port, gai_strerror(e));
		return -1;
	}
	for (const struct addrinfo *ai = found; ai != NULL && fd < 0; ai = ai->ai_next)
	{
		fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect_to(fd, ai))
		{
			int saved = errno;

			close(fd);
			errno = saved;
			fd = -1;
		}
	}
	if (fd < 0)
		snprintf(why, size, "%s:%s: %s", host, port, strerror(errno));
	freeaddrinfo(found);
	return fd;
}

/* Split "host:port" in place. */
static const char *
split_port(char *address, char **host)
{
	char *colon = strrchr(address, ':');

	*host = address;
	if (address[0] == '[' && strchr(address, ']') != NULL)
	{
		*host = address + 1;
		*strchr(address, ']') = '\0';
		return colon > address + strlen(*host) ? colon + 1 : "9092";
	}
	if (colon == NULL)
		return "9092";
	*colon = '\0';
	return colon + 1;
}

int
dial_any(const char *list)
{
	char why[ADDRESS_MAX + 200] = "the list is empty";

	while (*list != '\0')
	{
		size_t len = strcspn(list, ",");
		char address[ADDRESS_MAX];
		char *host;
		const char *port;
		int fd;

		if (len >= sizeof(address))
			die_usage("an address of --bootstrap is too long");
		memcpy(address, list, len);
		address[len] = '\0';
		port = split_port(address, &host);
		fd = dial(host, port, why, sizeof(why));
		if (fd >= 0)
			return fd;
		list += len + (list[len] == ',');
	}
	die("no broker takes a connection: %s", why);
}

int
dial_host(const char *host, int port)
{
	char text[16], why[ADDRESS_MAX + 200];
	int fd;

	snprintf(text, sizeof(text), "%d", port);
	fd = dial(host, text, why, sizeof(why));
	if (fd < 0)
		die("no broker takes a connection: %s", why);
	return fd;
}

void
dial_close(int fd)
{
	close(fd);
}
