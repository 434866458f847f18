package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

const (
	// retry is how often an issuer that does not answer is asked where its keys are.
	retry = 10 * time.Second
	// refresh is how often keys are fetched if no token asks for it.
	refresh = time.Hour
	// Tokens signed by unknown keys make at most one request a second to the issuer, and bursts of so many.
	fetchBurst = 5
)

var (
	errSignature = errors.New("failed to verify id token signature")
	errEnded     = errors.New("fetching keys: the authenticator has ended")
)

// source is an issuer with its keys. It has keys only while run runs.
type source struct {
	client     *http.Client
	issuer, at string // the issuer's URL, and that of its configuration if it is elsewhere
	fetched    func(answer []byte, err error)
	failed     func(error) // is told each failure of discovery
	limit      *rate.Limiter
	asked      chan struct{} // has an element if somebody waits for keys
	discovered chan struct{} // is closed when it is known where the keys are
	mu         sync.Mutex    // guards what follows
	state      error         // why there are no keys
	keys       []jose.JSONWebKey
	ended      bool
	next       *fetching // is waited for and has not begun
	current    *fetching // has begun
}

// fetching is a request for keys that some wait for.
type fetching struct {
	done chan struct{}
	err  error // what came of it; read it when done is closed
}

func newSource(client *http.Client, issuer, at string) *source {
	return &source{
		client: client, issuer: issuer, at: at, fetched: func([]byte, error) {}, failed: func(error) {},
		limit: rate.NewLimiter(rate.Every(time.Second), fetchBurst), asked: make(chan struct{}, 1), discovered: make(chan struct{}),
		state: fmt.Errorf("oidc: authenticator for issuer %q is not initialized", issuer),
	}
}

// run finds the keys and fetches them whenever somebody asks, until ctx ends.
func (s *source) run(ctx context.Context) error {
	defer s.end()
	defer s.client.CloseIdleConnections()
	url := s.discover(ctx)
	if url == "" {
		return nil
	}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.asked:
		case <-tick.C:
		}
		s.fetch(ctx, url)
	}
}

// discover asks the issuer where its keys are until it answers; it returns nothing if ctx ended before.
func (s *source) discover(ctx context.Context) (url string) {
	tick := time.NewTicker(retry)
	defer tick.Stop()
	for {
		url, err := discover(ctx, s.client, s.issuer, s.at)
		s.mu.Lock()
		s.state = err
		s.mu.Unlock()
		if err == nil {
			close(s.discovered)
			return url
		}
		if ctx.Err() != nil {
			return ""
		}
		s.failed(err)
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}

// fetch fetches the keys and tells those who wait. Keys that cannot be fetched stay.
func (s *source) fetch(ctx context.Context, url string) {
	s.mu.Lock()
	begun := s.next
	if begun == nil {
		begun = &fetching{done: make(chan struct{})}
	}
	s.next, s.current = nil, begun // who asks from now on wants a later answer
	s.mu.Unlock()
	keys, err := s.request(ctx, url)
	s.mu.Lock()
	if err == nil {
		s.keys = keys
	}
	s.current = nil
	s.mu.Unlock()
	begun.err = err
	close(begun.done)
}

func (s *source) request(ctx context.Context, url string) ([]jose.JSONWebKey, error) {
	body, kind, status, err := fetch(ctx, s.client, url, "")
	if err != nil && status != "" {
		err = fmt.Errorf("oidc: get keys failed: %w", err)
	} else if err != nil {
		err = fmt.Errorf("oidc: get keys failed %w", err)
	}
	var set jose.JSONWebKeySet
	if err == nil {
		if err = decode(body, kind, &set); err != nil {
			err = fmt.Errorf("oidc: failed to decode keys: %w %s", err, quoted(body))
		}
	}
	if ctx.Err() == nil {
		s.fetched(body, err)
	}
	return set.Keys, err
}

// end lets those who wait give up.
func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.next != nil {
		s.next.err = errEnded
		close(s.next.done)
		s.next = nil
	}
}

// ready returns why no token can be verified, or nil.
func (s *source) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// verify returns the payload of a token signed by one of the keys. It fetches the keys if none of those that are known fits.
func (s *source) verify(ctx context.Context, signed *jose.JSONWebSignature) ([]byte, error) {
	s.mu.Lock()
	keys := s.keys
	s.mu.Unlock()
	if payload, ok := verifiedBy(keys, signed); ok {
		return payload, nil
	}
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	keys = s.keys
	s.mu.Unlock()
	if payload, ok := verifiedBy(keys, signed); ok {
		return payload, nil
	}
	return nil, errSignature
}

func verifiedBy(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) ([]byte, bool) {
	id := signed.Signatures[0].Header.KeyID
	for i := range keys {
		if id != "" && keys[i].KeyID != id {
			continue
		}
		if payload, err := signed.Verify(&keys[i]); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// wait waits until keys have been fetched.
func (s *source) wait(ctx context.Context) error {
	waiting, err := s.ask()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-waiting.done:
	}
	if waiting.err != nil {
		return fmt.Errorf("fetching keys %w", waiting.err)
	}
	return nil
}

// ask asks for keys. If that happens too often, an answer that is under way must do, or there is none.
func (s *source) ask() (*fetching, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, errEnded
	case s.next != nil:
		return s.next, nil
	case !s.limit.Allow():
		if s.current != nil {
			return s.current, nil
		}
		return nil, errSignature
	}
	s.next = &fetching{done: make(chan struct{})}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return s.next, nil
}
