package explore

import "testing"

// An explorer that finds nothing proves nothing unless it finds what is there: each mistake, with as many
// faults as it takes, breaks the rule that is there against it.
func TestEveryMistakeIsFound(t *testing.T) {
	const (
		inTx      = "consumer.InTx"
		confirmTx = "ConfirmTx"
		outside   = "work outside of the transaction"
		heartbeat = "consumer.InTx with heartbeats"
	)
	for _, m := range []struct {
		mistake  mistake
		scenario string
		faults   int
		rule     string
	}{
		{confirmWithoutTheToken, inTx, 1, fenced},
		{confirmInItsOwnTransaction, inTx, 0, settledMeansDone},
		{confirmOnlyOnce, outside, 1, confirmsTwice},
		{confirmTwiceInTransactions, confirmTx, 1, oneEffect},
		{forgetWithoutTheToken, inTx, 1, forgetsItsOwn},
		{forgetOfTheConfirmed, inTx, 1, confirmedStays},
		{extendWithoutTheToken, heartbeat, 2, oneLiveClaim},
		{takeoverWithoutTheState, inTx, 1, confirmedStays},
		{takeoverWithoutTheLease, heartbeat, 2, oneLiveClaim},
		{takeoverOfWhatWasRead, inTx, 1, oneLiveClaim},
		{inProgressIsDuplicate, inTx, 0, settledMeansDone},
		{claimInsideTheTransaction, inTx, 0, claimsFirst},
		{localClock, inTx, 0, oneLiveClaim},
		{noCheckOfTheOwnToken, outside, 1, foundAgain},
		{purgeOfLiveClaims, inTx, 1, oneLiveClaim},
		{cleanUpInTheDeliverysContext, inTx, 1, nothingLeftBehind},
	} {
		t.Run(string(m.mistake), func(t *testing.T) {
			t.Parallel()
			sc := named(m.scenario)
			sc.mistake = m.mistake
			e := &explorer{scenario: sc, faults: m.faults}
			switch c := e.explore(t); {
			case c == nil:
				t.Errorf("none of %d schedules with %d faults shows it", e.schedules, m.faults)
			case c.violation.rule != m.rule:
				t.Errorf("it breaks another rule than %q: %v", m.rule, c)
			default:
				t.Logf("found in schedule %d, with %d faults at most: %v", e.schedules, m.faults, c)
			}
		})
	}
}

func named(name string) scenario {
	for _, sc := range scenarios() {
		if sc.name == name {
			return sc
		}
	}
	panic("no scenario " + name)
}
