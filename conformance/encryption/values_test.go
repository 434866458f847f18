package encryption_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	ours "github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/config"
	"github.com/keelson-dev/keelson/storage/encryption/kms/kmstest"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"

const at = "/registry/secrets/default/one"

func secret(b byte, size int) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, size))
}

// keyed is a provider with keys, each NAME:BYTE.
func keyed(kind string, size int, keys ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - %s:\n      keys:\n", kind)
	for _, k := range keys {
		name, key, _ := strings.Cut(k, ":")
		fmt.Fprintf(&b, "      - name: %s\n        secret: %s\n", name, secret(key[0], size))
	}
	return b.String()
}

func plugin(name, socket string) string {
	return fmt.Sprintf("  - kms: {apiVersion: v2, name: %s, endpoint: 'unix://%s', timeout: 10s}\n", name, socket)
}

const identity = "  - identity: {}\n"

func secrets(providers ...string) string {
	return head + "- resources: [secrets]\n  providers:\n" + strings.Join(providers, "")
}

// pair is the same configuration, read by both.
type pair struct {
	upstream value.Transformer
	ours     ours.Transformer
}

func locate() config.Locate {
	return config.Prefixes("/registry/", []config.Resource{{Name: "secrets", Prefix: "/registry/secrets/"}})
}

