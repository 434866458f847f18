package waltest_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/keelson-dev/keelson/storage/wal"
	"github.com/keelson-dev/keelson/storage/wal/waltest"
)

// Acknowledged writes survive the crash.
func Example() {
	ctx, disk := context.Background(), waltest.NewDisk(waltest.Options{})
	store, err := disk.Open(wal.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Create(ctx, "a", []byte("1"))
	fmt.Println(err)

	disk.PowerOn(rand.New(rand.NewPCG(1, 1)))
	_ = store.Close()
	store, err = disk.Open(wal.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	record, err := store.Get(ctx, "a")
	fmt.Println(string(record.Value), err, store.Close())
	// Output:
	// <nil>
	// 1 <nil> <nil>
}
