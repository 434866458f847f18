package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
)

// Writes the state of a store to a file, and begins another with it.
func Example() {
	ctx := context.Background()
	source := memory.New(memory.Options{})
	defer source.Close()
	if _, err := source.Create(ctx, "/registry/configmaps/default/colours", []byte("red")); err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state")
	if _, err := snapshot.WriteFile(ctx, path, source, snapshot.WriteOptions{}); err != nil {
		fmt.Println(err)
		return
	}

	file, err := os.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := snapshot.Check(ctx, file, stat.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	target := memory.New(memory.Options{FirstRevision: info.FirstRevision()})
	defer target.Close()
	restored, err := snapshot.Restore(ctx, target, file, stat.Size(), snapshot.RestoreOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(restored.Records, "record of revision", restored.Revision, "and before; the store is at", restored.Newest)
	// Output: 1 record of revision 2 and before; the store is at 1000000003
}
