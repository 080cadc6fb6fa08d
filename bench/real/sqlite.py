# SPDX-License-Identifier: MIT
#
# sqlite.py: the sqlite3 shell runs a script on a database in memory: inserts, indexes, joins, groups, text, updates,
# deletes, views with recursion. One process, one thread. One operation is one statement. Checksum: what the script
# prints.
"""sqlite3 on a database in memory."""

from __future__ import annotations

from driver import arguments, program, report, run, scaled

CUSTOMERS = 30_000
ORDERS = 200_000


def tables(customers: int, orders: int) -> list[str]:
    """Rows made by the database itself, from a generator of numbers that is part of the script."""
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {})"
    return [
        "create table customer(id integer primary key, name text, city text, born integer);",
        "create table purchase(id integer primary key, customer integer, amount real, item text, note text);",
        f"{numbers.format(customers)} insert into customer "
        "select i, 'name' || (i * 7919 % 10007), 'city' || (i * 31 % 97), 1930 + i % 80 from n;",
        f"{numbers.format(orders)} insert into purchase "
        f"select i, i * 7907 % {customers} + 1, (i * 37 % 10000) / 100.0, 'item' || (i * 13 % 499), "
        "printf('%0*d', 5 + i % 60, i) from n;",
        "create index purchase_customer on purchase(customer);",
        "create index purchase_item on purchase(item, amount);",
        "create index customer_name on customer(name);",
    ]


def questions(customers: int) -> list[str]:
    """Queries that sort, group, join and build text."""
    asked = [
        "select count(*), round(sum(amount), 2), max(note) from purchase;",
        "select city, count(*), round(avg(amount), 3) from customer join purchase on customer = customer.id "
        "group by city order by 3 desc, 1 limit 20;",
        "select item, group_concat(id, ' ') from (select item, id from purchase order by note desc limit 3000) "
        "group by item order by item limit 40;",
        "select name, count(*) from customer group by name having count(*) > 1 order by 2 desc, name limit 30;",
        "select substr(note, -3), count(distinct customer) from purchase group by 1 order by 2 desc, 1 limit 20;",
        "select a.id, b.id from customer a join customer b on a.name = b.name and a.id < b.id order by 1, 2 limit 50;",
        "select upper(replace(note, '0', 'oh')) || item from purchase where note like '%77%' order by 1 limit 25;",
        "with t as (select customer, amount, row_number() over (partition by customer order by amount desc, id) as r "
        "from purchase) select customer, amount from t where r = 2 order by amount desc, customer limit 30;",
    ]
    asked += [
        f"select id, amount, item from purchase where customer = {i * 97 % customers + 1} order by amount desc, id;"
        for i in range(customers // 10)
    ]
    return asked


def changes(customers: int) -> list[str]:
    """Statements one by one, in one transaction."""
    made = ["begin;"]
    for i in range(customers // 10):
        made.append(f"update purchase set amount = amount + 1, note = note || 'x{i}' where customer = {i * 89 + 1};")
        made.append(f"delete from purchase where id = {i * 41 + 7};")
        note = "z" * (i % 40)
        made.append(f"insert into purchase values(null, {i + 1}, {i % 100}.25, 'new{i % 77}', hex('{note}'));")
    return [*made, "commit;", "delete from purchase where amount > 80;", "vacuum;"]


def main() -> None:
    """Writes the script and runs it."""
    options = arguments(__doc__)
    shell = program("sqlite3", "sqlite3")
    customers, orders = scaled(CUSTOMERS, options.shrink), scaled(ORDERS, options.shrink)
    asked = questions(customers)
    script = [*tables(customers, orders), *asked, *changes(customers), *asked]
    used = run([shell, "-batch", "-bail", ":memory:"], input_text="\n".join(script) + "\n")
    report(ops=len(script), used=used, checksum=used.stdout_digest())


if __name__ == "__main__":
    main()
