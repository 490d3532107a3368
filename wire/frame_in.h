/*
 * frame_in.h: whole frames out of what a socket gives in pieces, for who waits for answers.
 *
 *     bytes     | size | frame . . . . . . . . . . | size | frame . .
 *     iov                    [0] ^ rest of it      [1] ^ and what says how long the next one is
 *
 *     frame_in_room(&in, iov);
 *     n = readv(fd, iov, 2);                         or recv into iov[0], which is never empty
 *     why = frame_in_took(&in, n, &frame);           not NULL: what comes next cannot be had, `why` is half a sentence
 *
 * A frame belongs to who gets it, until frame_unref.  Its memory grows with what came, from `first` bytes on: a size that lies
 * costs whoever sent it as many bytes as us.
 */
#ifndef WIRE_FRAME_IN_H
#define WIRE_FRAME_IN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* What came in one piece, without its size. */
typedef struct Frame
{
	int refs;
	size_t len;
	uint8_t data[];
} Frame;

void frame_ref(Frame *f);
void frame_unref(Frame *f); /* NULL is fine */

typedef struct FrameIn
{
	size_t most, first; /* bytes that a frame may have, and that are taken for one at first */
	uint8_t head[4];
	size_t head_got;
	Frame *frame; /* in the making; NULL: its head is */
	size_t size;  /* that it will have */
	size_t cap;
} FrameIn;

void frame_in_init(FrameIn *in, size_t most, size_t first);
void frame_in_free(FrameIn *in);
void frame_in_room(FrameIn *in, struct iovec iov[2]);

/* `n` bytes were put there.  *whole: a frame that is complete with them, else NULL; it is good also with an error behind it. */
const char *frame_in_took(FrameIn *in, size_t n, Frame **whole) __attribute__((warn_unused_result));

#endif
