package memory_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Reads a list page by page, at the revision of its first page, during deletions.
func ExampleStore_List() {
	ctx := context.Background()
	store := memory.New(memory.Options{})
	defer store.Close()
	for _, key := range []string{"a", "b", "c"} {
		if _, err := store.Create(ctx, key, nil); err != nil {
			fmt.Println(err)
			return
		}
	}

	options := storage.ListOptions{Limit: 2}
	for more := true; more; {
		page, err := store.List(ctx, "", options)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, r := range page.Records {
			fmt.Println(r.Key)
			if _, err := store.Delete(ctx, r.Key, r.Revision); err != nil {
				fmt.Println(err)
			}
		}
		options.Revision, options.After = page.Revision, page.Records[len(page.Records)-1].Key
		more = page.More
	}
	// Output:
	// a
	// b
	// c
}
