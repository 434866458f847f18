package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// etcdSettings are the flags for etcd.
type etcdSettings struct {
	endpoints    string
	ca           string
	cert, key    string
	prefix       string
	user         string
	passwordFile string
	compaction   time.Duration
}

const (
	defaultPrefix     = "/registry"
	defaultCompaction = 5 * time.Minute
)

// define defines the flags; their names are kube-apiserver's where it has them.
func (e *etcdSettings) define(f *flag.FlagSet) {
	f.StringVar(&e.endpoints, "etcd-endpoints", "", "")
	f.StringVar(&e.endpoints, "etcd-servers", "", "")
	f.StringVar(&e.ca, "etcd-cafile", "", "")
	f.StringVar(&e.cert, "etcd-certfile", "", "")
	f.StringVar(&e.key, "etcd-keyfile", "", "")
	f.StringVar(&e.prefix, "etcd-prefix", defaultPrefix, "")
	f.StringVar(&e.user, "etcd-user", "", "")
	f.StringVar(&e.passwordFile, "etcd-password-file", "", "")
	f.DurationVar(&e.compaction, "etcd-compaction-interval", defaultCompaction, "")
}

func (e *etcdSettings) check(storage string) error {
	others := e.ca != "" || e.cert != "" || e.key != "" || e.user != "" || e.passwordFile != "" || e.prefix != defaultPrefix || e.compaction != defaultCompaction
	switch {
	case storage != "etcd" && (e.endpoints != "" || others):
		return errors.New("the --etcd-... flags need --storage etcd: add it")
	case storage != "etcd":
		return nil
	case e.endpoints == "":
		return errors.New("--storage etcd: add --etcd-endpoints, as in http://127.0.0.1:2379")
	case (e.cert == "") != (e.key == ""):
		return errors.New("--etcd-certfile and --etcd-keyfile belong together: add the other one")
	case (e.user == "") != (e.passwordFile == ""):
		return errors.New("--etcd-user and --etcd-password-file belong together: add the other one")
	case e.compaction < 0:
		return fmt.Errorf("--etcd-compaction-interval %v: choose a time such as 5m, or 0 for none", e.compaction)
	case !strings.HasPrefix(e.prefix, "/") || strings.HasSuffix(e.prefix, "/"):
		return fmt.Errorf("--etcd-prefix %q: write it as %s, with a slash in front and none behind", e.prefix, defaultPrefix)
	}
	for _, endpoint := range strings.Split(e.endpoints, ",") {
		if !strings.HasPrefix(endpoint, "http://") && !strings.HasPrefix(endpoint, "https://") {
			return fmt.Errorf("--etcd-endpoints %q: write it as http://HOST:PORT or https://HOST:PORT, more of them separated by commas", endpoint)
		}
	}
	return nil
}

// etcdPatience is how long to wait for etcd at startup.
const etcdPatience = 10 * time.Second

// open returns the store once etcd answers.
func (e *etcdSettings) open(ctx context.Context, log *slog.Logger) (*etcd.Store, error) {
	config := etcd.Config{Endpoints: strings.Split(e.endpoints, ","), CAFile: e.ca, CertFile: e.cert, KeyFile: e.key, User: e.user}
	if e.passwordFile != "" {
		password, err := os.ReadFile(e.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-password-file: %w", err)
		}
		config.Password = strings.TrimRight(string(password), "\r\n")
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	store, err := etcd.Open(ctx, config, etcd.Options{Trim: registry.Root, Prefix: e.prefix + "/", Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--storage etcd: %w", err)
	}
	if err := store.Ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("--storage etcd: %w; check that it runs and that the --etcd-... flags fit it", err), store.Close())
	}
	return store, nil
}

// beside returns what runs as long as the store is used.
func (e *etcdSettings) beside(store *etcd.Store) []lifecycle.Runnable {
	if e.compaction == 0 {
		return nil
	}
	return []lifecycle.Runnable{etcd.NewCompaction(store, e.compaction)}
}
