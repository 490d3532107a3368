/* utf8.h: is this UTF-8 as PostgreSQL takes it?  No overlong forms, no surrogates, nothing over U+10FFFF. */
#ifndef WIRE_UTF8_H
#define WIRE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool utf8_valid(const uint8_t *p, size_t len);

#endif
