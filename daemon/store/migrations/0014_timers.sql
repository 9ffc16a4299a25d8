-- Jobs that are due later: the next one is found by its time, and what waits costs nothing until then.
create index jobs_due on jobs (run_after) where state in ('waiting', 'held');

-- An order with a timeout is the daemon's own: the run went on after its time, and its processes are killed.
alter table cancellations add column timeout real;
