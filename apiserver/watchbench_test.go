package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/pki"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// BenchmarkWatchers tells many watchers, each over a TLS connection of its own, of the changes of a busy resource. An
// operation is one event told to one of them; the time is that of the whole, client and writes included, so profiles say more.
func BenchmarkWatchers(b *testing.B) {
	for _, n := range []int{20, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { tellWatchers(b, n) })
	}
}

func tellWatchers(b *testing.B, n int) {
	reg, err := registry.New(memory.New(memory.Options{}), core.Kinds(core.Options{}), registry.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := make(chan error, 2)
	go func() { running <- reg.Run(ctx) }()
	if err := reg.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	authority, err := pki.New("kubernetes")
	if err != nil {
		b.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "apiserver", Hosts: []string{"127.0.0.1"}}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		b.Fatal(err)
	}
	l, err := serving.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	api := apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()})
	server := serving.New(l, certificate, api, serving.Options{})
	go func() { running <- server.Run(ctx) }()
	transport := apiserver.NewTransport(api, nil)
	defer func() {
		transport.Close()
		cancel()
		for range 2 {
			if err := <-running; err != nil {
				b.Error(err)
			}
		}
	}()
	write := func(method, path string, i int) {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"round":"%d"}}`, i)
		r, err := http.NewRequestWithContext(ctx, method, "http://in.process"+configs+path, bytes.NewReader([]byte(body)))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(r)
		if err != nil || resp.StatusCode >= 300 {
			b.Fatal(resp, err)
		}
		_ = resp.Body.Close()
	}
	write(http.MethodPost, "", 0)
	var heard atomic.Int64
	var reading sync.WaitGroup
	defer reading.Wait()
	for range n {
		way := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+server.Address().String()+configs+"?watch=1&resourceVersion=1", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := way.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
		reading.Go(func() {
			defer way.CloseIdleConnections()
			defer resp.Body.Close()
			piece := make([]byte, 32<<10)
			for {
				read, err := resp.Body.Read(piece)
				heard.Add(int64(bytes.Count(piece[:read], []byte("\n"))))
				if err != nil {
					return
				}
			}
		})
	}
	defer cancel()
	for heard.Load() < int64(n) { // the creation
		time.Sleep(time.Millisecond)
	}
	heard.Store(0)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range (b.N + n - 1) / n {
		write(http.MethodPut, "/c", i+1)
		for heard.Load() < int64((i+1)*n) {
			time.Sleep(200 * time.Microsecond)
		}
	}
	b.StopTimer()
}
