/* Frames out of pieces: every split of a stream gives the same frames, and memory follows what came. */
#include "regress/unit/tap.h"
#include "wire/frame_in.h"

#include <stdlib.h>

static const uint8_t stream[] = "\0\0\0\5hello\0\0\0\1!\0\0\0\14twelve bytes\0\0\0\2ok";
static const char *const frames[] = {"hello", "!", "twelve bytes", "ok"};

/* Gives `len` bytes as the room allows, at most `both` stretches and `most` bytes at once; how many frames came right. */
static int
feed(FrameIn *in, const uint8_t *bytes, size_t len, size_t most, bool both, const char **why)
{
	int n = 0;

	*why = NULL;
	for (size_t at = 0; at < len && *why == NULL;)
	{
		struct iovec iov[2];
		size_t left = len - at < most ? len - at : most, took = 0;
		Frame *f;

		frame_in_room(in, iov);
		if (iov[0].iov_len == 0)
			return -1;
		for (int i = 0; i < (both ? 2 : 1); i++)
		{
			size_t some = iov[i].iov_len < left - took ? iov[i].iov_len : left - took;

			if (some > 0)
				memcpy(iov[i].iov_base, bytes + at + took, some);
			took += some;
		}
		at += took;
		*why = frame_in_took(in, took, &f);
		if (f == NULL)
			continue;
		if (n < 4 && f->len == strlen(frames[n]) && memcmp(f->data, frames[n], f->len) == 0)
			n++;
		frame_unref(f);
	}
	return n;
}

static void
test_splits(void)
{
	int wrong = 0;
	const char *why;

	for (size_t most = 1; most < sizeof(stream); most++)
		for (size_t first = 1; first <= 16; first++)
			for (int both = 0; both < 2; both++)
			{
				FrameIn in;

				frame_in_init(&in, 100, first);
				wrong += feed(&in, stream, sizeof(stream) - 1, most, both, &why) != 4 || why != NULL;
				frame_in_free(&in);
			}
	is_int(wrong, 0, "the same frames, in whichever pieces they come");
}

static void
test_sizes(void)
{
	static const struct
	{
		const char *name, *bytes;
		int frames;
	} bad[] = {{"one byte too many", "\0\0\0\2ok\0\0\0\145", 0},
			   {"no byte", "\0\0\0\5hello\0\0\0\0", 1},
			   {"a negative size", "\0\0\0\5hello\377\377\377\377", 1}};
	const char *why;
	FrameIn in;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		frame_in_init(&in, 100, 64);
		is_int(feed(&in, (const uint8_t *) bad[i].bytes, i == 0 ? 10 : 13, 100, true, &why), bad[i].frames,
			   "%s: what came before is there", bad[i].name);
		ok(why != NULL, "%s: %s", bad[i].name, why == NULL ? "no error" : why);
		frame_in_free(&in);
	}
}

/* A size of 1 GB costs what was taken at first, until more than that has come. */
static void
test_claims(void)
{
	static const uint8_t much[64];
	const char *why;
	FrameIn in;

	frame_in_init(&in, 1 << 30, 64);
	(void) feed(&in, (const uint8_t *) "\100\0\0\0", 4, 4, true, &why);
	ok(why == NULL && in.size == 1 << 30 && in.cap == 64, "a size that is claimed costs little");
	(void) feed(&in, much, 63, 100, true, &why);
	ok(in.cap == 64, "while not all of that has come");
	(void) feed(&in, much, 64, 100, true, &why);
	ok(why == NULL && in.cap == 128 && in.frame->len == 127, "then it doubles");
	frame_in_free(&in);
}

static void
test_references(void)
{
	const uint8_t bytes[] = "\0\0\0\2ok";
	FrameIn in;
	struct iovec iov[2];
	Frame *f = NULL;

	frame_in_init(&in, 100, 100);
	frame_in_room(&in, iov);
	memcpy(iov[0].iov_base, bytes, 4);
	ok(frame_in_took(&in, 4, &f) == NULL && f == NULL, "its size");
	frame_in_room(&in, iov);
	memcpy(iov[0].iov_base, bytes + 4, 2);
	ok(frame_in_took(&in, 2, &f) == NULL && f != NULL, "and its bytes");
	frame_ref(f);
	frame_in_free(&in);
	frame_unref(f);
	ok(f->len == 2 && memcmp(f->data, "ok", 2) == 0, "a frame outlives its stream, while somebody holds it");
	frame_unref(f);
	frame_unref(NULL);
}

int
main(void)
{
	test_splits();
	test_sizes();
	test_claims();
	test_references();
	return tap_done();
}