func load(t testing.TB, content string) pair {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	theirs, err := encryptionconfig.LoadEncryptionConfig(ctx, path, false, "id")
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Open(path, locate(), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return pair{encryptionconfig.StaticTransformers(theirs.Transformers).TransformerForResource(schema.GroupResource{Resource: "secrets"}), file.For(at)}
}

// opened is a transformer's result for stored bytes.
type opened struct {
	value string
	stale bool
	err   string
}

func (p pair) open(t testing.TB, key string, stored []byte) (upstream, our opened) {
	t.Helper()
	// Upstream's CBC panics if there is only an initialization vector.
	func() {
		defer func() {
			if r := recover(); r != nil {
				upstream = opened{err: "panic"}
			}
		}()
		v, stale, err := p.upstream.TransformFromStorage(t.Context(), stored, value.DefaultContext(key))
		upstream = verdict(v, stale, err)
	}()
	v, stale, err := p.ours.Open(t.Context(), key, stored)
	return upstream, verdict(v, stale, err)
}

func verdict(v []byte, stale bool, err error) opened {
	if err != nil {
		text := strings.ReplaceAll(err.Error(), "\u00a0", " ") // the texts of upstream's protobuf are deliberately unstable
		if i := strings.Index(text, "proto:"); i >= 0 {
			text = "proto"
		}
		return opened{err: text}
	}
	return opened{value: string(v), stale: stale}
}

func (p pair) seal(t testing.TB, key string, v []byte) (upstream, our []byte) {
	t.Helper()
	upstream, err := p.upstream.TransformToStorage(t.Context(), v, value.DefaultContext(key))
	if err != nil {
		t.Fatal(err)
	}
	our, err = p.ours.Seal(t.Context(), nil, key, v)
	if err != nil {
		t.Fatal(err)
	}
	return upstream, our
}

func socket(t testing.TB) (*kmstest.Plugin, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	p := kmstest.New("key-1")
	if err := p.Start(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p, path
}

func configurations(t testing.TB) map[string]string {
	_, path := socket(t)
	all := map[string]string{
		"identity":        secrets(identity),
		"secretbox":       secrets(keyed("secretbox", 32, "key1:1", "key2:2"), identity),
		"kms":             secrets(plugin("vault-"+strings.ToLower(t.Name()[:5]), path), identity),
		"several":         secrets(keyed("aesgcm", 32, "key1:1"), keyed("secretbox", 32, "key1:1"), keyed("aescbc", 32, "key1:1"), identity),
		"same kind":       secrets(keyed("aescbc", 32, "key2:2"), keyed("aescbc", 16, "key1:1")),
		"encryption ends": secrets(identity, keyed("aesgcm", 32, "key1:1"), keyed("aescbc", 32, "key1:1")),
	}
	for _, size := range []int{16, 24, 32} {
		for _, kind := range []string{"aescbc", "aesgcm"} {
			all[fmt.Sprint(kind, " ", size)] = secrets(keyed(kind, size, "key1:1", "key2:2"), identity)
		}
	}
	return all
}

// TestValues: each reads what the other writes; under another key only where that is not authenticated.
func TestValues(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for name, content := range configurations(t) {
		t.Run(name, func(t *testing.T) {
			p := load(t, content)
			for length := range 200 {
				v := make([]byte, length)
				for i := range v {
					v[i] = byte(random.Uint32())
				}
				upstream, our := p.seal(t, at, v)
				if name != "identity" && name != "encryption ends" && len(upstream) != len(our) {
					t.Errorf("upstream stores %d bytes, we %d", len(upstream), len(our))
				}
				for _, stored := range [][]byte{upstream, our} {
					for _, key := range []string{at, at + "2"} {
						a, b := p.open(t, key, stored)
						if a != b {
							t.Fatalf("%q at %s: upstream %+v, we %+v", stored, key, a, b)
						}
						if key == at && (b.value != string(v) || b.stale || b.err != "") {
							t.Fatalf("%q: %+v", stored, b)
						}
					}
				}
			}
		})
	}
}

// TestChanged: both give the same results for bytes that were changed, cut, or written under other configurations.
func TestChanged(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	all := map[string]pair{}
	for name, content := range configurations(t) {
		all[name] = load(t, content)
	}
	var stored [][]byte
	for _, p := range all {
		upstream, our := p.seal(t, at, []byte("some value that is longer than a block"))
		stored = append(stored, upstream, our)
	}
	stored = append(stored, []byte("k8s:enc:aescbc:v1:key3:x"), []byte("k8s:enc:"), []byte("k8s:enc:kms:v1:a:"), []byte("k8s\x00"), nil)
	compared, panics := 0, 0
	for name, p := range all {
		for _, s := range stored {
			for range 150 {
				compared++
				a, b := p.open(t, at, s)
				switch {
				case a.err == "panic" && b.err != "":
					panics++
				case a != b:
					t.Fatalf("%s: %q: upstream %+v, we %+v", name, s, a, b)
				}
				s = change(random, s)
			}
		}
	}
	t.Logf("%d compared, at %d upstream panics", compared, panics)
}

func change(random *rand.Rand, s []byte) []byte {
	s = bytes.Clone(s)
	if len(s) == 0 {
		return []byte("k8s:enc:aescbc:v1:key1:0123456789abcdef")
	}
	i := random.IntN(len(s))
	switch random.IntN(5) {
	case 0:
		return s[:i]
	case 1:
		return append(s[:i:i], append([]byte{byte(random.Uint32())}, s[i:]...)...)
	case 2:
		return append(s[:i:i], s[i+1:]...)
	default:
		s[i] ^= 1 << random.IntN(8)
	}
	return s
}

// TestRotation: both consider the same records stale.
func TestRotation(t *testing.T) {
	for _, kind := range []string{"aescbc", "aesgcm", "secretbox"} {
		before := load(t, secrets(keyed(kind, 32, "key1:1")))
		upstream, our := before.seal(t, at, []byte("value"))
		for name, after := range map[string]string{
			"second":   secrets(keyed(kind, 32, "key1:1", "key2:2")),
			"first":    secrets(keyed(kind, 32, "key2:2", "key1:1")),
			"gone":     secrets(keyed(kind, 32, "key2:2")),
			"other":    secrets(keyed(kind, 32, "key1:2")),
			"end":      secrets(identity, keyed(kind, 32, "key1:1")),
			"none":     secrets(identity),
			"unlisted": head + "- resources: [configmaps]\n  providers:\n" + identity,
		} {
			p := load(t, after)
			for _, stored := range [][]byte{upstream, our} {
				a, b := p.open(t, at, stored)
				// With a wrong key CBC gives random results.
				if a != b && (kind != "aescbc" || name != "other") {
					t.Errorf("%s, %s: upstream %+v, we %+v", kind, name, a, b)
				}
			}
		}
	}
}

// TestKMSRotation: a value written before the plugin's key changed is readable, and stale, for both.
func TestKMSRotation(t *testing.T) {
	p, path := socket(t)
	first := load(t, secrets(plugin("rotating-a", path)))
	upstream, our := first.seal(t, at, []byte("value"))
	p.Rotate("key-2")
	second := load(t, secrets(plugin("rotating-a", path)))
	second.seal(t, at, nil) // now both know the new key
	for _, stored := range [][]byte{upstream, our} {
		if a, b := second.open(t, at, stored); a != b || a != (opened{value: "value", stale: true}) {
			t.Errorf("upstream %+v, we %+v", a, b)
		}
	}
	p.Forget("key-1")
	third := load(t, secrets(plugin("rotating-a", path)))
	third.seal(t, at, nil)
	for _, stored := range [][]byte{upstream, our} {
		if a, b := third.open(t, at, stored); a != b || a.err == "" {
			t.Errorf("upstream %+v, we %+v", a, b)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	v := bytes.Repeat([]byte{'v'}, 1024)
	for name, content := range benchmarked(b) {
		p := load(b, content)
		b.Run(name+"/upstream", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.upstream.TransformToStorage(b.Context(), v, value.DefaultContext(at)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.ours.Seal(b.Context(), nil, at, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	v := bytes.Repeat([]byte{'v'}, 1024)
	for name, content := range benchmarked(b) {
		p := load(b, content)
		stored, _ := p.seal(b, at, v)
		b.Run(name+"/upstream", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := p.upstream.TransformFromStorage(b.Context(), stored, value.DefaultContext(at)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := p.ours.Open(b.Context(), at, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchmarked(b *testing.B) map[string]string {
	_, path := socket(b)
	return map[string]string{
		"aescbc":    secrets(keyed("aescbc", 32, "key1:1")),
		"aesgcm":    secrets(keyed("aesgcm", 32, "key1:1")),
		"secretbox": secrets(keyed("secretbox", 32, "key1:1")),
		"kms":       secrets(plugin("bench-"+strings.ToLower(b.Name()[9:]), path)),
	}
}
