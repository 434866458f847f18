package encryption_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/storage/encryption"
)

// Costs per value of 1 KiB.
func benchmarkEach(b *testing.B, f func(b *testing.B, transformer encryption.Transformer)) {
	for name, transformer := range providers(b) {
		name = strings.TrimPrefix(name, encryption.Reserved)
		b.Run(strings.Split(name, ":")[0], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(1024)
			f(b, transformer)
		})
	}
}

const benchKey = "/registry/secrets/default/one"

func BenchmarkSeal(b *testing.B) {
	value := bytes.Repeat([]byte{'v'}, 1024)
	benchmarkEach(b, func(b *testing.B, transformer encryption.Transformer) {
		for b.Loop() {
			if _, err := transformer.Seal(b.Context(), nil, benchKey, value); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	value := bytes.Repeat([]byte{'v'}, 1024)
	benchmarkEach(b, func(b *testing.B, transformer encryption.Transformer) {
		sealed, err := transformer.Seal(b.Context(), nil, benchKey, value)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, _, err := transformer.Open(b.Context(), benchKey, sealed); err != nil {
				b.Fatal(err)
			}
		}
	})
}
