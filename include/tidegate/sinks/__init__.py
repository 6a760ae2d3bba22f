"""Transactional outputs behind the `Sink` port: staged while a checkpoint is taken, visible once it has completed.

May import `ports`, `protocol`, settings and the storage of `state`.
"""
