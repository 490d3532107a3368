/*
 * client_generation.c: what libpgbroker does not tell, to load beside it: the generation in which its member of a group is, -1 = in
 * none.  Built with the headers of the library that it looks into.
 */
#include "client/consumer.h"

int32_t client_generation(const pgb_consumer *c);

int32_t
client_generation(const pgb_consumer *c)
{
	return c->generation;
}
