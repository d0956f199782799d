package servers

import (
	"context"
	"fmt"
	"os"
)

// childVariable makes this test binary start a server of the kind that it names and wait to be killed.
const childVariable = "FIRSTTIME_TEST_SERVERS_CHILD"

func serveUntilKilled() int {
	s, err := Start(context.Background(), Kind(os.Getenv(childVariable)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("serving in", s.dir)
	select {}
}
