package kms_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage/encryption/kms"
)

const at = "/registry/secrets/default/one"

func seal(t testing.TB, p *kms.Provider, value string) []byte {
	t.Helper()
	sealed, err := p.Seal(t.Context(), nil, at, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func wantOpen(t testing.TB, p *kms.Provider, sealed []byte, value string, stale bool) {
	t.Helper()
	got, old, err := p.Open(t.Context(), at, sealed)
	if err != nil || string(got) != value || old != stale {
		t.Errorf("Open = %q, stale %v, %v; want %q, %v", got, old, err, value, stale)
	}
}

// running runs a provider for the time of a test in a bubble.
func running(t *testing.T, p *kms.Provider) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return func() { cancel(); wg.Wait() }
}

// TestOutage: without the plugin reads go on, and writes for three minutes after its last good status.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFake()
		p := kms.New("vault", f, kms.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := running(t, p)
		defer stop()
		first := seal(t, p, "first")
		time.Sleep(time.Hour)
		seal(t, p, "an hour later")
		f.set(func(f *fake) { f.down = errDown })
		time.Sleep(2 * time.Minute)
		seal(t, p, "coasting")
		time.Sleep(2 * time.Minute)
		_, err := p.Seal(t.Context(), nil, at, []byte("too late"))
		if !errors.Is(err, kms.ErrUnavailable) || !strings.Contains(err.Error(), "encryptedDEKSource with keyID hash") ||
			!strings.Contains(err.Error(), "failed to perform status section of the healthz check for KMS Provider vault, error: ") {
			t.Errorf("Seal: %v", err)
		}
		wantOpen(t, p, first, "first", false)
		if err := p.Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) {
			t.Errorf("Check: %v", err)
		}
		f.set(func(f *fake) { f.down = nil })
		time.Sleep(11 * time.Second)
		wantOpen(t, p, seal(t, p, "again"), "again", false)
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
		if f.decrypted() != 0 {
			t.Errorf("%d seeds decrypted that the provider made itself", f.decrypted())
		}
		if !strings.Contains(log.String(), "KMS plugin is well again") {
			t.Errorf("log: %s", log.String())
		}
	})
}

// TestRotation: soon after the plugin's key changed, values are written with a new seed, and older ones are stale.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := kms.New("vault", f, kms.Options{})
		stop := running(t, p)
		defer stop()
		first := seal(t, p, "first")
		wantOpen(t, p, first, "first", false)
		f.set(func(f *fake) { f.status.KeyID = "key-2" })
		time.Sleep(81 * time.Second)
		second := seal(t, p, "second")
		if !bytes.Contains(second, []byte("key-2")) || bytes.Contains(second, []byte("key-1")) {
			t.Errorf("written after the change: %q", second)
		}
		wantOpen(t, p, first, "first", true)
		wantOpen(t, p, second, "second", false)

		// Another server, or this one after a restart, asks the plugin, once per seed.
		other := kms.New("vault", f, kms.Options{})
		for range 3 {
			for _, sealed := range [][]byte{first, second} {
				if _, _, err := other.Open(t.Context(), at, sealed); err != nil {
					t.Error(err)
				}
			}
		}
		if f.decrypted() != 2 {
			t.Errorf("%d seeds decrypted, want 2", f.decrypted())
		}
		time.Sleep(25 * time.Hour) // unused that long, they may be forgotten; nothing else may change
		wantOpen(t, other, second, "second", false)
	})
}

// TestFailedRotation: while no new seed can be had, the old one serves for its time.
func TestFailedRotation(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fake)
		want   string
	}{
		"encrypts with another key than it says": {
			func(f *fake) { f.encrypt = func(s kms.Sealed) kms.Sealed { s.KeyID = "key-3"; return s } },
			"the plugin's status tells another key than it encrypts with",
		},
		"no key ID":     {func(f *fake) { f.status.KeyID = "" }, `got invalid KMSv2 KeyID hash "": keyID is empty`},
		"long key ID":   {func(f *fake) { f.status.KeyID = strings.Repeat("k", 1025) }, "keyID is 1025 bytes, which exceeds the max size of 1024"},
		"binary key ID": {func(f *fake) { f.status.KeyID = "\xff" }, "invalid UTF-8"},
		"nothing encrypted": {
			func(f *fake) { f.encrypt = func(s kms.Sealed) kms.Sealed { s.Ciphertext = nil; return s } },
			"failed to validate encrypted DEK source: encrypted DEK source is empty",
		},
		"much encrypted": {
			func(f *fake) {
				f.encrypt = func(s kms.Sealed) kms.Sealed { s.Ciphertext = make([]byte, 1025); return s }
			},
			"encrypted DEK source is 1025 bytes, which exceeds the max size of 1024",
		},
		"annotation without a domain": {
			func(f *fake) {
				f.encrypt = func(s kms.Sealed) kms.Sealed { s.Annotations = map[string][]byte{"one": nil}; return s }
			},
			`annotations: Invalid value: "one": should be a domain with at least two segments separated by dots`,
		},
		"large annotations": {
			func(f *fake) {
				f.encrypt = func(s kms.Sealed) kms.Sealed {
					s.Annotations = map[string][]byte{"a.example.com": make([]byte, 32<<10)}
					return s
				}
			},
			"total size of annotations is 32781, which exceeds the max size of 32768",
		},
		"not well":      {func(f *fake) { f.status.Health = "no disk" }, "got unexpected healthz status: no disk"},
		"other version": {func(f *fake) { f.status.Version = "v2beta1" }, "KMSv2 API version should not change after the initial status response version v2, got v2beta1"},
		"version 3":     {func(f *fake) { f.status.Version = "v3" }, "expected KMSv2 API version v2, got v3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				p := kms.New("vault", f, kms.Options{})
				first := seal(t, p, "first")
				f.set(func(f *fake) { f.status.KeyID = "key-2"; c.change(f) })
				time.Sleep(time.Minute)
				if err := p.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "kmsv2 Provider vault is not healthy, error: ") ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("Check: %v", err)
				}
				if f.status.KeyID == "key-2" && f.encrypt != nil {
					wantOpen(t, p, seal(t, p, "coasting"), "coasting", false)
				}
				wantOpen(t, kms.New("vault", newFake(), kms.Options{}), first, "first", false)
			})
		})
	}
}

