package tokenfile

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/internal/watched"
	"github.com/keelson-dev/keelson/authn/token"
)

// Options tune Open; the zero value is ready to use.
type Options struct {
	// Interval is how often Run checks whether the file changed; 0 means 10 s.
	Interval time.Duration
	// Log receives warnings about odd records and unreadable files; nil discards.
	Log *slog.Logger
}

// File is the token.Verifier of a token file on disk.
type File struct {
	file *watched.File[token.Verifier]
}

// Open reads the file at path.
func Open(path string, o Options) (*File, error) {
	parse := func(data []byte) (token.Verifier, error) {
		tokens, err := Parse(bytes.NewReader(data), o.Log)
		return token.Static(tokens), err
	}
	file, err := watched.Open(path, parse, watched.Options{Interval: o.Interval, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &File{file}, nil
}

// Verify implements token.Verifier.
func (f *File) Verify(ctx context.Context, tok string) (*authn.Identity, error) {
	return f.file.Value().Verify(ctx, tok)
}

// Run reads the file again whenever it changes, until ctx ends.
func (f *File) Run(ctx context.Context) error { return f.file.Run(ctx) }
