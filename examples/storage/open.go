package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
	"github.com/keelson-dev/keelson/storage/wal"
)

const (
	// root is the prefix of all keys of a cluster.
	root = "/registry/"
	// etcdPatience is how long to wait for etcd's first answer.
	etcdPatience = 10 * time.Second
)

// store is an open store and the functions that close it.
type store struct {
	storage.Store
	close func(failed bool) error
}

func closing(c io.Closer) func(bool) error { return func(bool) error { return c.Close() } }

// source opens a store for reading.
func (s *settings) source(ctx context.Context, at string) (store, error) {
	kind, place, _ := strings.Cut(at, ":")
	switch kind {
	case "wal":
		return openDirectory(place)
	case "etcd":
		return s.openEtcd(ctx, place)
	case "file":
		return openFile(ctx, place)
	}
	return store{}, fmt.Errorf("%q is no store: write wal:DIR, etcd:URL or file:PATH; %w", at, errUsage)
}

// target opens a store for writing. A new store starts at the first revision, if it supports that.
func (s *settings) target(ctx context.Context, at string, first int64) (store, error) {
	kind, place, _ := strings.Cut(at, ":")
	switch kind {
	case "wal":
		return newDirectory(place, first)
	case "etcd":
		return s.openEtcd(ctx, place)
	}
	return store{}, fmt.Errorf("%q cannot be filled: write wal:DIR or etcd:URL; %w", at, errUsage)
}

// marker is a file that every directory of an embedded store has.
const marker = "FORMAT"

// openDirectory opens an existing store and creates nothing.
func openDirectory(dir string) (store, error) {
	if _, err := os.Stat(filepath.Join(dir, marker)); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "store", marker)); err == nil {
			return store{}, fmt.Errorf("there is no store in %s, but one in it: write wal:%s", dir, filepath.Join(dir, "store"))
		}
		return store{}, fmt.Errorf("there is no store in %s", dir)
	} else if err != nil {
		return store{}, err
	}
	opened, err := wal.Open(dir, wal.Options{})
	if errors.Is(err, wal.ErrInUse) {
		return store{}, fmt.Errorf("%w; for an embedded store, that is to end the cluster first; one that runs writes a snapshot itself when it gets SIGUSR1", err)
	}
	if err != nil {
		return store{}, err
	}
	return store{opened, closing(opened)}, nil
}

// newDirectory creates a store beside its final directory, and moves it there when it is complete: the directory is
// complete or does not exist.
func newDirectory(dir string, first int64) (store, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return store{}, fmt.Errorf("%w: %s has files in it; choose a new directory", snapshot.ErrNotEmpty, dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return store{}, err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return store{}, err
	}
	begun, err := os.MkdirTemp(parent, filepath.Base(dir)+".*.tmp")
	if err != nil {
		return store{}, err
	}
	opened, err := wal.Open(begun, wal.Options{FirstRevision: first})
	if err != nil {
		return store{}, errors.Join(err, os.RemoveAll(begun))
	}
	return store{opened, func(failed bool) error {
		err := opened.Close()
		if err == nil && !failed {
			err = move(begun, dir)
		}
		if err != nil || failed {
			return errors.Join(err, os.RemoveAll(begun))
		}
		return nil
	}}, nil
}

// move renames a directory durably; the target must not exist or must be an empty directory.
func move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(to)))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func (s *settings) openEtcd(ctx context.Context, endpoints string) (store, error) {
	e := s.etcd
	config := etcd.Config{Endpoints: strings.Split(endpoints, ","), CAFile: e.ca, CertFile: e.cert, KeyFile: e.key, User: e.user}
	if e.passwordFile != "" {
		password, err := os.ReadFile(e.passwordFile)
		if err != nil {
			return store{}, fmt.Errorf("--etcd-password-file: %w", err)
		}
		config.Password = strings.TrimRight(string(password), "\r\n")
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	opened, err := etcd.Open(ctx, config, etcd.Options{Trim: root, Prefix: e.prefix + "/"})
	if errors.Is(err, etcd.ErrConfig) {
		return store{}, fmt.Errorf("etcd:%s: %w; %w", endpoints, err, errUsage)
	}
	if err != nil {
		return store{}, err
	}
	if err := opened.Ready(ctx); err != nil {
		return store{}, errors.Join(fmt.Errorf("%w; check that it runs and that the --etcd-... flags fit it", err), opened.Close())
	}
	return store{opened, closing(opened)}, nil
}

// openFile reads a snapshot into memory. The store's revision is higher than the snapshot's.
func openFile(ctx context.Context, path string) (store, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return store{}, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := snapshot.Check(ctx, file, size)
	if err != nil {
		return store{}, fmt.Errorf("%s: %w", path, err)
	}
	s := memory.New(memory.Options{FirstRevision: info.Revision, History: 1})
	if _, err := snapshot.Restore(ctx, s, file, size, snapshot.RestoreOptions{}); err != nil {
		return store{}, fmt.Errorf("%s: %w", path, err)
	}
	return store{s, closing(s)}, nil
}

func openRegular(path string) (*os.File, int64, error) {
	path = strings.TrimPrefix(path, "file:")
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	stat, err := file.Stat()
	if err == nil && !stat.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, stat.Size(), nil
}
