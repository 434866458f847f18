package memory_test

import (
	"net/netip"
	"testing"

	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/memory"
	"github.com/keelson-dev/keelson/proxy/proxytest"
)

func TestSuite(t *testing.T) {
	proxytest.Run(t, func(*testing.T) proxytest.Subject {
		w := memory.New()
		return proxytest.Subject{
			Writer: w, Decide: func(_ *testing.T, p proxy.Packet, _ proxy.Action) proxy.Decision { return w.Decide(p) },
			Client:    netip.MustParseAddr("10.64.0.9"),
			Endpoints: []netip.AddrPort{netip.MustParseAddrPort("10.64.0.1:8080"), netip.MustParseAddrPort("10.64.0.2:8080")},
		}
	})
}

func TestChecks(t *testing.T) {
	var c memory.Checks
	if s, _, ok := c.At(32000, false); ok {
		t.Errorf("at first: %v", s)
	}
	a, b := proxy.Service{Namespace: "default", Name: "a"}, proxy.Service{Namespace: "default", Name: "b"}
	c.Check(map[proxy.Service][]proxy.Check{b: {{Port: 32000, Endpoints: 2}}, a: {{Port: 32000, Endpoints: 1}, {Port: 32000, Is6: true}}})
	for is6, want := range map[bool]int{false: 1, true: 0} {
		if s, check, ok := c.At(32000, is6); !ok || s != a || check.Endpoints != want {
			t.Errorf("%v, %+v, %v", s, check, ok)
		}
	}
	c.Check(map[proxy.Service][]proxy.Check{a: nil})
	if s, check, ok := c.At(32000, false); !ok || s != b || check.Endpoints != 2 {
		t.Errorf("%v, %+v, %v", s, check, ok)
	}
	if s, _, ok := c.At(32000, true); ok {
		t.Errorf("after it was removed: %v", s)
	}
}
