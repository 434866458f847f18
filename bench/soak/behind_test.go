package soak

import (
	"context"
	"net/http"
	"testing"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/internal/linear"
)

// A server that was disconnected while history it had not seen was compacted starts over.
func TestCompactedBehindItsBack(t *testing.T) {
	e := startEtcd(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	load := linear.New(linear.Options{Seed: 1})
	all := []http.RoundTripper{e.doors[0], e.doors[2]}
	if err := load.Begin(ctx, all); err != nil {
		t.Fatal(err)
	}
	e.cluster.CutClients(0, etcdtest.Refuse)
	load.Run(ctx, all[:1], 50, false)
	at, err := e.stores[0].Revision(ctx)
	if err == nil {
		err = e.stores[0].Compact(ctx, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.cluster.Heal()
	load.Run(ctx, all, 50, false)
	if err := load.Settle(ctx, all); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Check(); err != nil {
		t.Fatal(keep(err))
	}
}
