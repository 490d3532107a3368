#include "wire/frame_in.h"

#include <stdlib.h>

#include "wire/bytes.h"

void
frame_ref(Frame *f)
{
	f->refs++;
}

void
frame_unref(Frame *f)
{
	if (f != NULL && --f->refs == 0)
		free(f);
}

void
frame_in_init(FrameIn *in, size_t most, size_t first)
{
	*in = (FrameIn){.most = most, .first = first};
}

void
frame_in_free(FrameIn *in)
{
	frame_unref(in->frame);
	in->frame = NULL;
}

void
frame_in_room(FrameIn *in, struct iovec iov[2])
{
	struct iovec head = {in->head + in->head_got, sizeof(in->head) - in->head_got};

	if (in->frame == NULL)
	{
		iov[0] = head;
		iov[1] = (struct iovec){NULL, 0};
		return;
	}
	iov[0] = (struct iovec){in->frame->data + in->frame->len, in->cap - in->frame->len};
	iov[1] = in->cap == in->size ? head : (struct iovec){NULL, 0};
}

/* For a frame whose head is there, or to double what was taken for one. */
static const char *
make_room(FrameIn *in)
{
	size_t cap = in->frame == NULL ? in->first : in->cap * 2;
	Frame *f;

	if (in->frame == NULL)
	{
		in->size = get_be32(in->head);
		in->head_got = 0;
	}
	if (in->size == 0 || in->size > in->most)
		return "is of a size that none can have";
	in->cap = cap < in->size ? cap : in->size;
	f = realloc(in->frame, sizeof(*f) + in->cap);
	if (f == NULL)
		return "needs more memory than there is";
	if (in->frame == NULL)
		*f = (Frame){.refs = 1};
	in->frame = f;
	return NULL;
}

const char *
frame_in_took(FrameIn *in, size_t n, Frame **whole)
{
	size_t room = in->frame == NULL ? 0 : in->cap - in->frame->len, body = n < room ? n : room;

	*whole = NULL;
	in->head_got += n - body;
	if (in->frame != NULL)
	{
		in->frame->len += body;
		if (in->frame->len < in->cap)
			return NULL;
		if (in->cap < in->size)
			return make_room(in);
		*whole = in->frame;
		in->frame = NULL;
	}
	return in->head_got == sizeof(in->head) ? make_room(in) : NULL;
}
