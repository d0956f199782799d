package tests

// childRole names the variable that turns this test binary into a worker process of a test.
const childRole = "FIRSTTIME_TEST_CHILD"

func runChild() int { return 2 }
