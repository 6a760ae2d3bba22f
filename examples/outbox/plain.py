"""The expected content of the tables of `orders`, as SQL on the outbox, and the SQL that reads the tables."""

#: By table: the query on the outbox, and the query on the table.
QUESTIONS = {
    "events": (
        "SELECT id, op, customer, cents FROM public.outbox ORDER BY id",
        "SELECT id, op, customer, cents FROM public.events ORDER BY id",
    ),
    "spent": (
        "SELECT customer, count(*), sum(CASE op WHEN 'cancelled' THEN -cents ELSE cents END)::bigint "
        "FROM public.outbox GROUP BY customer ORDER BY customer",
        "SELECT customer, events, cents FROM public.spent ORDER BY customer",
    ),
}
