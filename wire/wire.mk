# The generated part of wire/: C structs and field tables from wire/schema.
