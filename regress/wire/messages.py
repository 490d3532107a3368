#!/usr/bin/env python3
"""Prints "NAME MIN MAX KEY" of every message in wire/schema (KEY -1: no request), what the vector programs read."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir))
from wire.schema import schema      # noqa: E402

NOT_GENERATED = ('StickyAssignorUserData',)     # Kafka's client writes it by hand, so there is no class of it

for api in schema.load().values():
    if api.name in NOT_GENERATED:
        continue
    for m in (api.request, api.response, api.data):
        if m is not None:
            print(m.name, *m.versions, -1 if api.key is None else api.key)
