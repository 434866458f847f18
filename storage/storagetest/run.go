package storagetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

// Backend is what the suite needs to know about an implementation.
type Backend struct {
	// Open returns a store without records for the suite's exclusive use, and arranges with t.Cleanup for its end. It
	// must keep a history of 200 changes or more. If the store, or one that it wraps, has a method Close() error, the suite
	// checks what the contract says about closed stores.
	Open func(t testing.TB) storage.Store
	// Forget makes the store forget all history before its newest revision at the time of the
	// call, by whatever means it has. It may write keys under ForgetPrefix.
	Forget func(t testing.TB, s storage.Store)
	// Patience is how long a stream may take to deliver what it must; 0 means 30 seconds. The suite
	// waits that long only where the backend fails.
	Patience time.Duration
	// StreamBytes bounds the memory of this process that history and unread streams may hold when four times as much
	// has been written; 0 skips the check. It is at least 8 MiB.
	StreamBytes int64
	// ShortestTTL is the shortest time that a Lessor keeps a record; 0 means a second.
	ShortestTTL time.Duration
}

// ForgetPrefix is where Backend.Forget may write; the suite's keys are elsewhere.
const ForgetPrefix = "/forget/"

// ForgetByWriting returns a Forget for a store that keeps a bounded number of changes.
func ForgetByWriting(changes int) func(testing.TB, storage.Store) {
	return func(t testing.TB, s storage.Store) {
		t.Helper()
		start, err := s.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const writers = 16 // for backends that are slow alone and fast together
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := w; i <= changes; i += writers {
					if _, err := s.Create(t.Context(), fmt.Sprintf("%s%d-%d", ForgetPrefix, start, i), nil); err != nil {
						t.Errorf("Create: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// Run checks a backend against the contract of package storage. Every check is a subtest; a failing one quotes the
// sentence that the backend violates.
func Run(t *testing.T, b Backend) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("the contract says: %s", c.sentence)
				}
			}()
			c.test(&suite{TB: t, backend: b, store: b.Open(t)})
		})
	}
}

// Failure is a check that a backend did not pass.
type Failure struct {
	Check    string   // name
	Sentence string   // of the contract
	Messages []string // one for each failed assertion
}

// Error returns all parts in one text.
func (f Failure) Error() string {
	return fmt.Sprintf("%s: %s; the contract says: %s", f.Check, strings.Join(f.Messages, "; "), f.Sentence)
}

// Failures is Run for callers that judge failures themselves, such as a test that breaks a store on purpose: only the
// caller fails t. It may run inside a testing/synctest bubble.
func Failures(t testing.TB, b Backend) []Failure {
	t.Helper()
	var failures []Failure
	for _, c := range checks() {
		messages := record(t, func(t testing.TB) {
			c.test(&suite{TB: t, backend: b, store: b.Open(t)})
		})
		if len(messages) > 0 {
			failures = append(failures, Failure{c.name, c.sentence, messages})
		}
	}
	return failures
}
