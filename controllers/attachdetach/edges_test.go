package attachdetach_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/client/faults"
)

// TestFailureWhileAnotherWaits: a write that fails is repeated soon, also while a volume has to be waited for.
func TestFailureWhileAnotherWaits(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.add(nodeOf("a"))
		b.bind("data")
		b.bind("logs")
		b.add(podOf("db", "a", "data"))
		b.attached("data", "a")
		b.uses("a", "data")
		b.deletePod("db")
		b.want("a:data+", "a=data") // the node uses it for some minutes at most
		b.add(podOf("web", "a", "logs"))
		b.want("a:data+ a:logs", "a=data")
		b.api.Inject(faults.Fault{Verb: faults.Patch, Resource: "nodes/status", Err: errors.New("down"), Times: 1})
		b.attached("logs", "a")
		time.Sleep(10 * time.Second)
		b.want("a:data+ a:logs+", "a=data logs")
	})
}
