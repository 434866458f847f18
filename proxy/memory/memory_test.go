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
