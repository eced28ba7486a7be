"""Format of a store: names, types, schema, manifest, fingerprints and codecs."""
