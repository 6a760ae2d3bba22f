"""The Spark session: Java, memory, scratch space, the library for the executors. Imports no other part of `spark`."""
