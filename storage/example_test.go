package storage_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Lists the state once, then follows it from the list's revision on.
func Example() {
	ctx := context.Background()
	store := memory.New(memory.Options{})
	defer store.Close()

	first, err := store.Create(ctx, "/registry/configmaps/default/colours", []byte("red"))
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := store.List(ctx, "/registry/", storage.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	changes, err := store.Watch(ctx, "/registry/", page.Revision)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer changes.Close()

	if _, err := store.Update(ctx, page.Records[0].Key, []byte("green"), first); err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Update(ctx, page.Records[0].Key, []byte("blue"), first)
	fmt.Println("second writer:", errors.Is(err, storage.ErrConflict))

	events, err := changes.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		fmt.Printf("%s: %s, was %s\n", e.Key, e.Value, e.Prev)
	}
	// Output:
	// second writer: true
	// /registry/configmaps/default/colours: green, was red
}
