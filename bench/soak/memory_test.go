package soak

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Two servers share one store in memory, in process and over TLS and HTTP/2.
func TestTwoServersOneStore(t *testing.T) {
	for name, overTLS := range map[string]bool{"in process": false, "TLS and HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			seed := seed()
			f, err := together(t.Context(), overTLS, 150, linear.Options{Seed: seed})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			t.Logf("%+v", f)
			if f.Acknowledged < 100 || f.Events < 100 || f.Unjudged > f.Watches/4 {
				t.Errorf("seed %d: too little happened to prove anything: %+v", seed, f)
			}
		})
	}
}

// In virtual time watches live long enough to get bookmarks, and old revisions expire.
func TestTwoServersForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed, began := seed(), time.Now()
		f, err := together(t.Context(), false, 60, linear.Options{
			Seed: seed, Resource: "pods",
			// Most operations coincide at full minutes and interfere with each other.
			Pause: func(random *rand.Rand) time.Duration {
				return time.Until(time.Now().Truncate(time.Minute).Add(time.Duration(1+random.IntN(5)) * time.Minute))
			},
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Logf("%v: %+v", time.Since(began), f)
		if f.Bookmarks < 100 || f.Expired == 0 {
			t.Errorf("seed %d: too little happened to prove anything: %+v", seed, f)
		}
	})
}

// together runs clients through two servers on a store in memory.
func together(ctx context.Context, overTLS bool, operations int, o linear.Options) (f figures, err error) {
	store := memory.New(memory.Options{})
	defer func() { err = errors.Join(err, store.Close()) }()
	var servers []http.RoundTripper
	for range 2 {
		s, err := start(ctx, store, registry.Options{})
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		servers = append(servers, s)
	}
	if overTLS {
		for i, s := range servers {
			far, end, err := listen(ctx, s.(*server).handler)
			if err != nil {
				return f, err
			}
			defer func() { err = errors.Join(err, end()) }()
			servers[i] = far
		}
	}
	o.Clients, o.Keys, o.Watchers = 8, 4, 8
	load := linear.New(o)
	if err := load.Begin(ctx, servers); err != nil {
		return f, err
	}
	load.Run(ctx, servers, operations, false)
	settling, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := load.Settle(settling, servers); err != nil {
		_, checked := load.Check()
		return f, errors.Join(err, keep(checked))
	}
	report, err := load.Check()
	f.Add(report)
	return f, keep(err)
}

// remote is a transport to a listening server.
type remote struct {
	*http.Transport
	address string
}

func (r remote) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.Scheme, q.URL.Host = "https", r.address
	resp, err := r.Transport.RoundTrip(q)
	if err == nil && resp.ProtoMajor != 2 {
		return nil, errors.Join(errors.New("this is not HTTP/2"), resp.Body.Close())
	}
	return resp, err
}

// listen serves a handler on loopback until end is called.
func listen(ctx context.Context, handler http.Handler) (to remote, end func() error, err error) {
	authority, err := pki.New("test")
	if err != nil {
		return to, nil, err
	}
	pair, err := authority.Issue(pki.Subject{Name: "server", Hosts: []string{"127.0.0.1"}}, time.Hour)
	if err != nil {
		return to, nil, err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return to, nil, err
	}
	listener, err := serving.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return to, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	s := serving.New(listener, certificate, handler, serving.Options{Grace: time.Second})
	go func() { done <- s.Run(ctx) }()
	to = remote{&http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}, listener.Addr().String()}
	return to, func() error {
		to.CloseIdleConnections()
		cancel()
		return <-done
	}, nil
}
