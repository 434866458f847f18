package wal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/storage/wal"
)

// Writes a record, and finds it again in a store opened later.
func Example() {
	parent, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "state")
	ctx := context.Background()

	store, err := wal.Open(dir, wal.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := store.Create(ctx, "/registry/configmaps/default/colours", []byte("red")); err != nil {
		fmt.Println(err)
	}
	if err := store.Close(); err != nil {
		fmt.Println(err)
	}

	store, err = wal.Open(dir, wal.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	record, err := store.Get(ctx, "/registry/configmaps/default/colours")
	fmt.Printf("%s %v\n", record.Value, err)
	// Output: red <nil>
}
