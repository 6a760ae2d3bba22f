"""The store on PostgreSQL: tables, migrations, one transaction per protocol step."""
