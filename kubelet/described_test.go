package kubelet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// rpcError is a failure in the words of a protocol.
type rpcError struct{}

func (rpcError) Error() string       { return "rpc error: code = Unknown desc = no such program" }
func (rpcError) Description() string { return "no such program" }

var _ cri.Described = rpcError{}

// TestFailuresAreDescribed: failures to create or start a container are reported without the texts of the protocol
// between kubelet and runtime, like upstream.
func TestFailuresAreDescribed(t *testing.T) {
	for verb, reason := range map[simulated.Verb]string{
		simulated.CreateContainer: "CreateContainerError", simulated.StartContainer: "RunContainerError",
	} {
		rt := simulated.Options{Images: []string{"nginx"}, Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == verb {
				return simulated.Outcome{Err: rpcError{}}
			}
			return simulated.Outcome{}
		}}
		simulate(t, rt, kubelet.Options{}, func(n *node) {
			n.pods.Put(newPod("web"))
			n.after(time.Second)
			state := n.pod("web").Status.ContainerStatuses[0].State.Waiting
			if state == nil || state.Reason != reason || state.Message != "no such program" {
				t.Errorf("%s: waiting %+v", verb, state)
			}
			if events := strings.Join(n.events, "\n"); !strings.Contains(events, "Error: no such program") {
				t.Errorf("%s: events\n%s", verb, events)
			}
		})
	}
}
