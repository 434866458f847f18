package x509

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/keelson-dev/keelson/authn/internal/watched"
)

// ErrBundle: the data is not a bundle of certificates.
var ErrBundle = errors.New("malformed certificate bundle")

// Options tune Open; the zero value is ready to use.
type Options struct {
	// Interval is how often Run checks whether the file changed; 0 means 10 s.
	Interval time.Duration
	// Log receives errors about unreadable files; nil discards.
	Log *slog.Logger
}

// File is a bundle of authorities on disk.
type File struct {
	file *watched.File[*x509.CertPool]
}

// Open reads the PEM bundle at path.
func Open(path string, o Options) (*File, error) {
	file, err := watched.Open(path, Parse, watched.Options{Interval: o.Interval, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &File{file}, nil
}

// Pool implements Authorities.
func (f *File) Pool() *x509.CertPool { return f.file.Value() }

// Run reads the file again whenever it changes, until ctx ends. If the file becomes unreadable, the previous
// authorities stay in force.
func (f *File) Run(ctx context.Context) error { return f.file.Run(ctx) }

// Parse reads a PEM bundle of certificates. It skips blocks of another type or with headers; it requires at least one
// certificate, and each must parse.
func Parse(bundle []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	found := 0
	for n := 1; ; n++ {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: PEM block %d: %w", ErrBundle, n, err)
		}
		pool.AddCert(cert)
		found++
	}
	if found == 0 {
		return nil, fmt.Errorf("%w: no PEM block of type CERTIFICATE", ErrBundle)
	}
	return pool, nil
}
