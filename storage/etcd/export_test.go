package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// NewClock returns the methods of a clock.
func NewClock(request func(context.Context) (int64, error)) (read func(context.Context) (int64, error), end func()) {
	c := newClock(request)
	return c.read, c.close
}

// NewLeases returns the methods of leases.
func NewLeases(grant func(context.Context, time.Duration) (clientv3.LeaseID, error), now func() time.Time) (take func(context.Context, time.Duration) (clientv3.LeaseID, bool, error), drop func(clientv3.LeaseID)) {
	l := newLeases(grant, now)
	return l.take, l.drop
}

// Mapped tells what becomes of a key, and whether a list finds it.
func Mapped(options Options, key, prefix, after string) (inEtcd, back string, listed bool, err error) {
	k := keys{trim: options.Trim, prefix: options.Prefix}
	if inEtcd, err = k.encode(key); err != nil {
		return "", "", false, err
	}
	s := k.span(prefix, after)
	return inEtcd, k.decode([]byte(inEtcd)), !s.nothing() && inEtcd >= s.from && (s.end == toEnd || inEtcd < s.end), nil
}

// ClientConfig is what a Config makes of clientv3's.
func ClientConfig(c Config) (clientv3.Config, error) { return c.client() }

// TooLarge tells whether an error says that a request or an answer is too large for gRPC.
var TooLarge = isTooLargeMessage
