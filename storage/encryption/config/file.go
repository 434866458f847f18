package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/storage/encryption"
)

// ErrKMSv1: the file asks for the first protocol of KMS plugins.
var ErrKMSv1 = errors.New("KMSv1 is deprecated and not supported here. Use KMSv2 instead, with apiVersion: v2")

// Options is what a File may be told. The zero value works.
type Options struct {
	// Reload reads the file again when its content changes; else it is read once.
	Reload bool
	// Interval is how often to look whether it did; 0 means ten seconds.
	Interval time.Duration
	// Logger is told of new content, of what is wrong with it and of plugins' health; nil discards.
	Logger *slog.Logger
}

// File is the transformers that an EncryptionConfiguration asks for. It is safe for concurrent use, but
// for Run.
type File struct {
	path    string
	locate  Locate
	options Options
	current atomic.Pointer[content]
	failed  string // what was wrong the last time; Run's
}

type content struct {
	*set
	hash [sha256.Size]byte
}

var _ encryption.Transformers = (*File)(nil)

// Open reads a file. It starts nothing, and asks no plugin: what needs one asks when it is needed.
// The caller closes the File.
func Open(path string, locate Locate, options Options) (*File, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Interval <= 0 {
		options.Interval = 10 * time.Second
	}
	f := &File{path: path, locate: locate, options: options}
	data, err := f.read()
	if err != nil {
		return nil, err
	}
	c, err := f.load(data)
	if err != nil {
		return nil, err
	}
	f.current.Store(c)
	f.advise()
	return f, nil
}

// advise warns of a file that others may read.
func (f *File) advise() {
	if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o077 != 0 {
		f.options.Logger.Warn("the encryption provider configuration holds keys, and others may read or write it: chmod 600 it",
			"file", f.path, "mode", info.Mode().Perm().String())
	}
}

func (f *File) read() ([]byte, error) {
	data, err := os.ReadFile(f.path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("error while parsing file: error while loading file: error reading encryption provider configuration file %q: %w",
			f.path, err)
	case len(data) == 0:
		return nil, fmt.Errorf("error while parsing file: error while loading file: encryption provider configuration file %q is empty", f.path)
	}
	return data, nil
}

func (f *File) load(data []byte) (*content, error) {
	c, err := parse(f.path, data, f.options.Reload)
	if err != nil {
		return nil, fmt.Errorf("error while parsing file: %w", err)
	}
	s, err := build(c, f.options.Logger)
	if err != nil {
		return nil, fmt.Errorf("error while building transformers: %w", err)
	}
	return &content{set: s, hash: sha256.Sum256(data)}, nil
}

// For returns the transformer of the resource that a record is of. It stays usable for some time after the
// file asks for another one: twice the timeout of all its plugins.
func (f *File) For(key string) encryption.Transformer {
	group, name, ok := f.locate(key)
	if !ok {
		return encryption.Identity{}
	}
	return f.current.Load().transformer(group, name)
}

// Check tells whether the plugins are well, for a server's health. Without plugins all is.
func (f *File) Check(ctx context.Context) error { return f.current.Load().check(ctx) }

// Await waits until all plugins are well. When the context ends before, it returns what is wrong with them. A
// server that reads its whole store when it starts should wait: to it, records whose plugin does not answer are unreadable.
func (f *File) Await(ctx context.Context) error { return f.current.Load().await(ctx) }

// Close ends the connections to plugins, after Run.
func (f *File) Close() error { return f.current.Load().close() }

// Run polls the plugins, and with Options.Reload the file, until the context ends. It returns nil. It
// must not run twice at once.
func (f *File) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := f.poll(ctx, &wg, f.current.Load())
	var tick <-chan time.Time
	if f.options.Reload {
		ticker := time.NewTicker(f.options.Interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-tick:
		}
		fresh := f.reload(ctx)
		if fresh == nil {
			continue
		}
		old, stopOld := f.current.Swap(fresh), stop
		stop = f.poll(ctx, &wg, fresh)
		wg.Go(func() { f.retire(ctx, old, stopOld) })
	}
}

// poll runs a content and returns how to end that.
func (f *File) poll(ctx context.Context, wg *sync.WaitGroup, c *content) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	wg.Go(func() {
		defer close(ended)
		if err := c.run(ctx); err != nil {
			f.options.Logger.Error("polling KMS plugins", "error", err)
		}
	})
	return func() { cancel(); <-ended }
}

// retire ends a content when nobody uses it any more.
func (f *File) retire(ctx context.Context, old *content, stop func()) {
	timer := time.NewTimer(2 * old.timeouts)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	stop()
	if err := old.close(); err != nil {
		f.options.Logger.Warn("closing connections to KMS plugins", "error", err)
	}
}

// reload returns the file's content if that is new and good.
func (f *File) reload(ctx context.Context) *content {
	fresh, err := f.changed(ctx)
	if err != nil {
		if ctx.Err() == nil { // else nothing is wrong but that it ends
			f.tell(err)
		}
		return nil
	}
	f.failed = ""
	if fresh != nil {
		f.options.Logger.Info("encryption provider configuration has new content", "file", f.path)
		f.advise()
	}
	return fresh
}

// tell logs what is wrong, once.
func (f *File) tell(err error) {
	if f.failed != err.Error() {
		f.options.Logger.Error("error processing encryption config file; the content from before stays in use", "file", f.path, "error", err)
	}
	f.failed = err.Error()
}

func (f *File) changed(ctx context.Context) (*content, error) {
	data, err := f.read()
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(data) == f.current.Load().hash {
		return nil, nil //nolint:nilnil // nothing new, nothing wrong
	}
	fresh, err := f.load(data)
	if err != nil {
		return nil, err
	}
	if err := healthy(ctx, fresh); err != nil {
		return nil, errors.Join(fmt.Errorf("health check for new transformers failed: %w", err), fresh.close())
	}
	return fresh, nil
}

// healthy waits for the plugins of new content for ten seconds, or as long as they may take.
func healthy(ctx context.Context, c *content) error {
	ctx, cancel := context.WithTimeout(ctx, max(10*time.Second, 2*c.timeouts))
	defer cancel()
	return c.await(ctx)
}
