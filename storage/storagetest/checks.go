package storagetest

// check is one part of the suite, with the sentence of the contract that it checks.
type check struct {
	name     string
	sentence string
	test     func(*suite)
}

func checks() []check {
	return append(append(append(writeChecks(), listChecks()...), watchChecks()...), optionalChecks()...)
}

func writeChecks() []check {
	return []check{
		{"Fresh", "Revisions are positive: a store nobody has written to is already at one.", testFresh},
		{"Create", "Create writes a key that has no record, or fails with ErrExists.", testCreate},
		{"Update", "Update replaces the record whose revision is expected. It fails with ErrConflict when the record has another revision, with ErrNotFound when there is none.", testUpdate},
		{"Delete", "Delete removes the record whose revision is expected, failing as Update does. The deletion has a revision of its own, which is returned.", testDelete},
		{"RefusedWritesChangeNothing", "Errors are those of the package, and a write that fails with one of them did not happen.", testRefused},
		{"KeysAndValues", "A store is revisioned bytes under string keys, which are ordered bytewise.", testKeysAndValues},
		{"Limits", "Every backend takes 1 MiB of key and value; what is too large fails with ErrTooLarge.", testLimits},
		{"Revisions", "Every change gets a revision of its own, greater than all before it.", testRevisions},
		{"CompareAndSwap", "Of writers who expect the same revision, one succeeds.", testCompareAndSwap},
		{"Counter", "Update replaces the record whose revision is expected.", testCounter},
		{"CreateRace", "Create writes a key that has no record, or fails with ErrExists.", testCreateRace},
		{"ReadYourWrites", "A change is visible to every Reader before the method returns.", testReadYourWrites},
		{"EndedContext", "Next returns ctx.Err() when the context ends (the stream stays usable); the outcome of a write whose context ended is unknown.", testEndedContext},
		{"StoreClose", "ErrClosed: the store was closed.", testStoreClose},
	}
}

func listChecks() []check {
	return []check{
		{"ListPrefix", "List returns the records whose keys start with prefix, in key order.", testListPrefix},
		{"ListPages", "After skips keys up to and including this one; Limit bounds the records of the answer; More tells whether more follow.", testListPages},
		{"ListAtRevision", "Revision reads the state as it was right after that revision.", testListAtRevision},
		{"ListRefused", "List fails with ErrCompacted or ErrFutureRevision when that revision cannot be read.", testListRefused},
		{"ListWhileWriting", "List returns records all at one revision.", testListWhileWriting},
		{"PagesWhileWriting", "Pages of one list are read at the Revision of its first page.", testPagesWhileWriting},
	}
}

func watchChecks() []check {
	return []check{
		{"WatchEvents", "For a Delete, Value is nil; a Put of no bytes has an empty one that is not nil. Prev is the value before the change, nil when the key was not there.", testWatchEvents},
		{"WatchPrefix", "Watch streams every change to keys starting with prefix.", testWatchPrefix},
		{"WatchFromAnyRevision", "Watch streams every change whose revision is greater than after, in revision order, without gap or duplicate.", testWatchFromAnyRevision},
		{"WatchRefused", "Watch fails with ErrCompacted when part of that history is gone, with ErrFutureRevision when after lies ahead of the store.", testWatchRefused},
		{"WatchBlocks", "Next blocks until there are changes; it returns ctx.Err() when the context ends (the stream stays usable).", testWatchBlocks},
		{"Progress", "Once this store's Revision has returned a revision, Next comes to it without a further write: by a change of that revision or a later one, or by a Progress event.", testProgress},
		{"ProgressWhileWriting", "No change of a Progress event's revision or an older one follows.", testProgressWhileWriting},
		{"WatchSlowReader", "Next returns ErrCompacted when the reader fell too far behind.", testWatchSlow},
		{"UnreadStreams", "Slow readers are cut off in bounded memory (Backend.StreamBytes).", testUnreadStreams},
		{"StreamClose", "Close releases the stream. It may be called more than once, and concurrently with Next.", testStreamClose},
		{"WatchWhileWriting", "Watch streams every change in revision order, without gap or duplicate; all streams tell one order.", testWatchWhileWriting},
		{"Model", "The contract as a model, against random calls of one client.", testModel},
		{"ConcurrentModel", "The contract as a model, against random calls of several clients.", testConcurrentModel},
	}
}

// optionalChecks cover optional interfaces.
func optionalChecks() []check {
	return []check{
		{"Historian", "Oldest returns the oldest revision that List and Watch still answer.", testHistorian},
		{"Compactor", "Compact forgets the history before revision, at which and after which the store can still be read and watched. To ask for what is gone already is no error.", testCompactor},
		{"LessorExpires", "A Lessor deletes records by itself when their time is over, never before. Such a deletion is a change like any other.", testLessorExpires},
		{"LessorStays", "CreateFor is Create, UpdateFor is Update; a plain Update makes a record stay.", testLessorStays},
		{"Refresher", "Stale tells whether the newest record of key should be written again. ErrNotFound is as in Get.", testRefresher},
	}
}
