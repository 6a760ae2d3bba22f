"""The Spark session: Java, memory, scratch space, and the library that travels to the executors. Imports no other room of `spark`."""
