package x509

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/keelson-dev/keelson/authn"
)

// TestKeptNotBefore: what is remembered says nothing of a time at which one of the chain's certificates is not valid yet. Only a
// clock that was set back comes to such a time, hence the test from within.
func TestKeptNotBefore(t *testing.T) {
	for name, begin := range map[string][3]time.Duration{
		"leaf": {time.Hour, 0, 0}, "intermediate": {0, time.Hour, 0}, "root": {0, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var chain []*x509.Certificate
				for _, after := range begin {
					chain = append(chain, &x509.Certificate{NotBefore: time.Now().Add(after), NotAfter: time.Now().Add(2 * time.Hour)})
				}
				c := &connections{known: map[weak.Pointer[tls.ConnectionState]]*verified{}}
				state, roots, ann := &tls.ConnectionState{PeerCertificates: chain[:2]}, x509.NewCertPool(), &authn.Identity{Name: "ann"}
				c.keep(state, roots, chain, ann)
				time.Sleep(time.Hour - 1)
				if id := c.find(state, roots); id != nil {
					t.Errorf("before the %s is valid: %v", name, id)
				}
				time.Sleep(time.Nanosecond)
				if id := c.find(state, roots); id != ann {
					t.Errorf("in its first moment: %v", id)
				}
			})
		})
	}
}
