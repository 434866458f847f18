package alwaysdeny_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysdeny"
)

func Example() {
	d, err := alwaysdeny.New().Authorize(context.Background(), authz.Attributes{Verb: "get", Path: "/healthz"})
	fmt.Println(d.Verdict == authz.NoOpinion, d.Reason, err)
	// Output: true Everything is forbidden. <nil>
}
