package secretbox_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/secretbox"
)

const at = "/registry/secrets/default/one"

func box(t testing.TB) encryption.Transformer {
	t.Helper()
	transformer, err := secretbox.New(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return transformer
}

func TestRoundTrip(t *testing.T) {
	transformer := box(t)
	for length := range 70 {
		value := bytes.Repeat([]byte{'v'}, length)
		sealed, err := transformer.Seal(t.Context(), []byte("before"), at, value)
		if err != nil || !bytes.HasPrefix(sealed, []byte("before")) || len(sealed) != 6+24+16+length {
			t.Fatalf("%d bytes sealed to %q, %v", length, sealed, err)
		}
		got, stale, err := transformer.Open(t.Context(), at, sealed[6:])
		if err != nil || stale || !bytes.Equal(got, value) {
			t.Errorf("%d bytes opened to %q, stale %v, %v", length, got, stale, err)
		}
	}
	for _, size := range []int{0, 16, 31, 33} {
		if _, err := secretbox.New(make([]byte, size)); err == nil {
			t.Errorf("a key of %d bytes is taken", size)
		}
	}
}

// TestKnown is the example of NaCl's documentation, "Cryptography in NaCl", section 10.
func TestKnown(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	transformer, err := secretbox.New(unhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389"))
	if err != nil {
		t.Fatal(err)
	}
	stored := unhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37" +
		"f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5")
	value, _, err := transformer.Open(t.Context(), at, stored)
	if err != nil || hex.EncodeToString(value[:8]) != "be075fc53c81f2d5" || len(value) != 131 {
		t.Errorf("value %x, %v", value, err)
	}
}

func TestTampered(t *testing.T) {
	transformer := box(t)
	sealed, err := transformer.Seal(t.Context(), nil, at, []byte("some value"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, _, err := transformer.Open(t.Context(), at, changed); !errors.Is(err, secretbox.ErrForged) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		want := secretbox.ErrForged
		if i < 40 {
			want = secretbox.ErrShort
		}
		if _, _, err := transformer.Open(t.Context(), at, sealed[:i]); !errors.Is(err, want) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	transformer := box(f)
	sealed, err := transformer.Seal(f.Context(), nil, at, []byte("some value"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, stored []byte) {
		if bytes.Equal(stored, sealed) {
			return
		}
		if value, _, err := transformer.Open(t.Context(), at, stored); err == nil {
			// Seeds that a former run kept were sealed with the same key.
			if again, _, err := transformer.Open(t.Context(), at, sealed); err != nil || !bytes.Equal(again, value) {
				t.Errorf("forged %q", value)
			}
		}
	})
}

func Example() {
	transformer, err := secretbox.New([]byte("a key that is known to everybody"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	sealed, err := transformer.Seal(ctx, nil, "/registry/secrets/default/one", []byte("value"))
	if err != nil {
		fmt.Println(err)
		return
	}
	value, _, err := transformer.Open(ctx, "/registry/secrets/default/one", sealed)
	fmt.Println(string(value), err)
	// Output: value <nil>
}
