/* version.h: brokerd's version; the extension of the same version is its best partner. */
#ifndef BROKERD_VERSION_H
#define BROKERD_VERSION_H

#define BROKERD_VERSION "1.0"

#endif
