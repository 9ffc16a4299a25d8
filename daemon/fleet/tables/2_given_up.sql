-- Who said that the taker of an order will not come back, with the host, its take, a note and the moment. The order counts as declined.
alter table runward.orders add column given_up jsonb
    check (octet_length(given_up::text) <= 65536 and (given_up is null or state = 'declined'));
