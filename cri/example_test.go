package cri_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// present reports whether an image is there. It asks for no more of a runtime than that takes.
func present(ctx context.Context, images cri.ImageReader, name string) (bool, error) {
	_, err := images.ImageStatus(ctx, cri.ImageSpec{Image: name})
	if errors.Is(err, cri.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// A consumer takes the narrowest part of a runtime, and tells errors apart by sentinels.
func Example() {
	runtime := simulated.New(simulated.Options{Images: []string{"nginx"}})
	defer runtime.Close()
	for _, name := range []string{"nginx", "redis"} {
		there, err := present(context.Background(), runtime, name)
		fmt.Println(name, there, err)
	}
	// Output:
	// nginx true <nil>
	// redis false <nil>
}

// What a runtime said, without the words of the protocol that it came by.
func ExampleDescription() {
	err := fmt.Errorf("image %q: %w", "redis", cri.ErrNotFound)
	fmt.Println(cri.Description(err))
	// Output:
	// image "redis": not found
}
