package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/apiserver/serving"
	"github.com/keelson-dev/keelson/lifecycle"
)

const etcdUsage = `etcd lends a directory to the kube-apiserver beside it, which keeps its state there, and answers envtest's
health checks. It serves no etcd API.`

// etcdSettings are the flags of etcd that matter here.
type etcdSettings struct {
	dataDir string
	listen  []string
	noSync  bool
}

func (s *etcdSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", "default.etcd", "the directory for the state")
	f.StringSliceVar(&s.listen, "listen-client-urls", []string{"http://localhost:2379"}, "where to listen, as http://HOST:PORT")
	f.BoolVar(&s.noSync, "unsafe-no-fsync", false, "do not wait for the disk: what is written survives the programs, not the machine")
	for _, name := range []string{"advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster", "name", "log-level"} {
		f.String(name, "", "accepted, without effect")
	}
}

// runEtcd is the program etcd.
func runEtcd(ctx context.Context, args []string) error {
	var s etcdSettings
	f := newFlags(etcdName)
	s.define(f)
	if err := parseFlags(f, args, tell(etcdName)); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Println(usageOf(etcdUsage, f))
		}
		return err
	}
	l, err := s.loan()
	if err != nil {
		return err
	}
	ctx, stop := withParent(ctx)
	defer stop()
	return s.serve(ctx, l)
}

// loan prepares the directory.
func (s *etcdSettings) loan() (loan, error) {
	dir, err := filepath.Abs(s.dataDir)
	if err != nil {
		return loan{}, fmt.Errorf("--data-dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return loan{}, fmt.Errorf("--data-dir: %w; choose a directory that you may write to", err)
	}
	return loan{Dir: filepath.Join(dir, "keelson"), NoSync: s.noSync}, nil
}

// serve answers health checks and lends the directory until ctx ends.
func (s *etcdSettings) serve(ctx context.Context, l loan) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"health":"true","reason":""}`)
	})
	mux.HandleFunc("GET "+loanPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(l) // a client that went away
	})
	var servers []lifecycle.Runnable
	for _, at := range s.listen {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("%w: --listen-client-urls %q: write it as http://HOST:PORT", errUsage, at)
		}
		listener, err := serving.Listen(ctx, u.Host)
		if err != nil {
			return fmt.Errorf("--listen-client-urls: %w", err)
		}
		defer func() { _ = listener.Close() }() // if its server did not run
		servers = append(servers, plain(listener, mux))
	}
	return lifecycle.Group(servers...).Run(ctx)
}

// plain serves without TLS.
func plain(l net.Listener, h http.Handler) lifecycle.Runnable {
	return lifecycle.Func(func(ctx context.Context) error {
		server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(l) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			err := server.Close()
			if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
				err = errors.Join(err, ended)
			}
			return err
		}
	})
}

// loan is what etcd lends to the API server.
type loan struct {
	Dir    string `json:"dir"`
	NoSync bool   `json:"noSync"`
}

// loanPath is where etcd offers it.
const loanPath = "/keelson/loan"

// errEtcd means that there is no etcd to borrow from.
var errEtcd = errors.New("this kube-apiserver works with the etcd beside it only")

// borrow asks an etcd for its directory.
func borrow(ctx context.Context, server string) (loan, error) {
	var l loan
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+loanPath, nil)
	if err != nil {
		return l, fmt.Errorf("%w: --etcd-servers: %w", errUsage, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return l, fmt.Errorf("--etcd-servers: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return l, fmt.Errorf("--etcd-servers %s: %w: it answers %s", server, errEtcd, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&l); err != nil || l.Dir == "" {
		return l, fmt.Errorf("--etcd-servers %s: %w: its answer is none", server, errEtcd)
	}
	return l, nil
}
