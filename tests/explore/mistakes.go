package explore

// mistake is one that a store, a dialect or a wrapper could have, "" for none. The explorer has to find every one.
type mistake string

const (
	confirmWithoutTheToken       mistake = "confirm without the token"
	confirmInItsOwnTransaction   mistake = "confirm in its own transaction instead of the caller's"
	confirmOnlyOnce              mistake = "confirm that does not succeed twice"
	confirmTwiceInTransactions   mistake = "confirm in a transaction that succeeds twice"
	forgetWithoutTheToken        mistake = "forget without the token"
	forgetOfTheConfirmed         mistake = "forget of confirmed keys"
	extendWithoutTheToken        mistake = "extend without the token"
	takeoverWithoutTheState      mistake = "takeover without the state"
	takeoverWithoutTheLease      mistake = "takeover without the lease"
	takeoverOfWhatWasRead        mistake = "takeover that only looked before"
	inProgressIsDuplicate        mistake = "in progress answered as duplicate"
	claimInsideTheTransaction    mistake = "claim inside the handler's transaction"
	localClock                   mistake = "the application's clock"
	noCheckOfTheOwnToken         mistake = "no check of the own token"
	purgeOfLiveClaims            mistake = "purge of live claims"
	cleanUpInTheDeliverysContext mistake = "clean-up in the delivery's context"
)
