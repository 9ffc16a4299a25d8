-- The last take that its taker has begun, as it says.
alter table runward.orders add column begun_take integer;
-- Whether the program of this host says when a step begins. What others take counts as begun, and so does what was taken earlier.
alter table runward.hosts add column says_begun boolean not null default false;
update runward.orders set begun_take = takes where state = 'taken';