// TestHanging: a plugin that answers nothing holds up one call, not one call for each value.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		sealed := seal(t, kms.New("vault", f, kms.Options{}), "value")
		p := kms.New("vault", f, kms.Options{})
		f.set(func(f *fake) { f.takes, f.down = 3*time.Second, errDown })
		start := time.Now()
		for range 1000 {
			_, _, err := p.Open(t.Context(), at, sealed)
			if !errors.Is(err, kms.ErrUnavailable) || !strings.HasPrefix(err.Error(), "failed to decrypt DEK, error: ") {
				t.Fatalf("Open: %v", err)
			}
			if _, err := p.Seal(t.Context(), nil, at, nil); !errors.Is(err, kms.ErrUnavailable) {
				t.Fatalf("Seal: %v", err)
			}
		}
		if waited := time.Since(start); waited > 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		f.set(func(f *fake) { f.takes, f.down = 0, nil })
		time.Sleep(4 * time.Second)
		wantOpen(t, p, sealed, "value", false)
	})
}

// TestImpatient: a caller who does not wait says nothing about the plugin.
func TestImpatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		sealed := seal(t, kms.New("vault", f, kms.Options{}), "value")
		p := kms.New("vault", f, kms.Options{})
		f.set(func(f *fake) { f.takes = time.Second })
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := p.Open(ctx, at, sealed); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open: %v", err)
		}
		if _, err := p.Seal(ctx, nil, at, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Seal: %v", err)
		}
		if err := p.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Check: %v", err)
		}
		wantOpen(t, p, sealed, "value", false)
		seal(t, p, "value")
	})
}

// TestManyAtOnce: what all need is asked for once.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.takes = time.Second
		p := kms.New("vault", f, kms.Options{})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := p.Seal(t.Context(), nil, at, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if f.statuses != 1 {
			t.Errorf("asked %d times for the status", f.statuses)
		}
	})
}

func TestRefused(t *testing.T) {
	p := kms.New("vault", newFake(), kms.Options{})
	sealed := seal(t, p, "value")
	if _, _, err := p.Open(t.Context(), at+"2", sealed); err == nil {
		t.Error("opened at another key")
	}
	for stored, want := range map[string]string{
		"":                               "encrypted data is empty",
		"\xff":                           "proto: cannot parse invalid wire-format data",
		"\x0a\x01x":                      "failed to validate encrypted DEK source: encrypted DEK source is empty",
		"\x0a\x01x\x1a\x01y":             "failed to validate key id: keyID is empty",
		"\x0a\x01x\x1a\x01y\x12\x01\xff": "string field contains invalid UTF-8",
		"\x0a\x01x\x28\x02":              "unknown encryptedDEKSourceType: 2",
		"\x0a\x01x\x1a\x01y\x12\x01z":    "failed to decrypt DEK, error: " + errWrongKey.Error(),
	} {
		if _, _, err := p.Open(t.Context(), at, []byte(stored)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", stored, err, want)
		}
	}
}

// FuzzOpen: whatever is stored, no panic, and no other value than what was sealed.
func FuzzOpen(f *testing.F) {
	p := kms.New("vault", newFake(), kms.Options{})
	sealed := seal(f, p, "value")
	f.Add(sealed)
	f.Add([]byte("\x0a\x01x\x1a\x01y\x12\x01z\x22\x04\x0a\x02ab\x28\x01"))
	for i := range sealed {
		f.Add(sealed[:i])
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		value, _, err := p.Open(t.Context(), at, stored)
		if err == nil && string(value) != "value" {
			t.Errorf("forged %q", value)
		}
		if _, _, err := p.Open(t.Context(), at+"/elsewhere", stored); err == nil {
			t.Error("opened at another key")
		}
	})
}

func TestTampered(t *testing.T) {
	p := kms.New("vault", newFake(), kms.Options{})
	sealed := seal(t, p, "value")
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			if value, _, err := p.Open(t.Context(), at, changed); err == nil && string(value) != "value" {
				t.Fatalf("bit %d of byte %d changed: %q", bit, i, value)
			}
		}
	}
}
