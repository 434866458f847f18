package kms

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
)

// Upstream's intervals.
const (
	healthyPoll   = time.Minute
	unhealthyPoll = 10 * time.Second
	writeFor      = 3 * time.Minute  // after the last good status
	healthyFor    = 20 * time.Second // that a good status is not asked for again
	unhealthyFor  = 3 * time.Second
)

// Options is what a Provider may be told. The zero value works.
type Options struct {
	// Logger is told when a plugin turns bad or good, and of new seeds; nil discards.
	Logger *slog.Logger
}

// Provider is the transformer of one plugin. It is safe for concurrent use.
//
// It works without Run: whatever is missing is asked for when it is needed. With Run, which polls the plugin's
// status, a changed key is noticed within 80 seconds, and no write has to wait for a
// status.
type Provider struct {
	name    string
	service Service
	log     *slog.Logger
	writing atomic.Pointer[writing]
	known   known
	breaker breaker
	turn    chan struct{} // held by the one that asks for the status
	version string        // below turn, as the next
	health  health
}

// writing is what values are sealed with.
type writing struct {
	seal    encryption.Transformer
	keyID   string
	rest    []byte // the envelope after its data
	expires time.Time
}

type health struct {
	err   error
	until time.Time
}

// New returns the provider that upstream's configuration calls name, which is for messages. It does
// not ask service yet.
func New(name string, service Service, options Options) *Provider {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Provider{
		name: name, service: service, log: options.Logger.With("kms", name), turn: make(chan struct{}, 1),
	}
}

var _ encryption.Transformer = (*Provider)(nil)

// Seal returns the value's envelope. It fails when there has been no good status for three minutes.
func (p *Provider) Seal(ctx context.Context, dst []byte, key string, value []byte) ([]byte, error) {
	w, err := p.writer(ctx)
	if err != nil {
		return nil, err
	}
	data, err := w.seal.Seal(ctx, nil, key, value)
	if err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, len(data)+len(w.rest)+8)
	return append(appendData(dst, data), w.rest...), nil
}

// writer returns what to write with now.
func (p *Provider) writer(ctx context.Context) (*writing, error) {
	w := p.writing.Load()
	now := time.Now()
	if w != nil && !now.After(w.expires) {
		return w, nil
	}
	// Nobody polls, or in vain.
	err := p.Check(ctx)
	if fresh := p.writing.Load(); fresh != nil && !time.Now().After(fresh.expires) {
		return fresh, nil
	}
	if w == nil {
		return nil, fmt.Errorf("KMS provider %s has given no key to encrypt with yet: %w", p.name, err)
	}
	return nil, fmt.Errorf("encryptedDEKSource with keyID hash %q expired at %s (current time is %s): %w",
		hash(w.keyID), w.expires.Format(time.RFC3339), now.Format(time.RFC3339), err)
}

// Open returns the value of an envelope. It asks the plugin when it does not know the seed.
func (p *Provider) Open(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	var from *source
	data, rest, ok := split(stored)
	if ok && len(data) > 0 {
		from = p.known.get(rest)
	}
	if from == nil {
		e, err := parse(stored)
		if err != nil {
			return nil, false, err
		}
		if from, err = p.source(ctx, e); err != nil {
			return nil, false, err
		}
		data = e.data
	}
	value, _, err := from.Open(ctx, key, data)
	if err != nil {
		return nil, false, err
	}
	w := p.writing.Load()
	return value, w != nil && (from.keyID != w.keyID || from.kind != sourceSeed), nil
}

// source returns what to open an envelope with.
func (p *Provider) source(ctx context.Context, e *envelope) (*source, error) {
	rest := e.appendRest(nil)
	if s := p.known.get(rest); s != nil {
		return s, nil
	}
	secret, err := call(ctx, &p.breaker, func() ([]byte, error) {
		return p.service.Decrypt(ctx, string(uuid.NewUUID()), e.source)
	})
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	open := aes.NewGCM
	if e.kind == sourceSeed {
		open = aes.NewSeed
	}
	t, err := open(secret)
	if err != nil {
		return nil, err
	}
	s := &source{Transformer: t, keyID: e.source.KeyID, kind: e.kind}
	p.known.put(rest, s)
	return s, nil
}

