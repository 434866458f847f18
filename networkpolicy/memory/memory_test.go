package memory_test

import (
	"net/netip"
	"testing"

	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/memory"
	"github.com/keelson-dev/keelson/networkpolicy/policytest"
)

func TestSuite(t *testing.T) {
	policytest.Run(t, func(*testing.T) policytest.Subject {
		w := memory.New()
		pass := func(_ *testing.T, packets []networkpolicy.Packet, _ int) (passed []bool) {
			for _, p := range packets {
				passed = append(passed, w.Decide(p).Allowed())
			}
			return passed
		}
		var pods [][]netip.Addr
		for _, a := range []string{"1", "2", "3"} {
			pods = append(pods, []netip.Addr{netip.MustParseAddr("10.64.0." + a), netip.MustParseAddr("fd64::" + a)})
		}
		return policytest.Subject{Writer: w, Pass: pass, Pods: pods, Histories: 20}
	})
}
