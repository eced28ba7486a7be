"""Write shards and publish the manifest of a store."""
