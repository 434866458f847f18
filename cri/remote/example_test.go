package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
)

// A client of a runtime that is not there yet: calls fail at once, and work as soon as it is there.
func Example() {
	runtime, err := remote.New(filepath.Join(os.TempDir(), "no-such-runtime.sock"), remote.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = runtime.Close() }()

	_, err = runtime.Version(context.Background())
	fmt.Println(errors.Is(err, cri.ErrUnavailable))
	// Output:
	// true
}
