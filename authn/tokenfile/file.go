package tokenfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
)

// Options tune Open; the zero value works.
type Options struct {
	// Interval is how often Run looks whether the file changed; 0 means 10 s.
	Interval time.Duration
	// Log is told of odd records and of files that could not be read again; nil discards.
	Log *slog.Logger
}

// File is the token.Verifier of a token file on disk.
type File struct {
	path    string
	options Options
	current atomic.Pointer[content]
}

type content struct {
	sum    [sha256.Size]byte
	tokens token.Verifier
}

// Open reads the file at path.
func Open(path string, o Options) (*File, error) {
	if o.Interval <= 0 {
		o.Interval = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &File{path: path, options: o}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Verify implements token.Verifier.
func (f *File) Verify(ctx context.Context, tok string) (*authn.Identity, error) {
	return f.current.Load().tokens.Verify(ctx, tok)
}

// Run reads the file again whenever it changes, until ctx ends.
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(f.options.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := f.read(); err != nil {
				f.options.Log.Error("token file not read again, the last good one stays in force", "error", err)
			}
		}
	}
}

// read goes by content, not by modification time: a file of this size is cheap to read, and a
// replaced mount or a restored backup need not have a newer time.
func (f *File) read() error {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if last := f.current.Load(); last != nil && last.sum == sum {
		return nil
	}
	tokens, err := Parse(bytes.NewReader(data), f.options.Log)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.current.Store(&content{sum: sum, tokens: token.Static(tokens)})
	return nil
}
