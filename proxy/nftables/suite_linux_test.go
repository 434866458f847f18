package nftables_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/proxytest"
)

func TestSuite(t *testing.T) {
	n := newNetwork(t, 3)
	proxytest.Run(t, func(t *testing.T) proxytest.Subject {
		return proxytest.Subject{
			Writer: n.writer(t), Client: n.site("pod-2").v4, Endpoints: n.both(false, 0, 1),
			Decide: func(_ *testing.T, p proxy.Packet, want proxy.Action) proxy.Decision {
				patience := silence
				if want == proxy.Forward || want == proxy.Reject {
					patience = 10 * time.Second
				}
				got := n.send("pod-2", p.Protocol, p.To, patience)
				d := proxy.Decision{Action: got.action}
				if got.action == proxy.Forward {
					d.Endpoints = []netip.AddrPort{netip.AddrPortFrom(n.site(got.server).v4, serving)}
				}
				return d
			},
		}
	})
}
