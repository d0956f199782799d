package explore

import "testing"

func scenarios() []scenario {
	messages := []string{"k1", "k1", "k2"}
	return []scenario{
		{name: "consumer.InTx", handler: inTx, messages: messages},
		{name: "ConfirmTx", handler: claims, messages: messages, plain: true, readsTaken: true},
		{name: "work outside of the transaction", handler: outsideTx, messages: messages, outside: true},
		{name: "FirstTime, Confirm, Forget", handler: smallContract, messages: messages, outside: true, small: true},
		{name: "consumer.InTx with heartbeats", handler: inTxWithHeartbeat, messages: messages, beats: true},
	}
}

func TestEveryScheduleKeepsTheRules(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			e := &explorer{scenario: sc, faults: *faults}
			found := e.explore(t)
			if found != nil {
				t.Errorf("a schedule breaks a rule:\n%v", found)
			}
			record(e, found)
			t.Logf("%d faults: %d schedules, %d states, %d ends, the longest after %d steps",
				e.faults, e.schedules, len(e.visited), e.ends, e.longest)
		})
	}
}
