package basic

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/internal/watched"
)

// Options tune Open; the zero value is ready to use.
type Options struct {
	// Interval is how often Run checks whether the file changed; 0 means 10 s.
	Interval time.Duration
	// Log receives warnings about odd records and unreadable files; nil discards.
	Log *slog.Logger
}

// File is the Verifier of a password file on disk.
type File struct {
	file *watched.File[Users]
}

// Open reads the file at path.
func Open(path string, o Options) (*File, error) {
	parse := func(data []byte) (Users, error) { return Parse(bytes.NewReader(data), o.Log) }
	file, err := watched.Open(path, parse, watched.Options{Interval: o.Interval, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &File{file}, nil
}

// Verify implements Verifier.
func (f *File) Verify(ctx context.Context, user, password string) (*authn.Identity, error) {
	return f.file.Value().Verify(ctx, user, password)
}

// Run reads the file again whenever it changes, until ctx ends.
func (f *File) Run(ctx context.Context) error { return f.file.Run(ctx) }
