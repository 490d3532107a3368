#include "brokerd/base/err.h"

#include <stdio.h>

bool
err_set(Err *err, int16_t code, int sys, const char *fmt, ...)
{
	if (err != NULL)
	{
		va_list ap;

		err->code = code;
		err->sys = sys;
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
	}
	return false;
}
