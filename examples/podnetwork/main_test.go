//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/node/nodetools"
)

func TestTwoNamespacesGreetEachOther(t *testing.T) {
	tools, err := nodetools.Find(nodetools.Options{})
	if os.Getuid() != 0 || err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("networks need root and plugins: %v", err)
		}
		t.Skipf("networks need root and plugins: %v", err)
	}
	var out strings.Builder
	if err := run(t.Context(), tools.CNI, &out); err != nil {
		t.Fatal(err)
	}
	want := "server has 10.88.77.2\nclient has 10.88.77.3\nclient hears: hello 10.88.77.3, this is server\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
