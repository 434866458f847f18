package oidc_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/pki"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

func unrelated(t *testing.T) []byte {
	t.Helper()
	authority, err := pki.New("unrelated")
	if err != nil {
		t.Fatal(err)
	}
	return authority.PEM()
}

// tell returns a logger that tells when something is logged.
func tell(told chan struct{}) *slog.Logger { return slog.New(slog.NewTextHandler(teller(told), nil)) }

type teller chan struct{}

// Write implements io.Writer.
func (t teller) Write(p []byte) (int, error) {
	select {
	case t <- struct{}{}:
	default:
	}
	return len(p), nil
}

func TestLateIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(keyRSA())
		i.set(true)
		v, err := oidc.New(basic(), oidc.Options{Client: i.client()})
		if err != nil {
			t.Fatal(err)
		}
		run(t, v)
		synctest.Wait()
		good := keyRSA().sign(claims(nil))
		if _, err := v.Verify(t.Context(), good); !errors.Is(err, oidc.ErrNotReady) || err.Error() != "oidc: authenticator not initialized" {
			t.Errorf("while it is down: %v", err)
		}
		if err := v.Check(t.Context()); err == nil || err.Error() != `oidc: authenticator for issuer "https://issuer.example.com" is not healthy: 503 Service Unavailable: down`+"\n" {
			t.Errorf("while it is down: %v", err)
		}
		for path, texts := range map[string][]string{"/.well-known/openid-configuration": {
			"x", `{"issuer":"https://other","jwks_uri":"https://issuer.example.com/keys"}`, `{"issuer":"` + issuerURL + `"}`, strings.Repeat(" ", 1<<21),
		}} {
			i.set(false)
			for n, text := range texts {
				i.answer(path, text)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				want := []string{"failed to decode provider discovery object: got Content-Type = application/json", `expected "https://issuer.example.com" got "https://other"`, "provider did not return JWKS URL", "larger than"}[n]
				if err := v.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%.100s: %v", text, err)
				}
			}
			i.mu.Lock()
			delete(i.answers, path)
			i.mu.Unlock()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := v.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := v.Verify(t.Context(), keyRSA().sign(claims(nil))); err != nil {
			t.Error(err)
		}
	})
}

// TestRotation: a new key is found by the first token that it signed; one that is withdrawn ends within an hour.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(keyRSA())
		v := start(t, i, basic(), oidc.Options{})
		verify := func(k key) error {
			_, err := v.Verify(t.Context(), k.sign(claims(nil)))
			return err
		}
		if err := verify(keyRSA()); err != nil || i.fetches() != 1 {
			t.Fatalf("%v after %d fetches", err, i.fetches())
		}
		if err := verify(keyRSA()); err != nil || i.fetches() != 1 {
			t.Fatalf("%v after %d fetches", err, i.fetches())
		}
		i.rotate(keyNext())
		if err := verify(keyNext()); err != nil || i.fetches() != 2 {
			t.Fatalf("%v after %d fetches", err, i.fetches())
		}
		if err := verify(keyRSA()); !errors.Is(err, oidc.ErrSignature) {
			t.Errorf("a key that is gone: %v", err)
		}
		i.rotate(keyRSA())
		if err := verify(keyNext()); err != nil {
			t.Errorf("a key that is known: %v", err)
		}
		i.set(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := verify(keyNext()); err != nil {
			t.Errorf("while the issuer is down: %v", err)
		}
		if err := verify(keyRSA()); err == nil || err.Error() != "oidc: verify token: failed to verify signature: fetching keys oidc: get keys failed: 503 Service Unavailable: down\n" {
			t.Errorf("while the issuer is down: %v", err)
		}
		i.set(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := verify(keyNext()); !errors.Is(err, oidc.ErrSignature) {
			t.Errorf("a key that was withdrawn: %v", err)
		}
		i.answer("/keys", "x")
		if err := verify(keyNext()); err == nil || !strings.Contains(err.Error(), "oidc: failed to decode keys: got Content-Type = application/json, but could not unmarshal as JSON") {
			t.Errorf("bad keys: %v", err)
		}
		for kind, want := range map[string]string{"text/html": `got "text/html"`, "application/json; charset=utf-8": "got Content-Type = application/json, but", "application/": `got "application/"`, "application/json; charset": `got "application/json; charset"`} {
			i.answer("/keys", "<"+strings.Repeat("é", 1000))
			i.mu.Lock()
			i.kind = kind
			i.mu.Unlock()
			time.Sleep(time.Second)
			if err := verify(keyNext()); err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), " <"+strings.Repeat("é", 511)+"...") {
				t.Errorf("%s: %v", kind, err)
			}
		}
		enough := "<>" + strings.Repeat("é", 511)
		i.answer("/keys", enough)
		time.Sleep(time.Second)
		if err := verify(keyNext()); err == nil || !strings.HasSuffix(err.Error(), " "+enough) {
			t.Errorf("an answer of 1024 bytes: %v", err)
		}
	})
}

// TestRate: tokens of unknown keys do not make a request each.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(keyRSA())
		v := start(t, i, basic(), oidc.Options{})
		flood := func() {
			var all sync.WaitGroup
			for n := range 50 {
				all.Go(func() {
					forged := key{fmt.Sprint("unknown-", n), "RS256", keyNext().private}.sign(claims(nil))
					if _, err := v.Verify(t.Context(), forged); !errors.Is(err, oidc.ErrSignature) {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		for range 10 {
			flood()
		}
		if n := i.fetches(); n > 5 {
			t.Errorf("%d fetches", n)
		}
		for range 10 {
			time.Sleep(time.Second)
			flood()
		}
		if n := i.fetches(); n > 15 {
			t.Errorf("%d fetches", n)
		}
		// What became of the last attempt is not told to those for whom there is none.
		i.set(true)
		time.Sleep(time.Second)
		for _, want := range []string{"503 Service Unavailable: down\n", "failed to verify id token signature"} {
			if _, err := v.Verify(t.Context(), keyNext().sign(claims(nil))); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("while it is down: %v, want %s", err, want)
			}
		}
		i.set(false)
		i.rotate(keyNext())
		time.Sleep(time.Second)
		if _, err := v.Verify(t.Context(), keyNext().sign(claims(nil))); err != nil {
			t.Errorf("a new key: %v", err)
		}
	})
}

// TestRotationUnderLoad: no token is refused because the keys change.
func TestRotationUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(keyRSA())
		v := start(t, i, basic(), oidc.Options{})
		var all sync.WaitGroup
		defer all.Wait()
		for round := range 20 {
			current, next := keyRSA(), keyNext()
			if round%2 == 1 {
				current, next = next, current
			}
			current.id = fmt.Sprint("key-", round)
			next.id = fmt.Sprint("key-", round+1)
			i.rotate(current, next) // published before it signs, as OpenID Connect Core 10.1.1 wants
			for range 8 {
				all.Go(func() {
					if _, err := v.Verify(t.Context(), current.sign(claims(nil))); err != nil {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			time.Sleep(1500 * time.Millisecond)
		}
	})
}
