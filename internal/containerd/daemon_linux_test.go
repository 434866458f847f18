package containerd_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/containerd/containerdtest"
)

func TestStart(t *testing.T) {
	d := containerdtest.Start(t, containerdtest.Options{})
	names, err := d.Images(t.Context())
	t.Log(names, err, d.PID(), d.Socket())
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}
