# The generated part of wire/: C structs and field tables from wire/schema.

WIRE_GEN_HEADERS = $(BUILD)/gen/wire/messages.h
GEN_SRCS_wire = $(BUILD)/gen/wire/messages.c

# One run of the generator writes both files.
$(BUILD)/gen/wire/messages.h: $(wildcard wire/schema/*.api) wire/schema/generate.py wire/schema/schema.py
	@echo "  GEN   wire/messages"
	@PYTHONDONTWRITEBYTECODE=1 python3 wire/schema/generate.py $(@D)
$(BUILD)/gen/wire/messages.c: $(BUILD)/gen/wire/messages.h

# The golden vectors of regress/wire/vectors, made anew by Kafka's and franz-go's own message classes.  They
# are committed, so only who adds an API or a version needs Maven, a JDK and Go for this.
VECTORS = regress/wire/vectors
VECTORS_BUILD = $(abspath $(BUILD))/vectors

## vectors: make the golden vectors of the protocol anew (needs Maven, a JDK, Go)
vectors:
	@mkdir -p $(VECTORS_BUILD)
	@mvn -q -B -f regress/wire/java -Dvectors.build=$(VECTORS_BUILD) -DoutputDirectory=$(VECTORS_BUILD)/lib \
		compile dependency:copy-dependencies
	@python3 regress/wire/messages.py > $(VECTORS_BUILD)/messages
	@java -cp '$(VECTORS_BUILD)/classes:$(VECTORS_BUILD)/lib/*' Vectors < $(VECTORS_BUILD)/messages > $(VECTORS_BUILD)/java.txt
	@cd regress/wire/go && go run . < $(VECTORS_BUILD)/messages > $(VECTORS_BUILD)/go.txt
	@for f in java go; do gzip -9n < $(VECTORS_BUILD)/$$f.txt > $(VECTORS)/$$f.txt.gz || exit 1; done
	@ls -l $(VECTORS)

.PHONY: vectors
