package alwaysallow_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
)

func Example() {
	d, err := alwaysallow.New().Authorize(context.Background(), authz.Attributes{Verb: "delete", Path: "/"})
	fmt.Println(d.Verdict == authz.Allow, err)
	// Output: true <nil>
}
