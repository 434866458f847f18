package encryption_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
	"github.com/keelson-dev/keelson/storage/encryption/kms"
	"github.com/keelson-dev/keelson/storage/encryption/kms/kmstest"
	"github.com/keelson-dev/keelson/storage/encryption/secretbox"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// plugin starts a KMS plugin and returns a provider of it.
func plugin(t testing.TB) (*kmstest.Plugin, *kms.Provider) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms.sock")
	p := kmstest.New("key-1")
	if err := p.Start(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kms.Dial("unix://"+path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, kms.New("plugin", client, kms.Options{})
}

// providers are a transformer of each kind, as configurations put them together.
func providers(t testing.TB) map[string]encryption.Transformer {
	gcm, err := aes.NewGCM(key('g'))
	if err != nil {
		t.Fatal(err)
	}
	cbc, err := aes.NewCBC(key('c'))
	if err != nil {
		t.Fatal(err)
	}
	box, err := secretbox.New(key('s'))
	if err != nil {
		t.Fatal(err)
	}
	_, provider := plugin(t)
	all := map[string]encryption.Transformer{"identity": encryption.Identity{}}
	for prefix, inner := range map[string]encryption.Transformer{
		"k8s:enc:aesgcm:v1:key1:": gcm, "k8s:enc:aescbc:v1:key1:": cbc,
		"k8s:enc:secretbox:v1:key1:": box, "k8s:enc:kms:v2:plugin:": provider,
	} {
		all[prefix] = encryption.FirstOf(errNone, encryption.Choice{Prefix: prefix, Transformer: inner})
	}
	return all
}

func TestContract(t *testing.T) {
	for name, transformer := range providers(t) {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, storagetest.Backend{
				Open: func(t testing.TB) storage.Store {
					inner := memory.New(memory.Options{History: 500})
					t.Cleanup(func() { inner.Close() })
					return encryption.New(inner, all(transformer))
				},
				Forget: storagetest.ForgetByWriting(500),
			})
		})
	}
}
