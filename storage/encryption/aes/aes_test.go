package aes_test

import (
	"bytes"
	"context"
	stdaes "crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
)

const at = "/registry/secrets/default/one"

type form struct {
	name          string
	make          func([]byte) (encryption.Transformer, error)
	authenticated bool
	overhead      int // at least
}

func forms() []form {
	return []form{
		{"gcm", aes.NewGCM, true, 28},
		{"seed", aes.NewSeed, true, 60},
		{"cbc", aes.NewCBC, false, 17},
	}
}

func make32(t testing.TB, f form) encryption.Transformer {
	t.Helper()
	transformer, err := f.make(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return transformer
}

func TestRoundTrip(t *testing.T) {
	for _, f := range forms() {
		for _, size := range []int{16, 24, 32} {
			transformer, err := f.make(bytes.Repeat([]byte{1}, size))
			if f.name == "seed" && size < aes.SeedSize {
				if err == nil {
					t.Errorf("a seed of %d bytes is taken", size)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for length := range 70 {
				value := bytes.Repeat([]byte{'v'}, length)
				sealed, err := transformer.Seal(t.Context(), []byte("before"), at, value)
				if err != nil || !bytes.HasPrefix(sealed, []byte("before")) || len(sealed) < 6+length+f.overhead {
					t.Fatalf("%s: %d bytes sealed to %q, %v", f.name, length, sealed, err)
				}
				got, stale, err := transformer.Open(t.Context(), at, sealed[6:])
				if err != nil || stale || !bytes.Equal(got, value) {
					t.Errorf("%s: %d bytes opened to %q, stale %v, %v", f.name, length, got, stale, err)
				}
				again, err := transformer.Seal(t.Context(), nil, at, value)
				if err != nil || bytes.Equal(again, sealed[6:]) {
					t.Errorf("%s: twice the same stored form, %v", f.name, err)
				}
			}
		}
		if _, err := f.make(make([]byte, 15)); err == nil {
			t.Errorf("%s takes a key of 15 bytes", f.name)
		}
	}
}

// TestKnown: what the specifications give.
func TestKnown(t *testing.T) {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// NIST SP 800-38A F.2.5 (CBC-AES256), whose plaintext ends in no padding: the first block is followed by one
	// that is not padding.
	cbc, err := aes.NewCBC(unhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"))
	if err != nil {
		t.Fatal(err)
	}
	stored := unhex("000102030405060708090a0b0c0d0e0f" + "f58c4c04d6e5f1ba779eabfb5f7bfbd6")
	if _, _, err := cbc.Open(t.Context(), at, stored); !errors.Is(err, aes.ErrPadded) {
		t.Errorf("error %v", err)
	}
	// The GCM specification's case 16 without its data, hence with an empty key of the record.
	gcm, err := aes.NewGCM(unhex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"))
	if err != nil {
		t.Fatal(err)
	}
	stored = unhex("cafebabefacedbaddecaf888" +
		"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad" +
		"b094dac5d93471bdec1a502270e3cc6c")
	value, _, err := gcm.Open(t.Context(), "", stored)
	if err != nil || hex.EncodeToString(value[:8]) != "d9313225f88406e5" || len(value) != 64 {
		t.Errorf("value %x, %v", value, err)
	}
}

func TestRefused(t *testing.T) {
	for _, f := range forms() {
		transformer := make32(t, f)
		for _, stored := range [][]byte{nil, {}, make([]byte, 11)} {
			if _, _, err := transformer.Open(t.Context(), at, stored); !errors.Is(err, aes.ErrShort) {
				t.Errorf("%s: %d bytes: %v", f.name, len(stored), err)
			}
		}
		for size := range 100 {
			if _, _, err := transformer.Open(t.Context(), at, make([]byte, size)); err == nil {
				t.Errorf("%s: %d zeros are a value", f.name, size)
			}
		}
	}
	cbc := make32(t, forms()[2])
	for size, want := range map[int]error{16: aes.ErrPadded, 17: aes.ErrBlocks} {
		if _, _, err := cbc.Open(t.Context(), at, make([]byte, size)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

// TestTampered: every change is noticed, and so is a move to another key.
func TestTampered(t *testing.T) {
	for _, f := range forms() {
		if !f.authenticated {
			continue
		}
		transformer := make32(t, f)
		sealed, err := transformer.Seal(t.Context(), nil, at, []byte("some value"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range sealed {
			for bit := range 8 {
				changed := bytes.Clone(sealed)
				changed[i] ^= 1 << bit
				if value, _, err := transformer.Open(t.Context(), at, changed); err == nil {
					t.Fatalf("%s: bit %d of byte %d changed: %q", f.name, bit, i, value)
				}
			}
			if value, _, err := transformer.Open(t.Context(), at, sealed[:i]); err == nil {
				t.Fatalf("%s: cut to %d bytes: %q", f.name, i, value)
			}
		}
		if value, _, err := transformer.Open(t.Context(), at+"2", sealed); err == nil {
			t.Errorf("%s: at another key: %q", f.name, value)
		}
	}
}

func FuzzOpen(f *testing.F) {
	var transformers []encryption.Transformer
	for _, form := range forms() {
		transformer := make32(f, form)
		transformers = append(transformers, transformer)
		for _, value := range []string{"", "v", "a value longer than a block"} {
			sealed, err := transformer.Seal(f.Context(), nil, at, []byte(value))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(sealed)
		}
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		for i, transformer := range transformers {
			// The fuzzer has no way to seal: what opens, under a key that no value was sealed at, is forged.
			value, _, err := transformer.Open(t.Context(), at+"/elsewhere", stored)
			if err == nil && forms()[i].authenticated {
				t.Errorf("forged %q", value)
			}
			_, _, _ = transformer.Open(t.Context(), at, stored)
		}
	})
}

func Example() {
	transformer, err := aes.NewGCM([]byte("a key that is known to everybody"))
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
	_, _, err = transformer.Open(ctx, "/registry/secrets/default/two", sealed)
	fmt.Println(err)
	// Output:
	// value <nil>
	// cipher: message authentication failed
}

// TestShort: what is too short to be anything is told from what does not fit the key.
func TestShort(t *testing.T) {
	for _, f := range forms() {
		transformer := make32(t, f)
		shortest := map[bool]int{true: 12, false: 16}[f.authenticated] // a nonce, or a vector
		if sealed, err := transformer.Seal(t.Context(), nil, at, nil); err != nil {
			t.Fatal(err)
		} else if f.authenticated {
			shortest = len(sealed) - 16 // all but the tag
		}
		for size, want := range map[int]bool{0: true, shortest - 1: true, shortest: false, shortest + 1: false} {
			if _, _, err := transformer.Open(t.Context(), at, make([]byte, size)); err == nil || errors.Is(err, aes.ErrShort) != want {
				t.Errorf("%s: %d bytes: %v", f.name, size, err)
			}
		}
	}
}

// TestPaddings: CBC's padding is of one to all bytes, which all say how many they are.
func TestPaddings(t *testing.T) {
	key := bytes.Repeat([]byte("k"), 32)
	transformer, err := aes.NewCBC(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := stdaes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	fifteen, all := strings.Repeat("x", 15), strings.Repeat("\x10", 16)
	for plain, c := range map[string]struct {
		value string
		err   error
	}{
		fifteen + "\x01":             {fifteen, nil},
		fifteen[1:] + "\x02\x02":     {fifteen[1:], nil},
		fifteen + "x" + all:          {fifteen + "x", nil},
		strings.Repeat("\x20", 32):   {"", nil}, // longer than a block, as upstream takes it
		fifteen + "\x00":             {"", aes.ErrPadded},
		fifteen + "\x11":             {"", aes.ErrPadded},
		fifteen[1:] + "\x01\x02":     {"", aes.ErrPadding},
		"\x0f" + all[1:]:             {"", aes.ErrPadding},
		fifteen[2:] + "\x03\x02\x03": {"", aes.ErrPadding},
	} {
		stored := make([]byte, 16+len(plain))
		cipher.NewCBCEncrypter(block, stored[:16]).CryptBlocks(stored[16:], []byte(plain))
		value, _, err := transformer.Open(t.Context(), at, stored)
		if !errors.Is(err, c.err) || string(value) != c.value {
			t.Errorf("%q: %q, %v; want %q, %v", plain, value, err, c.value, c.err)
		}
	}
}
