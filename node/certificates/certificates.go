package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/atomicfile"
)

var (
	// ErrNone means that there is no certificate that is valid now.
	ErrNone = errors.New("there is no valid certificate")
	// ErrDenied means that somebody has denied the request for a certificate.
	ErrDenied = errors.New("the certificate signing request was denied")
	// ErrFailed means that the signer could not sign it.
	ErrFailed = errors.New("the certificate signing request failed")
)

const (
	// patience is how long a request is waited for before another one is made.
	patience = 15 * time.Minute
	// firstLook and lastLook bound the pauses between looks at a request.
	firstLook = 100 * time.Millisecond
	lastLook  = 10 * time.Second
	// firstRetry and lastRetry bound the pauses after a failure.
	firstRetry = 2 * time.Second
	lastRetry  = 128 * time.Second
	// attention is how often what the certificate should say is looked at.
	attention = time.Minute
)

// Client is access to the API server as whoever requests the certificate.
type Client interface {
	client.Getter
	client.Creator
}

// Options describes a certificate. ForClient and ForServer make them.
type Options struct {
	// Signer is the name of its signer.
	Signer string
	// Usages are what it is for.
	Usages []certificatesv1.KeyUsage
	// Template returns what it should say: subject, DNS names and IP addresses. It is called often; nil means that
	// this is not known yet.
	Template func() *x509.CertificateRequest
	// Life is how long it should be valid; 0 leaves that to the signer.
	Life time.Duration
	// Logger tells of failures; nil discards them.
	Logger *slog.Logger
}

// Certificate is a certificate that is kept. Make one with Open.
type Certificate struct {
	file    string
	api     Client
	options Options

	mu      sync.Mutex
	current *tls.Certificate // nil if there is none
}

// Open returns the certificate in a file, which need not exist, and may hold one that has ended. It requests nothing: that
// is for Run, and Renew, by the given client.
func Open(file string, api Client, o Options) (*Certificate, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Certificate{file: file, api: api, options: o}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without the file, a new certificate is requested", file, err)
	}
	c.current = &pair
	return c, nil
}

// Current returns the certificate in use.
func (c *Certificate) Current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || time.Now().After(c.current.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: %w", c.file, ErrNone)
	}
	return c.current, nil
}

// Run requests certificates when they are due until ctx ends, and then returns nil.
func (c *Certificate) Run(ctx context.Context) error {
	retry := firstRetry
	for ctx.Err() == nil {
		wait := min(time.Until(c.due()), attention)
		if wait <= 0 {
			err := c.Renew(ctx)
			if err == nil {
				retry = firstRetry
				continue
			}
			if ctx.Err() == nil {
				c.options.Logger.Warn("a certificate of this node could not be replaced", "file", c.file, "signer", c.options.Signer, "error", err)
			}
			wait, retry = retry, min(2*retry, lastRetry)
		}
		sleep(ctx, wait)
	}
	return nil
}

// due returns when a new certificate is to be requested: never if it is not known what for.
func (c *Certificate) due() time.Time {
	template := c.options.Template()
	if template == nil {
		return time.Now().Add(attention)
	}
	current, err := c.Current()
	if err != nil || !says(current.Leaf, template) {
		return time.Time{}
	}
	return deadline(current.Leaf)
}

// deadline returns when a certificate is to be replaced: always the same for one certificate.
func deadline(leaf *x509.Certificate) time.Time {
	h := fnv.New64a()
	_, _ = h.Write(leaf.Raw)
	share := 0.7 + 0.2*float64(h.Sum64()%1000)/1000
	return leaf.NotBefore.Add(time.Duration(share * float64(leaf.NotAfter.Sub(leaf.NotBefore))))
}

// says reports whether a certificate says what it should.
func says(leaf *x509.Certificate, template *x509.CertificateRequest) bool {
	contains := func(ip net.IP) bool { return slices.ContainsFunc(leaf.IPAddresses, ip.Equal) }
	names := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return leaf.Subject.CommonName == template.Subject.CommonName &&
		slices.Equal(names(leaf.Subject.Organization), names(template.Subject.Organization)) &&
		slices.Equal(names(leaf.DNSNames), names(template.DNSNames)) &&
		len(leaf.IPAddresses) == len(template.IPAddresses) && !slices.ContainsFunc(template.IPAddresses, func(ip net.IP) bool { return !contains(ip) })
}

// Renew requests a certificate and puts it into use. It waits for it, for a quarter of an hour at most.
func (c *Certificate) Renew(ctx context.Context) error {
	template := c.options.Template()
	if template == nil {
		return errors.New("it is not known yet what the certificate should say")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key, chain, err := c.request(ctx, template)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("the certificate that was issued: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(c.file, slices.Concat(chain, key), 0o600); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = &pair
	return nil
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// encode returns PEM.
func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
