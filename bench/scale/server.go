package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/authn"
	x509authn "github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/pki"
)

const certificateLife = 24 * time.Hour

// playServer runs a whole control plane behind TLS, as for users: with certificates, RBAC and metrics. It prints its
// address, and its memory on request.
func playServer(ctx context.Context, dir string, in io.Reader, out io.Writer) (err error) {
	authority, err := pki.New("scale")
	if err != nil {
		return err
	}
	shown, err := authority.Issue(pki.Subject{Name: "server", Hosts: []string{"127.0.0.1"}}, certificateLife)
	if err != nil {
		return err
	}
	user, err := authority.Issue(pki.Subject{Name: "admin", Groups: []string{authn.GroupMasters}}, certificateLife)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": authority.PEM(), "user.crt": user.Certificate, "user.key": user.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	certificate, err := shown.TLS()
	if err != nil {
		return err
	}
	c, err := cluster.New(cluster.Options{
		Dir:            filepath.Join(dir, "data"),
		Authenticators: []cluster.AuthenticatorStage{cluster.Ready[authn.Authenticator]("x509", x509authn.New(x509authn.Static{Roots: authority.Pool()}))},
		Server:         cluster.Server{Telemetry: cluster.Telemetry{Metrics: true}},
	})
	if err != nil {
		return err
	}
	// As in examples/cluster, the listener is closed before the servers behind it.
	live, die := context.WithCancel(context.WithoutCancel(ctx))
	lived := make(chan error, 1)
	go func() { lived <- c.Run(live) }()
	defer func() { die(); err = errors.Join(err, <-lived) }()
	listener, err := serving.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := serving.New(listener, certificate, c.Handler(), serving.Options{Drain: c.Drain})
	serve, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Run(serve) }()
	defer func() { stop(); err = errors.Join(err, <-served) }()
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "at", server.Address())
	return answerMemory(in, out)
}

// answerMemory prints, for each line, the memory in use after a garbage collection. If the line names a directory,
// profiles are written there.
func answerMemory(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		debug.FreeOSMemory()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if dir := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "memory")); dir != "" {
			for _, name := range []string{"heap", "goroutine"} {
				f, err := os.Create(filepath.Join(dir, name+".pprof"))
				if err != nil {
					return err
				}
				if err := errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close()); err != nil {
					return err
				}
			}
		}
		fmt.Fprintln(out, "memory", m.HeapAlloc, m.HeapInuse, m.StackInuse, resident(), runtime.NumGoroutine())
	}
	return lines.Err()
}

// resident returns the resident memory of this process; 0 on systems other than Linux.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// memory is what a server reports about itself, in bytes.
type memory struct{ live, heap, stacks, resident, goroutines int64 }

func (m memory) total() int64 { return m.heap + m.stacks }

func (p *part) memory(profiles string) (m memory, err error) {
	if err := p.tell("memory " + profiles); err != nil {
		return m, err
	}
	line, err := p.hear("memory")
	if err != nil {
		return m, err
	}
	_, err = fmt.Sscan(line, &m.live, &m.heap, &m.stacks, &m.resident, &m.goroutines)
	return m, err
}

// outsider returns a client with a single connection.
func outsider(dir string) (*http.Transport, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "user.crt"), filepath.Join(dir, "user.key"))
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}, nil
}
