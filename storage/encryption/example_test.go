package encryption_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Secrets are encrypted with one key; then another takes its place.
func Example() {
	newKey := func(name, key string) encryption.Choice {
		transformer, err := aes.NewGCM([]byte(key))
		if err != nil {
			fmt.Println(err)
		}
		return encryption.Choice{Prefix: "k8s:enc:aesgcm:v1:" + name + ":", Transformer: transformer}
	}
	one := newKey("one", "a key that is known to everybody")
	two := newKey("two", "a key that is known to nobody...")
	none := errors.New("no matching prefix found")

	current := encryption.FirstOf(none, one)
	inner := memory.New(memory.Options{})
	defer inner.Close()
	store := encryption.New(inner, encryption.TransformersFunc(func(key string) encryption.Transformer {
		if strings.HasPrefix(key, "/registry/secrets/") {
			return current
		}
		return encryption.Identity{}
	}))

	ctx := context.Background()
	if _, err := store.Create(ctx, "/registry/secrets/default/a", []byte("value")); err != nil {
		fmt.Println(err)
	}
	current = encryption.FirstOf(none, two, one)
	done, err := encryption.Rewrite(ctx, store, "/registry/secrets/", encryption.RewriteOptions{})
	fmt.Printf("%+v %v\n", done, err)

	current = encryption.FirstOf(none, two)
	record, err := store.Get(ctx, "/registry/secrets/default/a")
	fmt.Println(string(record.Value), err)

	current = encryption.FirstOf(none, one)
	_, err = store.Get(ctx, "/registry/secrets/default/a")
	fmt.Println(errors.Is(err, storage.ErrUnreadable), err)
	// Output:
	// {Current:0 Written:1 Unreadable:0} <nil>
	// value <nil>
	// true no matching prefix found
}
