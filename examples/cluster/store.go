package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
	"github.com/keelson-dev/keelson/storage/wal"
)

// openStore opens the store that the flags select, and wraps it with encryption and with traces. It is set in the options; what runs as
// long as it is used is appended to beside. It is closed after both.
func (s *settings) openStore(ctx context.Context, o *cluster.Options, beside *[]lifecycle.Runnable, out io.Writer) (closeStore func() error, err error) {
	store, err := s.backend(ctx, beside)
	if err != nil {
		return nil, err
	}
	o.Store = store
	*beside = append(*beside, snapshots{store: store, dir: filepath.Join(s.dataDir, "snapshots"), out: out})
	closeLayer, err := s.encrypt(ctx, o, beside)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	closeAll := func() error { return errors.Join(closeLayer(), store.Close()) }
	if err := s.spans.apply(o, beside, s.logger()); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	return closeAll, nil
}

// closing is a store that we close ourselves.
type closing interface {
	storage.Store
	io.Closer
}

func (s *settings) backend(ctx context.Context, beside *[]lifecycle.Runnable) (closing, error) {
	switch s.storage {
	case "etcd":
		store, err := s.etcd.open(ctx, s.logger())
		if err != nil {
			return nil, err
		}
		*beside = append(*beside, s.etcd.beside(store)...)
		return store, nil
	case "embedded":
		return wal.Open(filepath.Join(s.dataDir, "store"), wal.Options{Logger: s.logger()})
	}
	return memory.New(memory.Options{}), nil
}

// snapshots writes the content of the store to a file at each SIGUSR1. Encrypted values stay encrypted.
type snapshots struct {
	store storage.Reader
	dir   string
	out   io.Writer
}

// Run writes snapshots until the context ends.
func (s snapshots) Run(ctx context.Context) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	for {
		select {
		case <-asked:
		case <-ctx.Done():
			return nil
		}
		if err := s.write(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(s.out, "no snapshot:", err)
		}
	}
}

func (s snapshots) write(ctx context.Context) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(s.dir, time.Now().UTC().Format("20060102T150405.000Z")+".snapshot")
	info, err := snapshot.WriteFile(ctx, path, s.store, snapshot.WriteOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "snapshot of %d records at revision %d: %s\n", info.Records, info.Revision, path)
	return nil
}
