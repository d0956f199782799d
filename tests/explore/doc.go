// Package explore runs the real store and the real consumer through every order in which the steps of three
// workers can follow each other, with everything that can go wrong between two of them: crashes, lost requests
// and replies, statements that arrive late, retryable errors, time-outs, shutdowns, leases and retentions that
// end, purges.
//
// What is not real is the database, a table in memory in which every statement is one atomic step, with
// transactions and their locks, and the broker. database/sql is in between, with a driver of ours. Each schedule
// runs in a bubble of testing/synctest, whose clock stands still while anything runs.
//
// A scenario is explored completely for a number of faults: the search goes depth first over all choices,
// running each schedule from the start, and ends a schedule in a state that has been visited with as many faults
// left. A state is what the table, the queue and the rules hold and what every delivery has seen so far. Two
// reductions leave out orders that nobody can tell apart: steps that no other worker can see (BEGIN, the work
// itself) are taken at once, and so are those of a worker whose key concerns nobody else, except that time may
// pass between them. Idle workers are alike.
//
// Bounds: at most -explore.faults faults in a schedule, and a step waits for a lock until its time limit at most
// once more often than there are replies that never come.
package explore
