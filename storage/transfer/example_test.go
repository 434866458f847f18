package transfer_test

import (
	"context"
	"fmt"
	"os"

	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
	"github.com/keelson-dev/keelson/storage/transfer"
	"github.com/keelson-dev/keelson/storage/wal"
)

// Moves a control plane's state from memory to disk.
func Example() {
	ctx := context.Background()
	source := memory.New(memory.Options{})
	defer source.Close()
	if _, err := source.Create(ctx, "/registry/configmaps/default/colours", []byte("red")); err != nil {
		fmt.Println(err)
		return
	}
	revision, err := source.Revision(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}

	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	target, err := wal.Open(dir, wal.Options{FirstRevision: snapshot.Info{Revision: revision}.FirstRevision()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close()
	copied, err := transfer.Copy(ctx, target, source, transfer.CopyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	verified, err := transfer.Verify(ctx, transfer.Side{Store: source, Revision: copied.Revision}, transfer.Side{Store: target}, transfer.VerifyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(copied.Records, "copied, the same:", verified.Equal())
	// Output: 1 copied, the same: true
}
