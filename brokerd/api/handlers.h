/* handlers.h: the handlers of handlers.def, and what they share with the dispatcher. */
#ifndef BROKERD_API_HANDLERS_H
#define BROKERD_API_HANDLERS_H

#include "brokerd/api/api.h"

#define API_HANDLER(key, handler) void handler(ApiCall *call);
#include "brokerd/api/handlers.def"
#undef API_HANDLER

/* An ApiVersions request of a version that we do not know: answered in the v0 form, so the client steps down. */
void api_versions_downgrade(ApiCall *call);

#endif
