"""The store on PostgreSQL: tables, migrations, and one transaction for each step of the protocol.

May import `ports` and `protocol`. Read `tables` and `transaction` first.
"""