// Check tells whether the plugin is well, by asking for its status and taking a new seed if that tells of
// another key. An answer counts for 20 seconds, the lack of a good one for three.
func (p *Provider) Check(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if time.Now().Before(p.health.until) {
		return p.health.err
	}
	err := p.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return err // of the caller, not of the plugin
	}
	p.note(err)
	return err
}

// note keeps an answer.
func (p *Provider) note(err error) {
	switch {
	case err != nil:
		p.log.Warn("KMS plugin failed its health check", "error", err)
	case p.health.err != nil:
		p.log.Info("KMS plugin is well again")
	}
	keep := healthyFor
	if err != nil {
		keep = unhealthyFor
	}
	p.health = health{err: err, until: time.Now().Add(keep)}
}

// ask asks the plugin and draws the consequences.
func (p *Provider) ask(ctx context.Context) error {
	start := time.Now()
	status, err := call(ctx, &p.breaker, func() (Status, error) { return p.service.Status(ctx) })
	if err != nil {
		return fmt.Errorf("failed to perform status section of the healthz check for KMS Provider %s, error: %w", p.name, err)
	}
	var wrong []error
	if status.Health != "ok" {
		wrong = append(wrong, fmt.Errorf("got unexpected healthz status: %s", status.Health))
	}
	wrong = append(wrong, p.checkVersion(status.Version))
	if err := checkKeyID(status.KeyID); err != nil {
		wrong = append(wrong, fmt.Errorf("got invalid KMSv2 KeyID hash %q: %w", hash(status.KeyID), err))
	} else {
		wrong = append(wrong, p.renew(ctx, status.KeyID, start))
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("kmsv2 Provider %s is not healthy, error: %w", p.name, err)
	}
	return nil
}

func (p *Provider) checkVersion(version string) error {
	switch {
	case version != "v2" && version != "v2beta1":
		return fmt.Errorf("expected KMSv2 API version v2, got %s", version)
	case p.version != "" && p.version != version:
		return fmt.Errorf("KMSv2 API version should not change after the initial status response version %s, got %s", p.version, version)
	}
	p.version = version
	return nil
}

// renew prolongs the seed or, when the plugin's key is another one, takes a new one. A failure leaves the old one for its time.
func (p *Provider) renew(ctx context.Context, keyID string, now time.Time) error {
	old := p.writing.Load()
	if old != nil && old.keyID == keyID {
		w := *old
		w.expires = now.Add(writeFor)
		p.writing.Store(&w)
		return nil
	}
	seed := make([]byte, aes.SeedSize)
	_, _ = rand.Read(seed) // never fails
	uid := string(uuid.NewUUID())
	sealed, err := call(ctx, &p.breaker, func() (Sealed, error) { return p.service.Encrypt(ctx, uid, seed) })
	if err != nil {
		return fmt.Errorf("failed to rotate DEK uid=%q: failed to encrypt DEK, error: %w", uid, err)
	}
	if err := sealed.check(); err != nil {
		return fmt.Errorf("failed to rotate DEK uid=%q: %w", uid, err)
	}
	if sealed.KeyID != keyID {
		return fmt.Errorf("failed to rotate DEK uid=%q: the plugin's status tells another key than it encrypts with, statusKeyIDHash=%q, encryptKeyIDHash=%q",
			uid, hash(keyID), hash(sealed.KeyID))
	}
	transformer, err := aes.NewSeed(seed)
	if err != nil {
		return err
	}
	e := &envelope{source: sealed, kind: sourceSeed}
	rest := e.appendRest(nil)
	p.known.put(rest, &source{Transformer: transformer, keyID: keyID, kind: e.kind})
	p.writing.Store(&writing{seal: transformer, keyID: keyID, rest: rest, expires: now.Add(writeFor)})
	p.log.Info("new seed", "uid", uid, "key", hash(keyID))
	return nil
}

// Run polls the plugin's status until the context ends: every minute, or every ten seconds while it
// is not well. It returns nil.
func (p *Provider) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := healthyPoll
		if err := p.Check(ctx); err != nil {
			wait = unhealthyPoll
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return nil
}
