package oidc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// maxIssuers is from how many other issuers a verifier accepts claims.
const maxIssuers = 64

// resolver fetches the claim of groups from where a token says that it is (OpenID Connect Core 1.0, 5.6.2). It accepts a token of
// any issuer, as upstream does: the issuer of the first token vouches for it.
type resolver struct {
	verifier *Verifier
	claim    string
	client   *http.Client

	mu      sync.Mutex // guards what follows
	issuers map[string]*source
	started chan *source // takes issuers to run
}

func newResolver(v *Verifier, client *http.Client) *resolver {
	return &resolver{
		verifier: v, claim: v.config.ClaimMappings.Groups.Claim, client: client,
		issuers: map[string]*source{}, started: make(chan *source, maxIssuers),
	}
}

// run runs the issuer of tokens and, once they are known, those of distributed claims.
func (r *resolver) run(ctx context.Context, first *source) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { _ = first.run(ctx) }) // it ends with ctx and without an error
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-r.started:
			all.Go(func() { _ = s.run(ctx) })
		}
	}
}

// expand adds the claim to those of a token, if that says where it is.
func (r *resolver) expand(ctx context.Context, c Claims, token *idToken) error {
	if _, ok := c[r.claim]; ok {
		return nil
	}
	at := token.ClaimSources[token.ClaimNames[r.claim]]
	if at.Endpoint == "" { // there is none, or an aggregated claim, which upstream does not support
		return nil
	}
	value, err := r.resolve(ctx, at.Endpoint, at.AccessToken)
	if err != nil {
		return err
	}
	c[r.claim] = value
	return nil
}

func (r *resolver) resolve(ctx context.Context, url, bearer string) (json.RawMessage, error) {
	body, _, status, err := fetch(ctx, r.client, url, bearer)
	switch {
	case err != nil && status != "":
		return nil, fmt.Errorf("while getting distributed claim %q: error while getting distributed claim JWT: %v", r.claim, status)
	case err != nil:
		return nil, fmt.Errorf("while getting distributed claim %q: %w", r.claim, err)
	}
	issuer, err := unverifiedIssuer(string(body))
	if err != nil {
		return nil, fmt.Errorf("getting untrusted issuer from endpoint %v failed for claim %q: %w", url, r.claim, err)
	}
	from := r.issuer(issuer)
	if from == nil || from.ready() != nil {
		return nil, fmt.Errorf("verifying untrusted issuer %v failed: verifier not initialized for issuer: %q", issuer, issuer)
	}
	claims, _, err := r.verifier.accept(ctx, from, string(body))
	if err != nil {
		return nil, fmt.Errorf("verify distributed claim token: %w", err)
	}
	value, ok := claims[r.claim]
	if !ok {
		return nil, fmt.Errorf("jwt returned by distributed claim endpoint %q did not contain claim: %v", url, r.claim)
	}
	return value, nil
}

// issuer returns an issuer, which is not ready when it is new, or nil if there are too many.
func (r *resolver) issuer(url string) *source {
	if url == r.verifier.config.Issuer.URL {
		return r.verifier.source
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.issuers[url]; ok {
		return s
	}
	if len(r.issuers) >= maxIssuers {
		return nil
	}
	s := newSource(r.client, url, "")
	s.failed = func(err error) {
		r.verifier.options.Log.Error("oidc authenticator: async token verifier", "issuer", url, "error", err)
	}
	r.issuers[url] = s
	r.started <- s // there is room for all
	return s
}
