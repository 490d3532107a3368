# The generated part of wire/: C structs and field tables from wire/schema.

WIRE_GEN_HEADERS = $(BUILD)/gen/wire/messages.h
GEN_SRCS_wire = $(BUILD)/gen/wire/messages.c

# One run of the generator writes both files.
$(BUILD)/gen/wire/messages.h: $(wildcard wire/schema/*.api) wire/schema/generate.py wire/schema/schema.py
	@echo "  GEN   wire/messages"
	@PYTHONDONTWRITEBYTECODE=1 python3 wire/schema/generate.py $(@D)
$(BUILD)/gen/wire/messages.c: $(BUILD)/gen/wire/messages.h
