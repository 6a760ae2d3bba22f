"""What the tables of `orders` must hold, as plain SQL asks the outbox, and how the tables themselves are asked."""

#: By table: what the outbox says, and what the table says.
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
